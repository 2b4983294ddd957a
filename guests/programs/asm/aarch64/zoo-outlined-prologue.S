/*
 * zoo-outlined-prologue: prologue and epilogue in helpers of their own.
 *
 * To save space, enters stores its frame record and calls save_regs, which
 * stores further registers below it, and ends in restore_regs, which loads
 * all, takes the frame away and returns for it. The CFI of the helpers is
 * deliberately that of an ordinary function. It is wrong in save_regs once the
 * stack has moved, and in restore_regs until the frame is gone. That of enters
 * is right, though a call moves its stack.
 */
#include "zoo.h"

func round
	enter_frame
	bl	enters
	mov	w0, #0
	leave_frame
	ret
end round

func enters
	stp	x29, x30, [sp, #-16]!
	.cfi_def_cfa_offset 16
	.cfi_offset x30, -8
	.cfi_offset x29, -16
	bl	save_regs
	.cfi_def_cfa_offset 32
	.cfi_offset x20, -24
	.cfi_offset x19, -32
	nop
	b	restore_regs
end enters

func save_regs
	stp	x19, x20, [sp, #-16]!
	ret
end save_regs

func restore_regs
	ldp	x19, x20, [sp], #16
	ldp	x29, x30, [sp], #16
	ret
end restore_regs
