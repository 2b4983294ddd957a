/*
 * zoo-endless-expression: rules that are expressions without an end.
 *
 * The CFA of jumps is an expression that branches to itself; that of pushes
 * pushes a number in each round; pushed keeps its x29 so. An evaluator without
 * a bound never comes back from the first, and takes all memory for the second.
 */
#include "zoo.h"

func round
	enter_frame
	bl	jumps
	bl	pushes
	bl	pushed
	mov	w0, #0
	leave_frame
	ret
end round

func jumps
	/* DW_CFA_def_cfa_expression: skip -3 */
	.cfi_escape 0x0f, 3, 0x2f, 0xfd, 0xff
	nop
	ret
end jumps

func pushes
	/* DW_CFA_def_cfa_expression: lit0; dup; skip -4 */
	.cfi_escape 0x0f, 5, 0x30, 0x12, 0x2f, 0xfc, 0xff
	nop
	ret
end pushes

func pushed
	/* DW_CFA_val_expression, x29: lit0; skip -4 */
	.cfi_escape 0x16, 29, 4, 0x30, 0x2f, 0xfc, 0xff
	nop
	ret
end pushed
