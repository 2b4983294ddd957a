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
	call	first
	mov	$3, %edi
	call	repeats
	xor	%eax, %eax
	leave_frame
	ret
end round

func first
	open_frame 24
	call	leaf
	close_frame 24
	jmp	second
end first

func second
	nop
	jmp	third
end second

func third
	enter_frame
	call	leaf
	leave_frame
	ret
end third

func repeats
	dec	%edi
	jnz	repeats
	jmp	third
end repeats

func leaf
	nop
	ret
end leaf
