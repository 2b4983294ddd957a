/*
 * zoo-epilogue-shapes: ends of functions that a table of the body does not
 * describe, in shapes that a recogniser of instructions has to know.
 *
 * The CFI of each function is deliberately that of synchronous tables: right
 * up to the last instruction of the body, and the last row stays in force
 * through the epilogue. What saves a recogniser of `pop; ret` differs:
 *
 *   pop_ret      the plain shape
 *   leave_ret    leave; ret
 *   add_pop_ret  add to the stack pointer; pop; ret
 *   ret_imm      ret imm16: the callee drops an argument
 *   mixed_pops   another instruction between the pops (as vzeroupper is)
 *   lookalike    ends in a jump over an instruction whose last byte is that
 *                of `pop %rbp`; the jump is no tail call
 *   poll         JIT code: a safepoint's load and test between pop and ret
 */
#include "zoo.h"

	/* push %rbp; mov %rsp, %rbp, described; what follows is not */
	.macro	body
	enter_frame
	.endm

	.data
polled:	.quad	0
	.text

func round
	enter_frame
	call	pop_ret
	call	leave_ret
	call	add_pop_ret
	call	mixed_pops
	call	lookalike
	call	poll
	push	$0			/* keeps the stack aligned */
	push	$1
	call	ret_imm
	pop	%rcx
	xor	%eax, %eax
	leave_frame
	ret
end round

func pop_ret
	body
	nop
	pop	%rbp
	ret
end pop_ret

func leave_ret
	body
	sub	$32, %rsp
	nop
	leave
	ret
end leave_ret

/* no frame pointer: the row in force says CFA = rsp + 48 to the end */
func add_pop_ret
	push	%rbx
	.cfi_def_cfa_offset 16
	.cfi_offset %rbx, -16
	sub	$32, %rsp
	.cfi_def_cfa_offset 48
	nop
	add	$32, %rsp
	pop	%rbx
	ret
end add_pop_ret

func ret_imm
	body
	nop
	pop	%rbp
	ret	$8
end ret_imm

func mixed_pops
	push	%rbx
	.cfi_def_cfa_offset 16
	.cfi_offset %rbx, -16
	push	%r13
	.cfi_def_cfa_offset 24
	.cfi_offset %r13, -24
	nop
	pop	%r13
	cld
	pop	%rbx
	ret
end mixed_pops

func lookalike
	body
	jmp	1f
	mov	$0x5d000000, %eax	/* b8 00 00 00 5d */
1:	nop
	pop	%rbp
	ret
end lookalike

func poll
	body
	nop
	pop	%rbp
	mov	polled(%rip), %rax
	test	%rax, %rax
	ret
end poll
