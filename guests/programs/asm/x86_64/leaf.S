/*
 * leaf: what a leaf function without a frame does to a frame-pointer chain.
 *
 * _start -> caller -> leaf_frameless and _start -> caller -> leaf_framed, in
 * equal parts. All functions but leaf_frameless set up a frame record. While
 * leaf_frameless runs, %rbp is still caller's, so a frame-pointer chain goes
 * from leaf_frameless straight to _start: its caller is missing. The CFI
 * finds it.
 *
 * Prints one line and exits 0 when the sum is right, exits 1 otherwise.
 */
#include <asm/unistd.h>

#define ROUNDS	1000
#define N	500
#define EXPECTED (ROUNDS * 2 * (N * (N + 1) / 2))

	.macro	func name
	.globl	\name
	.type	\name, @function
\name:
	.cfi_startproc
	.endm
	.macro	end name
	.cfi_endproc
	.size	\name, . - \name
	.endm
	.macro	enter_frame
	push	%rbp
	.cfi_def_cfa_offset 16
	.cfi_offset %rbp, -16
	mov	%rsp, %rbp
	.cfi_def_cfa_register %rbp
	.endm
	.macro	leave_frame
	pop	%rbp
	.cfi_def_cfa %rsp, 8
	.endm

	.section .rodata
message:
	.ascii	"leaf: sum ok\n"
	.set	message_len, . - message

	.text
func _start
	.cfi_undefined rip		/* the outermost frame */
	xor	%ebp, %ebp
	and	$-16, %rsp
	xor	%ebx, %ebx		/* sum */
	mov	$ROUNDS, %r12d
1:	call	caller
	add	%rax, %rbx
	dec	%r12d
	jnz	1b
	mov	$1, %edi
	cmp	$EXPECTED, %rbx
	jne	2f
	mov	$__NR_write, %eax
	lea	message(%rip), %rsi
	mov	$message_len, %edx
	syscall
	xor	%edi, %edi
2:	mov	$__NR_exit_group, %eax
	syscall
	hlt
end _start

/* caller() = leaf_frameless(N) + leaf_framed(N) */
func caller
	enter_frame
	sub	$16, %rsp
	mov	$N, %edi
	call	leaf_frameless
	mov	%rax, (%rsp)
	mov	$N, %edi
	call	leaf_framed
	add	(%rsp), %rax
	add	$16, %rsp
	leave_frame
	ret
end caller

/* 1 + 2 + ... + n */
func leaf_frameless
	xor	%eax, %eax
1:	add	%rdi, %rax
	dec	%rdi
	jnz	1b
	ret
end leaf_frameless

/* the same, with a frame */
func leaf_framed
	enter_frame
	xor	%eax, %eax
1:	add	%rdi, %rax
	dec	%rdi
	jnz	1b
	leave_frame
	ret
end leaf_framed

	.section .note.GNU-stack, "", @progbits
