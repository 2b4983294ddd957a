/*
 * zoo-tail-call: functions that are replaced by those they end with.
 *
 * first jumps to second, second to third: while third runs there is one return
 * address, and the frames of first and second are gone. The physical stack is
 * round, third; the logical one round, first, second, third. repeats is a
 * do-while loop whose head is its own first instruction and which ends in a
 * tail call: entered once, run three times, left without a return. A tracker
 * that pairs entries with calls miscounts it.
 */
#include "zoo.h"

func round
	enter_frame
	bl	first
	mov	w0, #3
	bl	repeats
	mov	w0, #0
	leave_frame
	ret
end round

func first
	open_frame 32
	bl	leaf
	close_frame 32
	b	second
end first

func second
	nop
	b	third
end second

func third
	enter_frame
	bl	leaf
	leave_frame
	ret
end third

func repeats
	subs	w0, w0, #1
	b.ne	repeats
	b	third
end repeats

func leaf
	nop
	ret
end leaf
