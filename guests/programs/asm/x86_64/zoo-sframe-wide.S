/*
 * zoo-sframe-wide: frames whose sizes need one, two and four bytes.
 *
 * SFrame packs the offsets of a row in words of the smallest size that fits.
 * A consumer that packs them further, into its own table, may find some that
 * do not fit: if one such row discards its whole function, prologue and
 * epilogue are lost as well. wide has rows of both sizes. The assembler
 * writes the section; it is right everywhere.
 */
#include "zoo.h"

func round
	enter_frame
	call	narrow
	call	medium
	call	wide
	xor	%eax, %eax
	leave_frame
	ret
end round

func narrow
	open_frame 104
	call	leaf
	close_frame 104
	ret
end narrow

func medium
	open_frame 20008
	call	leaf
	close_frame 20008
	ret
end medium

func wide
	open_frame 1000008
	call	leaf
	close_frame 1000008
	ret
end wide

func leaf
	nop
	ret
end leaf
