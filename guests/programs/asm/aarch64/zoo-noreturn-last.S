/*
 * zoo-noreturn-last: a call that is the last instruction of its function.
 *
 * ends_in_call calls die, which never returns, and that is its end: the return
 * address is the first of next, which has another frame. A caller has to be
 * looked up one byte before its return address, or next's rule is taken; and
 * what is reported is the return address itself, not the address looked up.
 * (die goes back to round by hand, as longjmp does.)
 */
#include "zoo.h"

	.data
	.balign	8
saved:	.quad	0
	.text

func round
	open_frame 16
	adrp	x1, saved
	mov	x2, sp
	str	x2, [x1, #:lo12:saved]
	bl	ends_in_call
	.globl	back
back:
	mov	w0, #0
	close_frame 16
	ret
end round

	.p2align 4
func ends_in_call
	str	x30, [sp, #-48]!
	.cfi_def_cfa_offset 48
	.cfi_offset x30, -48
	bl	die
end ends_in_call

func next
	str	x30, [sp, #-16]!	/* never run */
	.cfi_def_cfa_offset 16
	.cfi_offset x30, -16
	ldr	x30, [sp], #16
	.cfi_def_cfa_offset 0
	.cfi_restore x30
	ret
end next

func die
	str	x30, [sp, #-16]!
	.cfi_def_cfa_offset 16
	.cfi_offset x30, -16
	bl	leaf
	nop
	adrp	x1, saved
	ldr	x2, [x1, #:lo12:saved]
	adr	x3, back
	mov	sp, x2
	.cfi_undefined x30		/* nothing of die is left: no rule is right */
	br	x3
end die

func leaf
	nop
	ret
end leaf
