/*
 * zoo-sigframe-first-insn: a signal that interrupts a function at its first
 * instruction.
 *
 * faults begins with a load from address 0; the handler changes the register. The
 * frame below the signal frame is an interrupted instruction and not a return
 * address: whoever looks it up one byte lower, as for calls, gets the rule of
 * neighbour, whose frame is larger. The restorer is described as glibc's
 * is: a signal frame whose rules are expressions on the context that the
 * kernel saved.
 */
#include "zoo.h"

#define SIGSEGV		11
#define SA_SIGINFO	0x4
#define SA_RESTORER	0x04000000
/* offsets in the frame that the restorer finds at %rsp: struct ucontext */
#define UC_RDI	104
#define UC_RBP	120
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
	mov	$SIGSEGV, %edi
	lea	action(%rip), %rsi
	xor	%edx, %edx
	mov	$8, %r10d
	syscall
	test	%eax, %eax
	jnz	1f
	xor	%edi, %edi
	call	faults
	xor	%eax, %eax
1:	leave_frame
	ret
end round

func neighbour
	sub	$200, %rsp		/* never run: only its last row matters */
	.cfi_def_cfa_offset 208
	hlt
end neighbour
func faults
	mov	(%rdi), %rax
	nop
	ret
end faults

/* handler(signal, information, context): there is a word at action */
func handler
	enter_frame
	lea	action(%rip), %rax
	mov	%rax, UC_RDI(%rdx)
	call	leaf
	leave_frame
	ret
end handler

func leaf
	nop
	ret
end leaf

	nop				/* lookups at restorer - 1 stay in its FDE */
	.globl	restorer
	.type	restorer, @function
	.cfi_startproc
	.cfi_signal_frame
	/* CFA: the saved stack pointer. breg7 UC_RSP, deref */
	.cfi_escape 0x0f, 4, 0x77, 0xa0, 0x01, 0x06
	/* rbp, rip: where the kernel saved them. breg7 … */
	.cfi_escape 0x10, 6, 3, 0x77, 0xf8, 0x00
	.cfi_escape 0x10, 16, 3, 0x77, 0xa8, 0x01
	nop
restorer:
	mov	$__NR_rt_sigreturn, %eax
	syscall
	.size	restorer, . - restorer
	.cfi_endproc
