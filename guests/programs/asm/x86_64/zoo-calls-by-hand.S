/*
 * zoo-calls-by-hand: calls and returns that do not pair.
 *
 * pushed_jump and pushed_ret push a return address and go to leaf by a jump
 * and by a return. over_data calls a function that returns behind the eight
 * bytes of data which follow the call. thunked calls through a retpoline, as
 * gcc -mindirect-branch=thunk makes it, and returns through one, as of
 * -mfunction-return=thunk. outer sets the stack pointer of a function further
 * out back to its start and jumps to leaf, whose caller is then that one's.
 * The CFI is right everywhere. Where leaf was not called by an instruction
 * its caller counts as not known.
 */
#include "zoo.h"

func round
	enter_frame
	call	pushed_jump
	call	pushed_ret
	call	over_data
	call	thunked
	call	cut_short
	xor	%eax, %eax
	leave_frame
	ret
end round

func leaf
	enter_frame
	call	inner
	leave_frame
	ret
end leaf

func inner
	nop
	ret
end inner

func pushed_jump
	lea	1f(%rip), %rax
	push	%rax
	.cfi_def_cfa_offset 16
	jmp	leaf
1:	.cfi_def_cfa_offset 8
	nop
	ret
end pushed_jump

func pushed_ret
	lea	1f(%rip), %rax
	push	%rax
	.cfi_def_cfa_offset 16
	lea	leaf(%rip), %rax
	push	%rax
	.cfi_def_cfa_offset 24
	ret
1:	.cfi_def_cfa_offset 8
	nop
	ret
end pushed_ret

func over_data
	enter_frame
	call	skip
	.quad	0x1122334455667788
	nop
	call	leaf
	leave_frame
	ret
end over_data

func skip
	addq	$8, (%rsp)
	ret
end skip

func thunked
	enter_frame
	lea	leaf(%rip), %rax
	call	indirect_thunk
	nop
	leave_frame
	jmp	return_thunk
end thunked

func indirect_thunk
	call	2f
1:	pause
	lfence
	jmp	1b
2:	.cfi_def_cfa_offset 16
	mov	%rax, (%rsp)
	ret
end indirect_thunk

func return_thunk
	call	2f
1:	pause
	lfence
	jmp	1b
2:	.cfi_def_cfa_offset 16
	lea	8(%rsp), %rsp
	.cfi_def_cfa_offset 8
	ret
end return_thunk

func cut_short
	mov	%rsp, %rdx
	open_frame 24
	call	outer
	close_frame 24
	ret
end cut_short

func outer
	push	%rbx
	.cfi_def_cfa_offset 16
	mov	%rdx, %rsp
	.cfi_def_cfa_offset 8
	jmp	leaf
end outer
