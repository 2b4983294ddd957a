/*
 * zoo-two-exits: functions with two epilogues.
 *
 * CFI is evaluated along the listing while the program runs along the graph.
 * After the first epilogue the state has to be put back:
 *
 *   forgotten   it is not: from its second part on the CFA lies below what it
 *               is, in the end below the stack pointer. Such a row is invalid;
 *               an unwinder that takes it for the root of the stack claims a
 *               complete stack that is not
 *   remembered  .cfi_remember_state and .cfi_restore_state: right everywhere
 *   toggled     signs its return address. One bit that each directive toggles:
 *               after the first epilogue it says "not signed", and a signed
 *               address is reported as it is
 *   signed      the same with the state put back: right everywhere
 *
 * In the last two the block that is listed last runs before the epilogue that is
 * listed before it.
 */
	.arch	armv8.3-a
#include "zoo.h"

func round
	enter_frame
	mov	w0, #0
	bl	forgotten
	mov	w0, #1
	bl	forgotten
	mov	w0, #0
	bl	remembered
	mov	w0, #1
	bl	remembered
	mov	w0, #0
	bl	toggled
	mov	w0, #1
	bl	toggled
	mov	w0, #0
	bl	signed
	mov	w0, #1
	bl	signed
	mov	w0, #0
	leave_frame
	ret
end round

func forgotten
	str	x30, [sp, #-32]!
	.cfi_adjust_cfa_offset 32
	.cfi_offset x30, -32
	cbnz	w0, 1f
	ldr	x30, [sp], #32
	.cfi_adjust_cfa_offset -32
	.cfi_restore x30
	ret
1:	mov	x30, xzr		/* CFA = sp + 32; the row says sp */
	ldr	x30, [sp], #32
	.cfi_adjust_cfa_offset -32
	ret				/* CFA = sp; the row says sp - 32 */
end forgotten

func remembered
	str	x30, [sp, #-32]!
	.cfi_adjust_cfa_offset 32
	.cfi_offset x30, -32
	cbnz	w0, 1f
	.cfi_remember_state
	ldr	x30, [sp], #32
	.cfi_adjust_cfa_offset -32
	.cfi_restore x30
	ret
1:	.cfi_restore_state
	mov	x30, xzr
	ldr	x30, [sp], #32
	.cfi_adjust_cfa_offset -32
	.cfi_restore x30
	ret
end remembered

func toggled
	paciasp
	.cfi_negate_ra_state
	str	x30, [sp, #-32]!
	.cfi_def_cfa_offset 32
	.cfi_offset x30, -32
	cbz	w0, 2f
1:	ldr	x30, [sp], #32
	.cfi_def_cfa_offset 0
	.cfi_restore x30
	autiasp
	.cfi_negate_ra_state
	ret
2:	.cfi_def_cfa_offset 32
	.cfi_offset x30, -32		/* the CFA is put back, the sign is not */
	nop
	b	1b
end toggled

func signed
	paciasp
	.cfi_negate_ra_state
	str	x30, [sp, #-32]!
	.cfi_def_cfa_offset 32
	.cfi_offset x30, -32
	cbz	w0, 2f
1:	.cfi_remember_state
	ldr	x30, [sp], #32
	.cfi_def_cfa_offset 0
	.cfi_restore x30
	autiasp
	.cfi_negate_ra_state
	ret
2:	.cfi_restore_state
	nop
	b	1b
end signed
