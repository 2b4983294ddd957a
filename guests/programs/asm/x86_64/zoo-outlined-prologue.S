/*
 * zoo-outlined-prologue: prologue and epilogue in helpers of their own.
 *
 * To save space, enters calls save_regs, which stores registers into its
 * frame, and ends in restore_regs, which loads them, takes the frame away and
 * returns for it. The CFI of the helpers is deliberately that of an ordinary
 * function. It is right in save_regs, which does not move the stack (on aarch64
 * it does); in restore_regs it is wrong until the frame is gone.
 */
#include "zoo.h"

func round
	enter_frame
	call	enters
	xor	%eax, %eax
	leave_frame
	ret
end round

func enters
	sub	$24, %rsp
	.cfi_def_cfa_offset 32
	call	save_regs
	.cfi_offset %rbx, -24
	.cfi_offset %r14, -16
	nop
	jmp	restore_regs
end enters

func save_regs
	mov	%rbx, 16(%rsp)
	mov	%r14, 24(%rsp)
	ret
end save_regs

func restore_regs
	mov	8(%rsp), %rbx
	mov	16(%rsp), %r14
	add	$24, %rsp
	ret
end restore_regs
