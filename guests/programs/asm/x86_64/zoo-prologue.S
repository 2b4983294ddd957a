/*
 * zoo-prologue: where a frame-pointer chain loses the caller.
 *
 * framed keeps a frame record like every other function here, but before the
 * push, between push and mov, and on the ret %rbp is still (or again) the
 * caller's, so that the chain goes from framed to the caller's caller. Three
 * instructions of each function, no more. The CFI has a row for each.
 */
#include "zoo.h"

func round
	enter_frame
	call	framed
	xor	%eax, %eax
	leave_frame
	ret
end round

func framed
	enter_frame
	mov	$3, %ecx
1:	dec	%ecx
	jnz	1b
	leave_frame
	ret
end framed
