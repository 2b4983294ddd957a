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
	open_frame 8
	call	first
	call	second
	xor	%eax, %eax
	close_frame 8
	ret
end round

func first
	enter_frame
	call	leaf
	leave_frame
	ret
end first

func second
	push	%rbx
	.cfi_def_cfa_offset 16
	.cfi_offset %rbx, -16
	call	leaf
	pop	%rbx
	.cfi_def_cfa_offset 8
	.cfi_restore %rbx
	ret
end second

func leaf
	nop
	ret
end leaf
