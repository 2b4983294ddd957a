/*
 * zoo-eh-frame-hdr: an .eh_frame_hdr without a search table.
 *
 * The header says where .eh_frame is, and "omitted" for the number of entries
 * and for their encoding. That is legal: a consumer has to search .eh_frame
 * from its beginning. The CFI is right everywhere. (zoo-hdr.ld puts the header
 * into a segment PT_GNU_EH_FRAME, as a linker does with its own.)
 */
#include "zoo.h"

	.section .zoo_eh_frame_hdr, "a"
	.byte	1			/* version */
	.byte	0x1b			/* pointer: pcrel sdata4 */
	.byte	0xff			/* number of entries: omitted */
	.byte	0xff			/* table: omitted */
	.long	__eh_frame - .
	.text

func round
	open_frame 16
	bl	first
	bl	second
	mov	w0, #0
	close_frame 16
	ret
end round

func first
	enter_frame
	bl	leaf
	leave_frame
	ret
end first

func second
	str	x30, [sp, #-32]!
	.cfi_def_cfa_offset 32
	.cfi_offset x30, -32
	bl	leaf
	ldr	x30, [sp], #32
	.cfi_def_cfa_offset 0
	.cfi_restore x30
	ret
end second

func leaf
	nop
	ret
end leaf
