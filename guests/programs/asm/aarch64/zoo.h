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
	.type	\name, %function
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
	.type	\name, %function
\name:
	.endm
	.macro	bare_end name
	.size	\name, . - \name
	.endm

	/* a frame record, described at every instruction */
	.macro	enter_frame
	stp	x29, x30, [sp, #-16]!
	.cfi_def_cfa_offset 16
	.cfi_offset x29, -16
	.cfi_offset x30, -8
	mov	x29, sp
	.cfi_def_cfa_register x29
	.endm
	.macro	leave_frame
	ldp	x29, x30, [sp], #16
	.cfi_def_cfa sp, 0
	.cfi_restore x29
	.cfi_restore x30
	.endm

	/* a frame of \bytes, a multiple of 16, without a record: only the return
	   address is kept, at its bottom */
	.macro	open_frame bytes
	str	x30, [sp, #-\bytes]!
	.cfi_def_cfa_offset \bytes
	.cfi_offset x30, -\bytes
	.endm
	.macro	close_frame bytes
	ldr	x30, [sp], #\bytes
	.cfi_def_cfa_offset 0
	.cfi_restore x30
	.endm

	.text
#ifndef OWN_START
func _start
	.cfi_undefined x30		/* the outermost frame */
	.cfi_escape 0			/* no SFrame: version 1 cannot say that */
	mov	x29, xzr
	mov	x30, xzr
	mov	w19, #ROUNDS
1:	bl	round
	cbnz	w0, 2f
	subs	w19, w19, #1
	b.ne	1b
2:	mov	x8, #__NR_exit_group
	svc	#0
	brk	#0
end _start
#endif

	.section .note.GNU-stack, "", %progbits
	.text
