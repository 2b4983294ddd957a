/*
 * zoo-lr-loop: a function that never returns and so saves no return address.
 *
 * On aarch64 the call in diverges overwrites the only copy of its return
 * address, and its CFI says nothing of it: the same address is found again and
 * again. Here the call instruction pushes it, and the same CFI is right.
 */
#include "zoo.h"

	.data
	.balign	8
saved:	.quad	0
	.text

func round
	open_frame 8
	mov	%rsp, saved(%rip)
	call	diverges
	.globl	back
back:
	xor	%eax, %eax
	close_frame 8
	ret
end round

func diverges
	sub	$40, %rsp
	.cfi_def_cfa_offset 48
	call	work
	nop
	mov	saved(%rip), %rdx
	lea	back(%rip), %rax
	mov	%rdx, %rsp
	.cfi_undefined rip
	jmp	*%rax
end diverges

func work
	open_frame 24
	call	leaf
	close_frame 24
	ret
end work

func leaf
	nop
	ret
end leaf
