/*
 * zoo-faked-call: a signal handler that makes a fault look like a call.
 *
 * As a language runtime turns a fault into a panic: the handler pushes the
 * address after the faulting instruction onto the interrupted stack, moves the
 * saved stack pointer, and lets the kernel "return" to injected. To the program
 * faults has called injected, and injected returns there; that is what tables
 * say, and what such a runtime wants to see in a trace. No call instruction ran,
 * but the context that the handler left is that of a call, and so it is one in
 * the true stack: tables are right, and frame pointers wrong at its ends only.
 */
#include "zoo.h"

#define SIGILL		4
#define SA_SIGINFO	0x4
#define SA_RESTORER	0x04000000
#define UC_RSP	160
#define UC_RIP	168

	.section .rodata
	.balign	8
action:	.quad	handler
	.quad	SA_SIGINFO | SA_RESTORER
	.quad	restorer
	.quad	0
	.text

func round
	enter_frame
	mov	$__NR_rt_sigaction, %eax
	mov	$SIGILL, %edi
	lea	action(%rip), %rsi
	xor	%edx, %edx
	mov	$8, %r10d
	syscall
	test	%eax, %eax
	jnz	1f
	call	faults
1:	leave_frame
	ret
end round

func faults
	open_frame 24
	mov	$1, %eax
	ud2				/* injected makes it 0 */
	nop
	close_frame 24
	ret
end faults

func handler
	mov	UC_RIP(%rdx), %rax
	add	$2, %rax
	mov	UC_RSP(%rdx), %rcx
	sub	$8, %rcx
	mov	%rax, (%rcx)
	mov	%rcx, UC_RSP(%rdx)
	lea	injected(%rip), %rax
	mov	%rax, UC_RIP(%rdx)
	ret
end handler

func injected
	enter_frame
	xor	%eax, %eax
	leave_frame
	ret
end injected

	nop
	.globl	restorer
	.type	restorer, @function
	.cfi_startproc
	.cfi_signal_frame
	.cfi_escape 0x0f, 4, 0x77, 0xa0, 0x01, 0x06
	.cfi_escape 0x10, 6, 3, 0x77, 0xf8, 0x00
	.cfi_escape 0x10, 16, 3, 0x77, 0xa8, 0x01
	nop
restorer:
	mov	$__NR_rt_sigreturn, %eax
	syscall
	.size	restorer, . - restorer
	.cfi_endproc
