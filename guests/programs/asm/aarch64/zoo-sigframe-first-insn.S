/*
 * zoo-sigframe-first-insn: a signal that interrupts a function at its first
 * instruction.
 *
 * faults begins with a load from address 0; the handler changes the register. The
 * frame below the signal frame is an interrupted instruction and not a return
 * address: whoever looks it up one byte lower, as for calls, gets the rule of
 * neighbour, whose frame is larger. There is no restorer: on this architecture
 * handlers return to the vDSO's trampoline, which has no name in the program
 * and, since Linux 5.8, no CFI on purpose: it has to be known by its code.
 */
#include "zoo.h"

#define SIGSEGV		11
#define SA_SIGINFO	0x4
/* struct rt_sigframe from the handler's third argument, the struct ucontext */
#define UC_X0		184

	.section .rodata
	.balign	8
action:	.quad	handler
	.quad	SA_SIGINFO
	.quad	0
	.quad	0
	.text

func round
	enter_frame
	mov	x8, #__NR_rt_sigaction
	mov	w0, #SIGSEGV
	adrp	x1, action
	add	x1, x1, #:lo12:action
	mov	x2, xzr
	mov	x3, #8
	svc	#0
	cbnz	w0, 1f
	mov	x0, xzr
	bl	faults
	mov	w0, #0
1:	leave_frame
	ret
end round

func neighbour
	str	x30, [sp, #-208]!	/* never run: only its last row matters */
	.cfi_def_cfa_offset 208
	.cfi_offset x30, -208
	brk	#0
end neighbour
func faults
	ldr	x0, [x0]
	nop
	ret
end faults

/* handler(signal, information, context): there is a word at action */
func handler
	enter_frame
	adrp	x3, action
	add	x3, x3, #:lo12:action
	str	x3, [x2, #UC_X0]
	bl	leaf
	leave_frame
	ret
end handler

func leaf
	nop
	ret
end leaf
