/*
 * leaf: what a leaf function without a frame does to a frame-pointer chain.
 *
 * _start -> caller -> leaf_frameless and _start -> caller -> leaf_framed, in
 * equal parts. All functions but leaf_frameless set up a frame record. While
 * leaf_frameless runs, x29 is still caller's and the return address is only
 * in x30, so a frame-pointer chain goes from leaf_frameless straight to
 * _start: its caller is missing unless x30 is looked at. The CFI says when it
 * has to be.
 *
 * Prints one line and exits 0 when the sum is right, exits 1 otherwise.
 */
#include <asm/unistd.h>

#define ROUNDS	1000
#define N	500
#define EXPECTED (ROUNDS * 2 * (N * (N + 1) / 2))

	.macro	func name
	.globl	\name
	.type	\name, %function
\name:
	.cfi_startproc
	.endm
	.macro	end name
	.cfi_endproc
	.size	\name, . - \name
	.endm
	/* a frame record and 16 bytes for locals */
	.macro	enter_frame
	stp	x29, x30, [sp, #-32]!
	.cfi_def_cfa_offset 32
	.cfi_offset x29, -32
	.cfi_offset x30, -24
	mov	x29, sp
	.cfi_def_cfa_register x29
	.endm
	.macro	leave_frame
	ldp	x29, x30, [sp], #32
	.cfi_def_cfa sp, 0
	.cfi_restore x29
	.cfi_restore x30
	.endm

	.section .rodata
message:
	.ascii	"leaf: sum ok\n"
	.set	message_len, . - message

	.text
func _start
	.cfi_undefined x30		/* the outermost frame */
	mov	x29, xzr
	mov	x30, xzr
	mov	x19, xzr		/* sum */
	mov	w20, #ROUNDS
1:	bl	caller
	add	x19, x19, x0
	subs	w20, w20, #1
	b.ne	1b
	mov	x0, #1
	ldr	x1, =EXPECTED
	cmp	x19, x1
	b.ne	2f
	mov	x8, #__NR_write
	adrp	x1, message
	add	x1, x1, :lo12:message
	mov	x2, #message_len
	svc	#0
	mov	x0, #0
2:	mov	x8, #__NR_exit_group
	svc	#0
	brk	#0
end _start
	.ltorg

/* caller() = leaf_frameless(N) + leaf_framed(N) */
func caller
	enter_frame
	mov	x0, #N
	bl	leaf_frameless
	str	x0, [sp, #16]
	mov	x0, #N
	bl	leaf_framed
	ldr	x1, [sp, #16]
	add	x0, x0, x1
	leave_frame
	ret
end caller

/* 1 + 2 + ... + n */
func leaf_frameless
	mov	x1, x0
	mov	x0, xzr
1:	add	x0, x0, x1
	subs	x1, x1, #1
	b.ne	1b
	ret
end leaf_frameless

/* the same, with a frame */
func leaf_framed
	enter_frame
	mov	x1, x0
	mov	x0, xzr
1:	add	x0, x0, x1
	subs	x1, x1, #1
	b.ne	1b
	leave_frame
	ret
end leaf_framed

	.section .note.GNU-stack, "", %progbits
