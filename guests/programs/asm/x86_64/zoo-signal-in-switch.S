/*
 * zoo-signal-in-switch: a signal between two stacks.
 *
 * As zoo-coroutine, but a trap comes after switch has set the stack pointer and
 * before it returns on the other stack: the handler runs there, in frames that
 * the frames of neither stack have called.
 */
#include "zoo.h"

	.bss
	.balign	16
	.skip	16384
stack_end:
here:	.quad	0			/* stack pointer of the one that waits */

	.data
	/* handler, SA_SIGINFO | SA_RESTORER, restorer, mask */
action:	.quad	handler, 0x04000004, restorer, 0
	.text

func round
	enter_frame
	lea	action(%rip), %rsi
	mov	$5, %edi		/* SIGTRAP */
	xor	%edx, %edx
	mov	$8, %r10d
	mov	$__NR_rt_sigaction, %eax
	syscall
	/* as if coroutine had called switch: its rbp, where it goes on */
	lea	stack_end-16(%rip), %rdx
	lea	coroutine(%rip), %rax
	mov	%rax, (%rdx)
	sub	$8, %rdx		/* rbp is 0 */
	movq	$0, (%rdx)
	mov	%rdx, here(%rip)
	call	switch
	call	switch
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
	mov	here(%rip), %rax
	mov	%rsp, here(%rip)
	mov	%rax, %rsp
	int3
	pop	%rbp
	.cfi_def_cfa_offset 8
	.cfi_restore %rbp
	ret
end switch

func handler
	enter_frame
	call	helper
	leave_frame
	ret
end handler

func helper
	nop
	ret
end helper

bare restorer
	mov	$__NR_rt_sigreturn, %eax
	syscall
bare_end restorer
