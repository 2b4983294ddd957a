/*
 * zoo-prologue: where a frame-pointer chain loses the caller.
 *
 * framed keeps a frame record like every other function here, but before the
 * stp, between stp and mov, and on the ret x29 is still (or again) the
 * caller's, so that the chain goes from framed to the caller's caller. Three
 * instructions of each function, no more. The CFI has a row for each.
 */
#include "zoo.h"

func round
	enter_frame
	bl	framed
	mov	w0, #0
	leave_frame
	ret
end round

func framed
	enter_frame
	mov	w1, #3
1:	subs	w1, w1, #1
	b.ne	1b
	leave_frame
	ret
end framed
