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
	stp	x29, x30, [sp, #-32]!
	.cfi_def_cfa_offset 32
	.cfi_offset x29, -32
	.cfi_offset x30, -24
	mov	x29, sp
	str	x20, [sp, #16]
	.cfi_offset x20, -16
	/* as if coroutine had called switch: its registers, where it goes on */
	adrp	x1, stack_end
	add	x1, x1, #:lo12:stack_end
	adr	x2, coroutine
	stp	xzr, x2, [x1, #-16]!
	stp	xzr, xzr, [x1, #-16]!
	adrp	x0, here
	str	x1, [x0, #:lo12:here]
	mov	w20, #5
1:	bl	switch
	subs	w20, w20, #1
	b.ne	1b
	mov	w0, #0
	ldr	x20, [sp, #16]
	.cfi_restore x20
	ldp	x29, x30, [sp], #32
	.cfi_def_cfa_offset 0
	.cfi_restore x29
	.cfi_restore x30
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
	str	x20, [sp, #-16]!
	.cfi_def_cfa_offset 32
	.cfi_offset x20, -32
	adrp	x0, here
	ldr	x1, [x0, #:lo12:here]
	mov	x2, sp
	str	x2, [x0, #:lo12:here]
	mov	sp, x1
	ldr	x20, [sp], #16
	.cfi_def_cfa_offset 16
	.cfi_restore x20
	ldp	x29, x30, [sp], #16
	.cfi_def_cfa_offset 0
	.cfi_restore x29
	.cfi_restore x30
	ret
end switch
