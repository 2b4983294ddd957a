/*
 * zoo-noreturn-last: a call that is the last instruction of its function.
 *
 * ends_in_call calls die, which never returns, and that is its end: the return
 * address is the first of next, which has another frame. A caller has to be
 * looked up one byte before its return address, or next's rule is taken; and
 * what is reported is the return address itself, not the address looked up.
 * (die goes back to round by hand, as longjmp does.)
 */
#include "zoo.h"

	.data
	.balign	8
saved:	.quad	0
	.text

func round
	push	%rbp
	.cfi_def_cfa_offset 16
	.cfi_offset %rbp, -16
	mov	%rsp, saved(%rip)
	call	ends_in_call
	.globl	back
back:
	xor	%eax, %eax
	pop	%rbp
	.cfi_def_cfa_offset 8
	.cfi_restore %rbp
	ret
end round

	.p2align 4
func ends_in_call
	sub	$40, %rsp
	.cfi_def_cfa_offset 48
	call	die
end ends_in_call

func next
	push	%rbx			/* never run */
	.cfi_def_cfa_offset 16
	.cfi_offset %rbx, -16
	pop	%rbx
	.cfi_def_cfa_offset 8
	ret
end next

func die
	push	%rax
	.cfi_def_cfa_offset 16
	call	leaf
	nop
	mov	saved(%rip), %rdx
	lea	back(%rip), %rax
	mov	%rdx, %rsp
	.cfi_undefined rip		/* nothing of die is left: no rule is right */
	jmp	*%rax
end die

func leaf
	nop
	ret
end leaf
