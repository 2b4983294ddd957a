/*
 * zoo-sframe-wide: frames whose sizes need one, two and four bytes.
 *
 * SFrame packs the offsets of a row in words of the smallest size that fits.
 * A consumer that packs them further, into its own table, may find some that
 * do not fit: if one such row discards its whole function, prologue and
 * epilogue are lost as well. wide has rows of both sizes. The assembler
 * writes the section; it is right everywhere.
 */
#include "zoo.h"

	/* x30 at the top; then the frame grows by \more */
	.macro	open_wide more, shift=0
	str	x30, [sp, #-16]!
	.cfi_def_cfa_offset 16
	.cfi_offset x30, -16
	sub	sp, sp, #\more, lsl #\shift
	.cfi_def_cfa_offset 16 + (\more << \shift)
	.endm
	.macro	close_wide more, shift=0
	add	sp, sp, #\more, lsl #\shift
	.cfi_def_cfa_offset 16
	ldr	x30, [sp], #16
	.cfi_def_cfa_offset 0
	.cfi_restore x30
	.endm

func round
	enter_frame
	bl	narrow
	bl	medium
	bl	wide
	mov	w0, #0
	leave_frame
	ret
end round

func narrow
	open_wide 96
	bl	leaf
	close_wide 96
	ret
end narrow

func medium
	open_wide 5, 12
	bl	leaf
	close_wide 5, 12
	ret
end medium

func wide
	open_wide 244, 12
	bl	leaf
	close_wide 244, 12
	ret
end wide

func leaf
	nop
	ret
end leaf
