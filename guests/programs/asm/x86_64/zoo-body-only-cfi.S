/*
 * zoo-body-only-cfi: tables made for exceptions, which happen at calls, used
 * for samples, which happen anywhere.
 *
 *   record_below  the shape of clang for aarch64: the frame record at the
 *                 bottom of the frame, one row for all of the body. (On x86_64
 *                 it describes the prologue as well: three rows, none for the
 *                 epilogue.)
 *   reloaded      the frame pointer is the caller's again and code goes on:
 *                 the rule that is left over finds the caller's caller
 *   described     the same as reloaded with every row: asynchronous tables
 */
#include "zoo.h"

func round
	enter_frame
	call	record_below
	call	reloaded
	call	described
	xor	%eax, %eax
	leave_frame
	ret
end round

func record_below
	push	%rbp
	.cfi_def_cfa_offset 16
	.cfi_offset %rbp, -16
	mov	%rsp, %rbp
	.cfi_def_cfa_register %rbp
	push	%r15			/* clang gives these their rules all at once */
	push	%r14
	push	%rbx
	push	%rax
	.cfi_offset %rbx, -40
	.cfi_offset %r14, -32
	.cfi_offset %r15, -24
	call	leaf
	add	$8, %rsp
	pop	%rbx
	pop	%r14
	pop	%r15
	pop	%rbp
	ret
end record_below

func reloaded
	enter_frame
	call	leaf
	pop	%rbp
	mov	$3, %ecx
1:	dec	%ecx
	jnz	1b
	ret
end reloaded

func described
	enter_frame
	call	leaf
	leave_frame
	mov	$3, %ecx
1:	dec	%ecx
	jnz	1b
	ret
end described

func leaf
	nop
	ret
end leaf
