/*
 * zoo-signal-in-switch: a signal between two stacks.
 *
 * As zoo-coroutine, but a trap comes after switch has set the stack pointer and
 * before it returns on the other stack: the handler runs there, in frames that
 * the frames of neither stack have called. It steps over the trap.
 */
#include "zoo.h"

	.bss
	.balign	16
	.skip	32768
stack_end:
here:	.quad	0			/* stack pointer of the one that waits */

	.data
	/* handler, SA_SIGINFO, no restorer, mask */
action:	.quad	handler, 4, 0, 0
	.text

func round
	enter_frame
	adrp	x1, action
	add	x1, x1, #:lo12:action
	mov	x0, #5			/* SIGTRAP */
	mov	x2, #0
	mov	x3, #8
	mov	x8, #__NR_rt_sigaction
	svc	#0
	/* as if coroutine had called switch: its x29, where it goes on */
	adrp	x1, stack_end
	add	x1, x1, #:lo12:stack_end
	adr	x2, coroutine
	stp	xzr, x2, [x1, #-16]!
	adrp	x0, here
	str	x1, [x0, #:lo12:here]
	bl	switch
	bl	switch
	mov	w0, #0
	leave_frame
	ret
end round

func coroutine
	.cfi_undefined x30
1:	bl	deeper
	b	1b
end coroutine

func deeper
	enter_frame
	bl	switch
	leave_frame
	ret
end deeper

func switch
	stp	x29, x30, [sp, #-16]!
	.cfi_def_cfa_offset 16
	.cfi_offset x29, -16
	.cfi_offset x30, -8
	adrp	x0, here
	ldr	x1, [x0, #:lo12:here]
	mov	x2, sp
	str	x2, [x0, #:lo12:here]
	mov	sp, x1
	brk	#0
	ldp	x29, x30, [sp], #16
	.cfi_def_cfa_offset 0
	.cfi_restore x29
	.cfi_restore x30
	ret
end switch

func handler
	enter_frame
	ldr	x0, [x2, #440]		/* pc in the ucontext */
	add	x0, x0, #4
	str	x0, [x2, #440]
	bl	helper
	leave_frame
	ret
end handler

func helper
	nop
	ret
end helper
