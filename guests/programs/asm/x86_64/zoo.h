/*
 * What the guests of the fault zoo share: names for functions, frame records,
 * and a _start that calls `round` ROUNDS times and exits with what it returned
 * last, or at once with what is not 0.
 */
#include <asm/unistd.h>

#ifndef ROUNDS
#define ROUNDS	20
#endif

	/* a function with CFI */
	.macro	func name
	.globl	\name
	.type	\name, @function
\name:
	.cfi_startproc
	.endm
	.macro	end name
	.cfi_endproc
.L\name\()_end:
	.size	\name, . - \name
	.endm

	/* one that no table describes */
	.macro	bare name
	.globl	\name
	.type	\name, @function
\name:
	.endm
	.macro	bare_end name
	.size	\name, . - \name
	.endm

	/* a frame record, described at every instruction */
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
	.cfi_restore %rbp
	.endm

	/* a frame of \bytes without a record; \bytes + 8 is a multiple of 16 */
	.macro	open_frame bytes
	sub	$\bytes, %rsp
	.cfi_def_cfa_offset \bytes + 8
	.endm
	.macro	close_frame bytes
	add	$\bytes, %rsp
	.cfi_def_cfa_offset 8
	.endm

	.text
#ifndef OWN_START
func _start
	.cfi_undefined rip		/* the outermost frame */
	.cfi_escape 0			/* no SFrame: version 1 cannot say that */
	xor	%ebp, %ebp
	and	$-16, %rsp
	mov	$ROUNDS, %r12d
1:	call	round
	mov	%eax, %edi
	test	%eax, %eax
	jnz	2f
	dec	%r12d
	jnz	1b
2:	mov	$__NR_exit_group, %eax
	syscall
	hlt
end _start
#endif

	.section .note.GNU-stack, "", @progbits
	.text
