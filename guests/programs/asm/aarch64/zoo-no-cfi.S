/*
 * zoo-no-cfi: functions without CFI, and words on the stack that look like
 * return addresses.
 *
 * There are three bets that an unwinder can make on an innermost frame that no
 * table describes, and each function punishes some:
 *
 *   decoys      its locals are addresses of code: whoever scans the stack, or
 *               takes x29 for the address of its own frame record, invents or
 *               loses a frame
 *   odd_leaf    touches neither stack nor x30: x30 is the return address
 *   odd_record  keeps a frame record: x29 is right
 *
 * round has CFI and a frame record.
 */
#include "zoo.h"

func round
	enter_frame
	bl	decoys
	bl	odd_leaf
	bl	odd_record
	mov	w0, #0
	leave_frame
	ret
end round

bare decoys
	str	x30, [sp, #-48]!
	adr	x0, decoys
	str	x0, [sp, #40]
	adr	x0, 1f
	stp	x0, x0, [sp, #16]
	adr	x0, never + 4
	str	x0, [sp, #8]
	mov	x30, x0
1:	nop
	nop
	ldr	x30, [sp], #48
	ret
bare_end decoys

bare odd_leaf
	nop
	nop
	ret
bare_end odd_leaf

bare odd_record
	stp	x29, x30, [sp, #-16]!
	mov	x29, sp
	nop
	nop
	ldp	x29, x30, [sp], #16
	ret
bare_end odd_record

/* where a decoy points to: after a call */
func never
	bl	odd_leaf
	brk	#0
end never
