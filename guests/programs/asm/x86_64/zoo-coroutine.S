/*
 * zoo-coroutine: two stacks and a symmetric switch between them.
 *
 * round builds the first frame of a coroutine by hand on a stack of its own,
 * then switches to it and back five times. The coroutine's outermost frame is
 * coroutine, whose caller does not exist: its return address is marked
 * undefined. A copied window of one stack never contains the other. switch
 * pushes what calls preserve on the old stack and pops it from the new: its
 * CFI fits both sides, since both look the same. The stack changes under it
 * with one instruction and control with a later one, its return; in between an
 * unwinder finds the frames of the new stack, while the old ones are still
 * those that called.
 */
#include "zoo.h"

	.bss
	.balign	16
	.skip	4096
stack_end:
here:	.quad	0			/* stack pointer of the one that waits */
	.text

func round
	enter_frame
	/* as if coroutine had called switch: its registers, where it goes on */
	lea	stack_end-16(%rip), %rdx
	lea	coroutine(%rip), %rax
	mov	%rax, (%rdx)
	sub	$16, %rdx		/* rbp and rbx are 0 */
	movq	$0, (%rdx)
	movq	$0, 8(%rdx)
	mov	%rdx, here(%rip)
	push	%rbx
	push	%rbx
	.cfi_offset %rbx, -24
	mov	$5, %ebx
1:	call	switch
	dec	%ebx
	jnz	1b
	pop	%rbx
	pop	%rbx
	.cfi_restore %rbx
	xor	%eax, %eax
	leave_frame
	ret
end round

func coroutine
	.cfi_undefined rip
1:	call	deeper
	jmp	1b
end coroutine

func deeper
	enter_frame
	call	switch
	leave_frame
	ret
end deeper

func switch
	push	%rbp
	.cfi_def_cfa_offset 16
	.cfi_offset %rbp, -16
	push	%rbx
	.cfi_def_cfa_offset 24
	.cfi_offset %rbx, -24
	mov	here(%rip), %rax
	mov	%rsp, here(%rip)
	mov	%rax, %rsp
	pop	%rbx
	.cfi_def_cfa_offset 16
	.cfi_restore %rbx
	pop	%rbp
	.cfi_def_cfa_offset 8
	.cfi_restore %rbp
	ret
end switch
