/*
 * nested-nofp: nested calls, no frame pointer anywhere.
 *
 * _start -> outer -> middle -> inner -> work, where work is a loop. No
 * function keeps a frame record, and %rbp is an ordinary register (the round
 * counter), so frame pointers lead nowhere; the CFI describes every frame
 * relative to %rsp.
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

	.section .rodata
message:
	.ascii	"nested calls: sum ok\n"
	.set	message_len, . - message

	.text
func _start
	.cfi_undefined rip		/* the outermost frame */
	and	$-16, %rsp
	xor	%ebx, %ebx		/* sum */
	mov	$ROUNDS, %ebp
1:	mov	$N, %edi
	call	outer
	add	%rax, %rbx
	dec	%ebp
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
	push	%r12
	.cfi_def_cfa_offset 16
	.cfi_offset %r12, -16
	sub	$16, %rsp
	.cfi_def_cfa_offset 32
	mov	%rdi, (%rsp)
	call	middle
	mov	%rax, %r12
	mov	(%rsp), %rdi
	call	middle
	add	%r12, %rax
	add	$16, %rsp
	.cfi_def_cfa_offset 16
	pop	%r12
	.cfi_def_cfa_offset 8
	.cfi_restore %r12
	ret
end outer

/* middle(n) = inner(n) + inner(n) */
func middle
	push	%r13
	.cfi_def_cfa_offset 16
	.cfi_offset %r13, -16
	sub	$32, %rsp
	.cfi_def_cfa_offset 48
	mov	%rdi, 8(%rsp)
	call	inner
	mov	%rax, %r13
	mov	8(%rsp), %rdi
	call	inner
	add	%r13, %rax
	add	$32, %rsp
	.cfi_def_cfa_offset 16
	pop	%r13
	.cfi_def_cfa_offset 8
	.cfi_restore %r13
	ret
end middle

/* inner(n) = work(n) */
func inner
	sub	$24, %rsp
	.cfi_def_cfa_offset 32
	call	work
	add	$24, %rsp
	.cfi_def_cfa_offset 8
	ret
end inner

/* work(n) = 1 + 2 + ... + n; a leaf: nothing on the stack */
func work
	xor	%eax, %eax
1:	add	%rdi, %rax
	dec	%rdi
	jnz	1b
	ret
end work

	.section .note.GNU-stack, "", @progbits
