/*
 * zoo-two-exits: functions with two epilogues.
 *
 * CFI is evaluated along the listing while the program runs along the graph.
 * After the first epilogue the state has to be put back:
 *
 *   forgotten   it is not: from its second part on the CFA lies below what it
 *               is, in the end below the stack pointer. Such a row is invalid;
 *               an unwinder that takes it for the root of the stack claims a
 *               complete stack that is not
 *   remembered  .cfi_remember_state and .cfi_restore_state: right everywhere
 */
#include "zoo.h"

func round
	enter_frame
	xor	%edi, %edi
	call	forgotten
	mov	$1, %edi
	call	forgotten
	xor	%edi, %edi
	call	remembered
	mov	$1, %edi
	call	remembered
	xor	%eax, %eax
	leave_frame
	ret
end round

func forgotten
	sub	$24, %rsp
	.cfi_adjust_cfa_offset 24
	test	%edi, %edi
	jnz	1f
	add	$24, %rsp
	.cfi_adjust_cfa_offset -24
	ret
1:	nop				/* CFA = rsp + 32; the row says rsp + 8 */
	add	$24, %rsp
	.cfi_adjust_cfa_offset -24
	ret				/* CFA = rsp + 8; the row says rsp - 16 */
end forgotten

func remembered
	sub	$24, %rsp
	.cfi_adjust_cfa_offset 24
	test	%edi, %edi
	jnz	1f
	.cfi_remember_state
	add	$24, %rsp
	.cfi_adjust_cfa_offset -24
	ret
1:	.cfi_restore_state
	nop
	add	$24, %rsp
	.cfi_adjust_cfa_offset -24
	ret
end remembered
