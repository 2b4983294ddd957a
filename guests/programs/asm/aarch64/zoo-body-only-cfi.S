/*
 * zoo-body-only-cfi: tables made for exceptions, which happen at calls, used
 * for samples, which happen anywhere.
 *
 *   record_below  the shape of clang for aarch64: the frame record at the
 *                 bottom of the frame, one row for all of the body
 *   reloaded      the frame record is loaded back and code goes on: the rule
 *                 that is left over finds the caller's caller
 *   described     the same as reloaded with every row: asynchronous tables
 */
#include "zoo.h"

func round
	enter_frame
	bl	record_below
	bl	reloaded
	bl	described
	mov	w0, #0
	leave_frame
	ret
end round

func record_below
	sub	sp, sp, #64
	stp	x29, x30, [sp, #16]
	stp	x22, x21, [sp, #32]
	stp	x20, x19, [sp, #48]
	add	x29, sp, #16
	.cfi_def_cfa x29, 48
	.cfi_offset x19, -8
	.cfi_offset x20, -16
	.cfi_offset x21, -24
	.cfi_offset x22, -32
	.cfi_offset x30, -40
	.cfi_offset x29, -48
	bl	leaf
	ldp	x20, x19, [sp, #48]
	ldp	x22, x21, [sp, #32]
	ldp	x29, x30, [sp, #16]
	add	sp, sp, #64
	ret
end record_below

func reloaded
	enter_frame
	bl	leaf
	ldp	x29, x30, [sp], #16
	mov	w1, #3
1:	subs	w1, w1, #1
	b.ne	1b
	ret
end reloaded

func described
	enter_frame
	bl	leaf
	leave_frame
	mov	w1, #3
1:	subs	w1, w1, #1
	b.ne	1b
	ret
end described

func leaf
	nop
	ret
end leaf
