/*
 * zoo-longjmp: five frames that end at once.
 *
 * round saves its registers with set, descends five frames, and the innermost
 * goes back with jump, which returns from set a second time. Whoever pairs
 * calls with returns has five frames too many from then on, five more with
 * each round. The CFI is right everywhere but in jump, after the registers are
 * round's: its row says so with "undefined".
 */
#include "zoo.h"

	.bss
	.balign	8
buffer:	.skip	24			/* rbp, rsp after the return, rip */
	.text

func round
	enter_frame
	call	set
	test	%eax, %eax
	jnz	1f
	mov	$5, %edi
	call	descend
	mov	$2, %eax		/* never */
	jmp	2f
1:	call	leaf
	xor	%eax, %eax
2:	leave_frame
	ret
end round

func descend
	open_frame 40
	dec	%edi
	jnz	1f
	mov	$1, %edi
	call	jump
1:	call	descend
	close_frame 40
	ret
end descend

func set
	mov	%rbp, buffer(%rip)
	lea	8(%rsp), %rax
	mov	%rax, buffer+8(%rip)
	mov	(%rsp), %rax
	mov	%rax, buffer+16(%rip)
	xor	%eax, %eax
	ret
end set

func jump
	mov	%edi, %eax
	mov	buffer+16(%rip), %rdx
	mov	buffer(%rip), %rbp
	mov	buffer+8(%rip), %rsp
	.cfi_undefined rip
	jmp	*%rdx
end jump

func leaf
	nop
	ret
end leaf
