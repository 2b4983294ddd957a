/*
 * zoo-plt-expression: stubs whose frame rule depends on the program counter.
 *
 * plt is a table as a linker makes it for lazy binding: a header, then
 * stubs of 16 bytes that jump through a slot, and the first time push their
 * number and go to the header. One FDE describes all of it:
 *
 *   header    CFA = rsp + 16, + 24 after its push
 *   stubs     CFA = rsp + 8 + (((pc & 15) >= 11) << 3)
 *
 * That is the expression that GNU ld writes, and all three instructions of a
 * stub are right by it. half has the same code and a plain rule,
 * CFA = rsp + 8: what a reader makes of it that drops the expression. Right for
 * two instructions, wrong for the third.
 *
 * resolve never patches the slots, so each call runs the whole stub.
 */
#include "zoo.h"

	.macro	stub name, number
	.type	\name, @function
\name:
	jmp	*slot_\name(%rip)	/* 6 bytes */
lazy_\name:
	.byte	0x68			/* push of a 4-byte immediate: 5 bytes */
	.long	\number
	.byte	0xe9			/* jmp plt, of 5 bytes: begins at 11 */
	.long	plt - . - 4
	.size	\name, 16
	.endm

	.balign	16
	.type	plt, @function
plt:
	.cfi_startproc
	.cfi_def_cfa_offset 16
	push	module(%rip)		/* 6 bytes */
	.cfi_def_cfa_offset 24
	jmp	*resolver(%rip)		/* 6 bytes */
	.balign	16
	.size	plt, 16
	/* DW_CFA_def_cfa_expression, 11 bytes: breg7 8, breg16 0, lit15, and,
	   lit11, ge, lit3, shl, plus */
	.cfi_escape 0x0f, 0x0b, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22
	stub	one, 0
	stub	two, 1
	.cfi_endproc

	.balign	16
	.cfi_startproc
	stub	half, 2
	.cfi_endproc

	.data
	.balign	8
module:	.quad	0
resolver:
	.quad	resolve
slot_one:
	.quad	lazy_one
slot_two:
	.quad	lazy_two
slot_half:
	.quad	lazy_half
	.text

func round
	open_frame 8
	call	one
	call	two
	call	half
	xor	%eax, %eax
	close_frame 8
	ret
end round

/* takes the two words off the stack; the stub's caller is now its own */
func resolve
	.cfi_def_cfa_offset 24
	nop
	add	$16, %rsp
	.cfi_def_cfa_offset 8
	jmp	target
end resolve

func target
	nop
	ret
end target
