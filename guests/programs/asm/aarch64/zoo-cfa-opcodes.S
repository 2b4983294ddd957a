/*
 * zoo-cfa-opcodes: one function for each instruction of the CFI language.
 *
 * A conformance table: each function is described by the opcode in its name,
 * written as bytes, and by nothing else that is uncommon. All are right at
 * every instruction, with CFA, return address and saved registers, for a reader
 * that knows the opcode. op_unknown has one that no standard defines after a
 * row that is right: a reader must not guess, but may lose that function
 * alone. DW_CFA_set_loc is missing: no tool writes it.
 */
	.arch	armv8.3-a
#include "zoo.h"

	/* a function that saves x19 and x30; \bytes say so */
	.macro	op name, bytes:vararg
func op_\name
	stp	x19, x30, [sp, #-16]!
	.cfi_escape \bytes
	mov	x30, xzr
	mov	w19, #7
	nop
	ldp	x19, x30, [sp], #16
	.cfi_def_cfa sp, 0
	.cfi_restore x19
	.cfi_restore x30
	ret
end op_\name
	.endm

	/* the same; \bytes say as well what holds on the ret, 4 instructions on */
	.macro	op_to_end name, bytes:vararg
func op_\name
	stp	x19, x30, [sp, #-16]!
	.cfi_escape \bytes
	mov	x30, xzr
	mov	w19, #7
	nop
	ldp	x19, x30, [sp], #16
	ret
end op_\name
	.endm

	/* offset x19 -16, x30 -8; and def_cfa_offset 16 */
#define RULES	0x93, 2, 0x9e, 1
#define SAVED	0x0e, 16, RULES
	/* what undoes them */
#define GONE	0x0e, 0, 0xd3, 0xde

	op	nop, 0x00, SAVED, 0x00
	op	def_cfa, 0x0c, 31, 16, RULES
	op	def_cfa_sf, 0x12, 31, 0x7e, RULES
	op	def_cfa_offset, 0x0e, 16, RULES
	op	def_cfa_offset_sf, 0x13, 0x7e, RULES
	op	def_cfa_expression, 0x0f, 2, 0x8f, 16, RULES
	op	offset_extended, 0x0e, 16, 0x05, 19, 2, 0x05, 30, 1
	op	offset_extended_sf, 0x0e, 16, 0x11, 19, 2, 0x11, 30, 1
	op	expression, 0x0e, 16, 0x10, 19, 2, 0x8f, 0, 0x10, 30, 2, 0x8f, 8
	op	val_expression, 0x0e, 16, 0x16, 19, 3, 0x8f, 0, 0x06, 0x9e, 1
	op	args_size, SAVED, 0x2e, 16
	op	undefined, SAVED, 0x07, 0
	op	same_value, SAVED, 0x08, 20
	/* a rule for x29 that would be wrong, and back to "not saved" */
	op	restore, SAVED, 0x9d, 4, 0xdd
	op	restore_extended, SAVED, 0x9d, 4, 0x06, 29
	/* the CFA, too, is what was remembered */
	op	remember_state, SAVED, 0x0a, 0x0c, 29, 99, 0x9d, 4, 0x0b
	op	nested_states, SAVED, 0x0a, 0x0e, 32, 0x0a, 0x0e, 99, 0x0b, 0x0b
	op	unknown, SAVED, 0x26

	op_to_end advance_loc, SAVED, 0x44, GONE
	op_to_end advance_loc1, SAVED, 0x02, 4, GONE
	op_to_end advance_loc2, SAVED, 0x03, 4, 0, GONE
	op_to_end advance_loc4, SAVED, 0x04, 4, 0, 0, 0, GONE

func op_def_cfa_register
	stp	x29, x30, [sp, #-16]!
	.cfi_escape 0x0e, 16, 0x9d, 2, 0x9e, 1
	mov	x29, sp
	.cfi_escape 0x0d, 29
	nop
	ldp	x29, x30, [sp], #16
	.cfi_def_cfa sp, 0
	.cfi_restore x29
	.cfi_restore x30
	ret
end op_def_cfa_register

/* the return address in another register for a while */
func op_register
	mov	x9, x30
	.cfi_escape 0x09, 30, 9
	mov	x30, xzr
	nop
	mov	x30, x9
	.cfi_restore x30
	ret
end op_register

/* round's x29 is its stack pointer, our CFA: it need not be saved */
func op_val_offset
	mov	x29, xzr
	.cfi_escape 0x14, 29, 0
	nop
	mov	x29, sp
	.cfi_restore x29
	ret
end op_val_offset

func op_val_offset_sf
	sub	sp, sp, #16
	.cfi_def_cfa_offset 16
	mov	x29, xzr
	.cfi_escape 0x15, 29, 0
	nop
	add	x29, sp, #16
	.cfi_restore x29
	add	sp, sp, #16
	.cfi_def_cfa_offset 0
	ret
end op_val_offset_sf

/* the vendor's opcode: the return address is signed from here on */
func op_negate_ra_state
	paciasp
	.cfi_escape 0x2d
	stp	x19, x30, [sp, #-16]!
	.cfi_escape SAVED
	mov	x30, xzr
	nop
	ldp	x19, x30, [sp], #16
	.cfi_escape GONE
	autiasp
	.cfi_escape 0x2d
	ret
end op_negate_ra_state

func round
	enter_frame
	.irp	op, nop, def_cfa, def_cfa_sf, def_cfa_offset, def_cfa_offset_sf, def_cfa_expression
	bl	op_\op
	.endr
	.irp	op, offset_extended, offset_extended_sf, expression, val_expression, args_size
	bl	op_\op
	.endr
	.irp	op, undefined, same_value, restore, restore_extended, remember_state, nested_states
	bl	op_\op
	.endr
	.irp	op, unknown, advance_loc, advance_loc1, advance_loc2, advance_loc4
	bl	op_\op
	.endr
	.irp	op, def_cfa_register, register, val_offset, val_offset_sf, negate_ra_state
	bl	op_\op
	.endr
	mov	w0, #0
	leave_frame
	ret
end round
