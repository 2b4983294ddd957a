/*
 * nested-fp: nested calls, a frame pointer in every function.
 *
 * _start -> outer -> middle -> inner -> work, where work is a loop. Each
 * function sets up a frame record (saved %rbp, return address), so following
 * frame pointers alone gives the whole chain. The CFI says the same.
 *
 * outer and middle call down twice each, inner once; work(n) returns
 * 1 + 2 + ... + n. Prints one line and exits 0 when the sum is right,
 * exits 1 otherwise.
 */
#include <asm/unistd.h>

#define ROUNDS	200
#define N	1000
#define EXPECTED (ROUNDS * 2 * 2 * (N * (N + 1) / 2))

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
	.ascii	"nested calls: sum ok\n"
	.set	message_len, . - message

	.text
func _start
	.cfi_undefined rip		/* the outermost frame */
	xor	%ebp, %ebp
	and	$-16, %rsp
	xor	%ebx, %ebx		/* sum */
	mov	$ROUNDS, %r12d
1:	mov	$N, %edi
	call	outer
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

/* outer(n) = middle(n) + middle(n) */
func outer
	enter_frame
	push	%rdi
	push	%rdi			/* keeps the stack 16-aligned */
	call	middle
	mov	(%rsp), %rdi
	mov	%rax, (%rsp)
	call	middle
	add	(%rsp), %rax
	add	$16, %rsp
	leave_frame
	ret
end outer

/* middle(n) = inner(n) + inner(n) */
func middle
	enter_frame
	push	%rdi
	push	%rdi
	call	inner
	mov	(%rsp), %rdi
	mov	%rax, (%rsp)
	call	inner
	add	(%rsp), %rax
	add	$16, %rsp
	leave_frame
	ret
end middle

/* inner(n) = work(n) */
func inner
	enter_frame
	call	work
	leave_frame
	ret
end inner

/* work(n) = 1 + 2 + ... + n */
func work
	enter_frame
	xor	%eax, %eax
1:	add	%rdi, %rax
	dec	%rdi
	jnz	1b
	leave_frame
	ret
end work

	.section .note.GNU-stack, "", @progbits
