/*
 * nested-fp: nested calls, a frame pointer in every function.
 *
 * _start -> outer -> middle -> inner -> work, where work is a loop. Each
 * function sets up a frame record (saved x29 and x30), so following frame
 * pointers alone gives the whole chain. The CFI says the same.
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
	.ascii	"nested calls: sum ok\n"
	.set	message_len, . - message

	.text
func _start
	.cfi_undefined x30		/* the outermost frame */
	mov	x29, xzr
	mov	x30, xzr
	mov	x19, xzr		/* sum */
	mov	w20, #ROUNDS
1:	mov	x0, #N
	bl	outer
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

/* outer(n) = middle(n) + middle(n) */
func outer
	enter_frame
	str	x0, [sp, #16]
	bl	middle
	ldr	x1, [sp, #16]
	str	x0, [sp, #16]
	mov	x0, x1
	bl	middle
	ldr	x1, [sp, #16]
	add	x0, x0, x1
	leave_frame
	ret
end outer

/* middle(n) = inner(n) + inner(n) */
func middle
	enter_frame
	str	x0, [sp, #16]
	bl	inner
	ldr	x1, [sp, #16]
	str	x0, [sp, #16]
	mov	x0, x1
	bl	inner
	ldr	x1, [sp, #16]
	add	x0, x0, x1
	leave_frame
	ret
end middle

/* inner(n) = work(n) */
func inner
	enter_frame
	bl	work
	leave_frame
	ret
end inner

/* work(n) = 1 + 2 + ... + n */
func work
	enter_frame
	mov	x1, x0
	mov	x0, xzr
1:	add	x0, x0, x1
	subs	x1, x1, #1
	b.ne	1b
	leave_frame
	ret
end work

	.section .note.GNU-stack, "", %progbits
