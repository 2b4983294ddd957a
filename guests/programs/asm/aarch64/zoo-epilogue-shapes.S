/*
 * zoo-epilogue-shapes: ends of functions that a table of the body does not
 * describe, in shapes that a recogniser of instructions has to know.
 *
 * The CFI of each function is deliberately that of synchronous tables: right
 * up to the last instruction of the body, and the last row stays in force
 * through the epilogue. What saves a recogniser of `ldp …; ret` differs:
 *
 *   pop_ret      the plain shape: ldp with the stack pointer's move; ret
 *   leave_ret    the stack pointer from x29 first
 *   add_pop_ret  add to the stack pointer; ldp; ret
 *   ret_imm      the stack pointer moves after the ldp
 *   mixed_pops   another instruction between the loads
 *   lookalike    ends in a jump over an instruction that looks like the ldp
 *   poll         JIT code: a safepoint's load and compare between ldp and ret
 */
#include "zoo.h"

	/* stp; mov x29, sp, described; what follows is not */
	.macro	body
	enter_frame
	.endm

	.data
	.balign	8
polled:	.quad	0
	.text

func round
	enter_frame
	bl	pop_ret
	bl	leave_ret
	bl	add_pop_ret
	bl	ret_imm
	bl	mixed_pops
	bl	lookalike
	bl	poll
	mov	w0, #0
	leave_frame
	ret
end round

func pop_ret
	body
	nop
	ldp	x29, x30, [sp], #16
	ret
end pop_ret

func leave_ret
	body
	sub	sp, sp, #32
	nop
	mov	sp, x29
	ldp	x29, x30, [sp], #16
	ret
end leave_ret

/* the row in force says CFA = sp + 48 to the end */
func add_pop_ret
	stp	x29, x30, [sp, #-16]!
	.cfi_def_cfa_offset 16
	.cfi_offset x29, -16
	.cfi_offset x30, -8
	sub	sp, sp, #32
	.cfi_def_cfa_offset 48
	nop
	add	sp, sp, #32
	ldp	x29, x30, [sp], #16
	ret
end add_pop_ret

func ret_imm
	body
	nop
	ldp	x29, x30, [sp]
	add	sp, sp, #16
	ret
end ret_imm

func mixed_pops
	stp	x29, x30, [sp, #-32]!
	.cfi_def_cfa_offset 32
	.cfi_offset x29, -32
	.cfi_offset x30, -24
	str	x20, [sp, #16]
	.cfi_offset x20, -16
	nop
	ldr	x20, [sp, #16]
	nop
	ldp	x29, x30, [sp], #32
	ret
end mixed_pops

func lookalike
	body
	b	1f
	ldp	x29, x30, [sp], #16
1:	nop
	ldp	x29, x30, [sp], #16
	ret
end lookalike

func poll
	body
	nop
	ldp	x29, x30, [sp], #16
	adrp	x1, polled
	ldr	x1, [x1, #:lo12:polled]
	cmp	x1, #0
	ret
end poll
