/*
 * zoo-clobbered-fp: a callee that stores over its caller's saved frame pointer.
 *
 * clobbers writes x29 to where x29 points, as assembly with a frame of size
 * zero did that put its own record in the wrong slot, and later repairs it. In
 * between the caller's record points to itself: a frame-pointer chain goes
 * round and round. The tables do not go by x29 (victim's CFA is sp's), so
 * that their return addresses are right; the x29 that they recover is not.
 */
#include "zoo.h"

func round
	open_frame 16
	bl	victim
	mov	w0, #0
	close_frame 16
	ret
end round

func victim
	stp	x29, x30, [sp, #-16]!
	.cfi_def_cfa_offset 16
	.cfi_offset x29, -16
	.cfi_offset x30, -8
	mov	x29, sp			/* a frame record that the CFI does not use */
	bl	clobbers
	ldp	x29, x30, [sp], #16
	.cfi_def_cfa_offset 0
	.cfi_restore x29
	.cfi_restore x30
	ret
end victim

func clobbers
	ldr	x1, [x29]
	str	x29, [x29]
	nop
	nop
	str	x1, [x29]
	ret
end clobbers
