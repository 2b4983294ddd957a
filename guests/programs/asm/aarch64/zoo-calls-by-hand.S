/*
 * zoo-calls-by-hand: calls and returns that do not pair.
 *
 * pushed_jump and pushed_ret put a return address into x30 and go to leaf by a
 * jump and by a return. over_data calls a function that returns behind the
 * eight bytes of data which follow the call. thunked calls through a function
 * that goes on by a return. outer sets the stack pointer of a function further
 * out back to its start and jumps to leaf, whose caller is then that one's.
 * The CFI is right everywhere. Where leaf was not called by an instruction
 * its caller counts as not known.
 */
#include "zoo.h"

func round
	enter_frame
	bl	pushed_jump
	bl	pushed_ret
	bl	over_data
	bl	thunked
	bl	cut_short
	mov	w0, #0
	leave_frame
	ret
end round

func leaf
	enter_frame
	bl	inner
	leave_frame
	ret
end leaf

func inner
	nop
	ret
end inner

func pushed_jump
	enter_frame
	adr	x30, 1f
	b	leaf
1:	nop
	leave_frame
	ret
end pushed_jump

func pushed_ret
	enter_frame
	adr	x30, 1f
	adr	x16, leaf
	ret	x16
1:	nop
	leave_frame
	ret
end pushed_ret

func over_data
	enter_frame
	bl	skip
	.quad	0x1122334455667788
	nop
	bl	leaf
	leave_frame
	ret
end over_data

func skip
	add	x30, x30, #8
	ret
end skip

func thunked
	enter_frame
	adr	x16, leaf
	bl	indirect_thunk
	nop
	leave_frame
	ret
end thunked

func indirect_thunk
	ret	x16
end indirect_thunk

func cut_short
	mov	x2, sp
	mov	x3, x30
	open_frame 32
	bl	outer
	close_frame 32
	ret
end cut_short

func outer
	open_frame 16
	mov	sp, x2
	.cfi_def_cfa_offset 0
	.cfi_restore x30
	mov	x30, x3
	b	leaf
end outer
