/*
 * zoo-plt-expression: stubs of a table for lazy binding.
 *
 * On x86_64 their frame rule depends on the program counter. Here nothing is
 * pushed before the header and x30 is the caller's all the way, so that no
 * expression is needed, and linkers write no CFI at all: stubs and header have
 * no coverage, though the rule "x30, nothing pushed" would do for the stubs.
 *
 * resolve never patches the slots, so each call runs the header as well.
 */
#include "zoo.h"

	.macro	stub name
	.type	\name, %function
\name:
	adrp	x16, slot_\name
	ldr	x17, [x16, #:lo12:slot_\name]
	add	x16, x16, #:lo12:slot_\name
	br	x17
	.size	\name, 16
	.endm

	.balign	16
	.type	plt, %function
plt:
	stp	x16, x30, [sp, #-16]!
	adrp	x16, resolver
	ldr	x17, [x16, #:lo12:resolver]
	add	x16, x16, #:lo12:resolver
	br	x17
	.size	plt, . - plt
	.balign	16
	stub	one
	stub	two
	stub	half

	.data
	.balign	8
resolver:
	.quad	resolve
slot_one:
	.quad	plt
slot_two:
	.quad	plt
slot_half:
	.quad	plt
	.text

func round
	open_frame 16
	bl	one
	bl	two
	bl	half
	mov	w0, #0
	close_frame 16
	ret
end round

/* takes the two words off the stack; the stub's caller is now its own */
func resolve
	.cfi_def_cfa_offset 16
	.cfi_offset x30, -8
	nop
	ldp	x16, x30, [sp], #16
	.cfi_def_cfa_offset 0
	.cfi_restore x30
	b	target
end resolve

func target
	nop
	ret
end target
