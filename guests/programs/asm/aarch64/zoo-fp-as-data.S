/*
 * zoo-fp-as-data: the frame pointer as one more register.
 *
 * counts uses x29 for numbers, some of which are addresses: of nothing, of an
 * unmapped page, of the stack but not of a record, of code. It saves x29 and
 * says where, so that the CFI is right everywhere. A frame-pointer chain reads
 * what is there.
 */
#include "zoo.h"

func round
	enter_frame
	bl	counts
	mov	w0, #0
	leave_frame
	ret
end round

func counts
	stp	x29, x30, [sp, #-16]!
	.cfi_def_cfa_offset 16
	.cfi_offset x29, -16
	.cfi_offset x30, -8
	mov	w29, #3
1:	subs	w29, w29, #1
	b.ne	1b
	mov	x29, #0x7000000000	/* unmapped */
	nop
	sub	x29, sp, #256		/* mapped, below the stack */
	nop
	adr	x29, counts
	nop
	mov	x29, #-1
	nop
	ldp	x29, x30, [sp], #16
	.cfi_def_cfa_offset 0
	.cfi_restore x29
	.cfi_restore x30
	ret
end counts
