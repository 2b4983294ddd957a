/*
 * zoo-sframe: one program, several encodings of its .sframe.
 *
 * Built with SFRAME=2 and 3 (zoo-sframe-v2, -v3): the same rows in the layouts
 * of both versions, which differ in nearly every field. A reader that takes one
 * for the other finds nonsense. Version 3 can say two things more, which
 * version 2 leaves out: that _start is the outermost frame, and the rule of
 * realigned, whose CFA is in %r10 (a flexible row).
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
	call	framed
	call	frameless
	call	realigned
	xor	%eax, %eax
	leave_frame
	ret
end round

func framed
	enter_frame
	call	leaf
	leave_frame
	ret
end framed

func frameless
	open_frame 24
	call	leaf
	close_frame 24
	ret
end frameless

func leaf
	nop
	ret
end leaf

/* as a compiler aligns a frame by 32 when it also needs its arguments */
func realigned
	lea	8(%rsp), %r10
	.cfi_def_cfa %r10, 0
	and	$-32, %rsp
	sub	$32, %rsp
	nop
	nop
	lea	-8(%r10), %rsp
	.cfi_def_cfa %rsp, 8
	ret
end realigned

	.section .zoo_sframe, "a"
	.balign	8
sframe:
#if SFRAME == 1
	.short	0xdee2
	.byte	2, 1, 3, 0, -8, 0
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
	/* start, base (0 frame pointer, 1 stack pointer), words of one byte */
	.macro	row start, base, cfa, fp
	.byte	\start
	.ifb	\fp
	.byte	\base | 1 << 1, \cfa
	.else
	.byte	\base | 2 << 1, \cfa, \fp
	.endif
	.endm
	/* push %rbp is 1 byte, mov 3; pop and ret are 1 each */
	.macro	framed_rows name
	rows_of	\name, 4
	row	0, 1, 8
	row	1, 1, 16, -16
	row	4, 0, 16, -16
	row	.L\name\()_end-\name-1, 1, 8
	.endm
#if SFRAME == 2
#define FUNCTIONS	4
#define ROWS		12
#else
#define FUNCTIONS	6
#define ROWS		16
#endif

	.short	0xdee2
	.byte	VERSION, FLAGS, 3
	.byte	0			/* FP at a fixed offset: no */
	.byte	-8			/* RA at CFA - 8 */
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
#if SFRAME == 3
	fde	realigned, 3
#endif
rows:
#if SFRAME == 3
	rows_of	_start, 1
	.byte	0, 0			/* a row without words: outermost */
#endif
	framed_rows round
	framed_rows framed
	rows_of	frameless, 3		/* sub and add are 4 bytes each */
	row	0, 1, 8
	row	4, 1, 32
	row	.Lframeless_end-frameless-1, 1, 8
	rows_of	leaf, 1
	row	0, 1, 8
#if SFRAME == 3
	/* flexible: a control word (register << 3 | 1 for a register's value)
	   and an offset for the CFA; the rest is as ever. lea is 5 bytes */
	rows_of	realigned, 3, 1
	.byte	0, 2 << 1, 7 << 3 | 1, 8
	.byte	5, 2 << 1, 10 << 3 | 1, 0
	.byte	.Lrealigned_end - realigned - 1, 2 << 1, 7 << 3 | 1, 8
#endif
rows_end:
#endif
