/*
 * zoo-fp-without-cfi: code with frame pointers and no CFI in the middle of a
 * chain that has CFI.
 *
 * builtin is the code that a language's runtime embeds in its executable,
 * probe the hand-written helper that touches each page of a large frame. Both
 * keep frame records and nothing describes them: an unwinder that goes by
 * tables alone stops in them, and in leaf when builtin has called it. One that
 * falls back to frame pointers goes on.
 */
#include "zoo.h"

func round
	enter_frame
	bl	builtin
	bl	large
	mov	w0, #0
	leave_frame
	ret
end round

bare builtin
	stp	x29, x30, [sp, #-32]!
	mov	x29, sp
	bl	leaf
	nop
	ldp	x29, x30, [sp], #32
	ret
bare_end builtin

/* a frame of three pages */
func large
	enter_frame
	mov	x0, #0x3000
	bl	probe
	sub	sp, sp, x0
	nop
	mov	sp, x29
	leave_frame
	ret
end large

/* probe(x0 bytes): touches each page below the caller's frame */
bare probe
	stp	x29, x30, [sp, #-16]!
	mov	x29, sp
	mov	x1, x0
1:	sub	sp, sp, #0x1000
	str	xzr, [sp]
	subs	x1, x1, #0x1000
	b.hi	1b
	mov	sp, x29
	ldp	x29, x30, [sp], #16
	ret
bare_end probe

func leaf
	enter_frame
	nop
	leave_frame
	ret
end leaf
