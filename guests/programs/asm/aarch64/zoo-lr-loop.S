/*
 * zoo-lr-loop: a function that never returns and so saves no return address.
 *
 * diverges makes room, and its bl overwrites x30, the only copy of its return
 * address. Its CFI, deliberately as compilers write it, has a CFA and no rule
 * for x30: from below it, the caller's x30 is taken to be still the one that
 * was just used, and the address after the bl is found again and again, each
 * time 48 bytes further up. Nothing can be right there: the true caller is
 * nowhere. (round is gone back to by hand.)
 */
#include "zoo.h"

	.data
	.balign	8
saved:	.quad	0
	.text

func round
	open_frame 16
	adrp	x1, saved
	mov	x2, sp
	str	x2, [x1, #:lo12:saved]
	bl	diverges
	.globl	back
back:
	mov	w0, #0
	close_frame 16
	ret
end round

func diverges
	sub	sp, sp, #48
	.cfi_def_cfa_offset 48
	bl	work
	nop
	adrp	x1, saved
	ldr	x2, [x1, #:lo12:saved]
	adr	x3, back
	mov	sp, x2
	.cfi_undefined x30
	br	x3
end diverges

func work
	open_frame 32
	bl	leaf
	close_frame 32
	ret
end work

func leaf
	nop
	ret
end leaf
