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
#include "zoo.h"

	/* a function that saves %rbx; \bytes say so */
	.macro	op name, bytes:vararg
func op_\name
	push	%rbx
	.cfi_escape \bytes
	nop
	mov	$7, %ebx
	nop
	pop	%rbx
	.cfi_def_cfa %rsp, 8
	.cfi_restore %rbx
	ret
end op_\name
	.endm

	/* the same; \bytes say as well what holds on the ret, 8 bytes on */
	.macro	op_to_end name, bytes:vararg
func op_\name
	push	%rbx
	.cfi_escape \bytes
	nop
	mov	$7, %ebx
	nop
	pop	%rbx
	ret
end op_\name
	.endm

	/* def_cfa_offset 16; offset rbx -16 */
#define SAVED	0x0e, 16, 0x83, 2

	op	nop, 0x00, SAVED, 0x00
	op	def_cfa, 0x0c, 7, 16, 0x83, 2
	op	def_cfa_sf, 0x12, 7, 0x7e, 0x83, 2
	op	def_cfa_offset, 0x0e, 16, 0x83, 2
	op	def_cfa_offset_sf, 0x13, 0x7e, 0x83, 2
	op	def_cfa_expression, 0x0f, 2, 0x77, 16, 0x83, 2
	op	offset_extended, 0x0e, 16, 0x05, 3, 2
	op	offset_extended_sf, 0x0e, 16, 0x11, 3, 2
	op	expression, 0x0e, 16, 0x10, 3, 2, 0x77, 0
	op	val_expression, 0x0e, 16, 0x16, 3, 3, 0x77, 0, 0x06
	op	args_size, SAVED, 0x2e, 16
	op	undefined, SAVED, 0x07, 0
	op	same_value, SAVED, 0x08, 12
	/* a rule for %rbp that would be wrong, and back to "not saved" */
	op	restore, SAVED, 0x86, 4, 0xc6
	op	restore_extended, SAVED, 0x86, 4, 0x06, 6
	/* the CFA, too, is what was remembered */
	op	remember_state, SAVED, 0x0a, 0x0c, 6, 99, 0x86, 4, 0x0b
	op	nested_states, SAVED, 0x0a, 0x0e, 24, 0x0a, 0x0e, 99, 0x0b, 0x0b
	op	unknown, SAVED, 0x26

	op_to_end advance_loc, SAVED, 0x48, 0x0e, 8, 0xc3
	op_to_end advance_loc1, SAVED, 0x02, 8, 0x0e, 8, 0xc3
	op_to_end advance_loc2, SAVED, 0x03, 8, 0, 0x0e, 8, 0xc3
	op_to_end advance_loc4, SAVED, 0x04, 8, 0, 0, 0, 0x0e, 8, 0xc3

func op_def_cfa_register
	push	%rbp
	.cfi_escape 0x0e, 16, 0x86, 2
	mov	%rsp, %rbp
	.cfi_escape 0x0d, 6
	nop
	pop	%rbp
	.cfi_def_cfa %rsp, 8
	.cfi_restore %rbp
	ret
end op_def_cfa_register

/* the return address in a register for a while */
func op_register
	pop	%rcx
	.cfi_escape 0x0e, 0, 0x09, 16, 2
	nop
	push	%rcx
	.cfi_escape 0x0e, 8, 0xd0
	.cfi_offset rip, -8
	ret
end op_register

/* round's %rbp is its stack pointer, our CFA: it need not be saved */
func op_val_offset
	xor	%ebp, %ebp
	.cfi_escape 0x14, 6, 0
	nop
	lea	8(%rsp), %rbp
	.cfi_restore %rbp
	ret
end op_val_offset

func op_val_offset_sf
	push	%rcx
	.cfi_def_cfa_offset 16
	xor	%ebp, %ebp
	.cfi_escape 0x15, 6, 0
	nop
	lea	16(%rsp), %rbp
	.cfi_restore %rbp
	pop	%rcx
	.cfi_def_cfa_offset 8
	ret
end op_val_offset_sf

func round
	enter_frame
	.irp	op, nop, def_cfa, def_cfa_sf, def_cfa_offset, def_cfa_offset_sf, def_cfa_expression
	call	op_\op
	.endr
	.irp	op, offset_extended, offset_extended_sf, expression, val_expression, args_size
	call	op_\op
	.endr
	.irp	op, undefined, same_value, restore, restore_extended, remember_state, nested_states
	call	op_\op
	.endr
	.irp	op, unknown, advance_loc, advance_loc1, advance_loc2, advance_loc4
	call	op_\op
	.endr
	.irp	op, def_cfa_register, register, val_offset, val_offset_sf
	call	op_\op
	.endr
	xor	%eax, %eax
	leave_frame
	ret
end round
