/*
 * zoo-sframe: one program, several encodings of its .sframe.
 *
 * Built with SFRAME=2 and 3 (zoo-sframe-v2, -v3): the same rows in the layouts
 * of both versions, which differ in nearly every field. A reader that takes one
 * for the other finds nonsense. Version 3 can say one thing more, which
 * version 2 leaves out: that _start is the outermost frame; for realigned,
 * whose CFA is in x9, this architecture has no encoding.
 *
 * Built with SFRAME=0 (zoo-sframe-empty) the section has no bytes, with SFRAME=1
 * (zoo-sframe-truncated) 12, less than a header: both have to be diagnosed, not
 * read past. The CFI is right in all of them.
 *
 * The bytes are written by hand, and zoo-sframe.ld puts them where a linker
 * would: it refuses some of them as its own input.
 */
#include "zoo.h"

func round
	enter_frame
	bl	framed
	bl	frameless
	bl	realigned
	mov	w0, #0
	leave_frame
	ret
end round

func framed
	enter_frame
	bl	leaf
	leave_frame
	ret
end framed

func frameless
	open_frame 32
	bl	leaf
	close_frame 32
	ret
end frameless

func leaf
	nop
	ret
end leaf

/* a frame aligned by 32 with a pointer to its arguments */
func realigned
	mov	x9, sp
	.cfi_def_cfa x9, 0
	sub	x10, sp, #32
	and	sp, x10, #-32
	nop
	nop
	mov	sp, x9
	.cfi_def_cfa sp, 0
	ret
end realigned

	.section .zoo_sframe, "a"
	.balign	8
sframe:
#if SFRAME == 1
	.short	0xdee2
	.byte	2, 1, 2, 0, 0, 0
	.long	4
#elif SFRAME >= 2
#if SFRAME == 2
#define VERSION		2
#define FLAGS		1	/* sorted; starts count from the section */
#define FDE_SIZE	20
	.macro	fde name, count
	.long	\name - sframe
	.long	.L\name\()_end - \name
	.long	rows_\name - rows
	.long	\count
	.byte	0			/* row starts of one byte, increment */
	.byte	0
	.short	0
	.endm
	.macro	rows_of name, count, kind=0
rows_\name:
	.endm
#else
#define VERSION		3
#define FLAGS		5	/* sorted; starts count from their own field */
#define FDE_SIZE	16
	.macro	fde name, count
	.quad	\name - .
	.long	.L\name\()_end - \name
	.long	rows_\name - rows
	.endm
	.macro	rows_of name, count, kind=0
rows_\name:
	.short	\count
	.byte	0			/* row starts of one byte, increment */
	.byte	\kind			/* 0 default, 1 flexible */
	.byte	0
	.endm
#endif
	/* start, base (0 frame pointer, 1 stack pointer), words of one byte: CFA,
	   return address, frame pointer */
	.macro	row start, base, cfa, ra, fp
	.byte	\start
	.ifb	\ra
	.byte	\base | 1 << 1, \cfa
	.else
	.ifb	\fp
	.byte	\base | 2 << 1, \cfa, \ra
	.else
	.byte	\base | 3 << 1, \cfa, \ra, \fp
	.endif
	.endif
	.endm
	.macro	framed_rows name
	rows_of	\name, 4
	row	0, 1, 0
	row	4, 1, 16, -8, -16
	row	8, 0, 16, -8, -16
	row	.L\name\()_end-\name-4, 1, 0
	.endm
#if SFRAME == 2
#define FUNCTIONS	4
#define ROWS		12
#else
#define FUNCTIONS	5
#define ROWS		13
#endif

	.short	0xdee2
	.byte	VERSION, FLAGS, 2
	.byte	0			/* FP at a fixed offset: no */
	.byte	0			/* RA at a fixed offset: no */
	.byte	0			/* no auxiliary header */
	.long	FUNCTIONS
	.long	ROWS
	.long	rows_end - rows
	.long	0			/* functions, from the header's end */
	.long	FUNCTIONS * FDE_SIZE	/* rows, from the same */
#if SFRAME == 3
	fde	_start, 1
#endif
	fde	round, 4
	fde	framed, 4
	fde	frameless, 3
	fde	leaf, 1
rows:
#if SFRAME == 3
	rows_of	_start, 1
	.byte	0, 0			/* a row without words: outermost */
#endif
	framed_rows round
	framed_rows framed
	rows_of	frameless, 3
	row	0, 1, 0
	row	4, 1, 32, -32
	row	.Lframeless_end-frameless-4, 1, 0
	rows_of	leaf, 1
	row	0, 1, 0
rows_end:
#endif
