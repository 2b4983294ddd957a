/*
 * zoo-faked-call: a signal handler that makes a fault look like a call.
 *
 * As a language runtime turns a fault into a panic: the handler puts the
 * address after the faulting instruction into the saved x30, and lets the
 * kernel "return" to injected. To the program
 * faults has called injected, and injected returns there; that is what tables
 * say, and what such a runtime wants to see in a trace. No call instruction ran,
 * but the context that the handler left is that of a call, and so it is one in
 * the true stack: tables are right, and frame pointers wrong at its ends only.
 */
#include "zoo.h"

#define SIGILL		4
#define SA_SIGINFO	0x4
#define UC_X30		424
#define UC_PC		440

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
	mov	w0, #SIGILL
	adrp	x1, action
	add	x1, x1, #:lo12:action
	mov	x2, xzr
	mov	x3, #8
	svc	#0
	cbnz	w0, 1f
	bl	faults
1:	leave_frame
	ret
end round

func faults
	open_frame 32
	mov	w0, #1
	udf	#0			/* injected makes it 0 */
	nop
	close_frame 32
	ret
end faults

func handler
	ldr	x3, [x2, #UC_PC]
	add	x3, x3, #4
	str	x3, [x2, #UC_X30]
	adr	x3, injected
	str	x3, [x2, #UC_PC]
	ret
end handler

func injected
	enter_frame
	mov	w0, #0
	leave_frame
	ret
end injected
