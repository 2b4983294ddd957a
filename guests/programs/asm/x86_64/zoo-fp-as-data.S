/*
 * zoo-fp-as-data: the frame pointer as one more register.
 *
 * counts uses %rbp for numbers, some of which are addresses: of nothing, of an
 * unmapped page, of the stack but not of a record, of code. It saves %rbp and
 * says where, so that the CFI is right everywhere. A frame-pointer chain reads
 * what is there.
 */
#include "zoo.h"

func round
	enter_frame
	call	counts
	xor	%eax, %eax
	leave_frame
	ret
end round

func counts
	push	%rbp
	.cfi_def_cfa_offset 16
	.cfi_offset %rbp, -16
	mov	$3, %ebp
1:	dec	%ebp
	jnz	1b
	mov	$0x7000000000, %rbp	/* unmapped */
	nop
	lea	-256(%rsp), %rbp	/* mapped, below the stack */
	nop
	lea	counts(%rip), %rbp
	nop
	mov	$-1, %rbp
	nop
	pop	%rbp
	.cfi_def_cfa_offset 8
	.cfi_restore %rbp
	ret
end counts
