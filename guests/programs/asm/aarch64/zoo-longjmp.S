/*
 * zoo-longjmp: five frames that end at once.
 *
 * round saves its registers with set, descends five frames, and the innermost
 * goes back with jump, which returns from set a second time. Whoever pairs
 * calls with returns has five frames too many from then on, five more with
 * each round. The CFI is right everywhere but in jump, after the registers are
 * round's: its row says so with "undefined".
 */
#include "zoo.h"

	.bss
	.balign	8
buffer:	.skip	24			/* x29, x30, sp */
	.text

func round
	enter_frame
	bl	set
	cbnz	w0, 1f
	mov	w0, #5
	bl	descend
	mov	w0, #2			/* never */
	b	2f
1:	bl	leaf
	mov	w0, #0
2:	leave_frame
	ret
end round

func descend
	open_frame 48
	subs	w0, w0, #1
	b.ne	1f
	mov	w0, #1
	bl	jump
1:	bl	descend
	close_frame 48
	ret
end descend

func set
	adrp	x1, buffer
	add	x1, x1, #:lo12:buffer
	stp	x29, x30, [x1]
	mov	x2, sp
	str	x2, [x1, #16]
	mov	w0, #0
	ret
end set

func jump
	adrp	x1, buffer
	add	x1, x1, #:lo12:buffer
	ldr	x2, [x1, #16]
	ldp	x29, x3, [x1]
	mov	sp, x2
	.cfi_undefined x30
	br	x3
end jump

func leaf
	nop
	ret
end leaf
