/*
 * nested-nofp: nested calls, no frame pointer anywhere.
 *
 * _start -> outer -> middle -> inner -> work, where work is a loop. No
 * function keeps a frame record, and x29 is an ordinary register (the round
 * counter), so frame pointers lead nowhere; the CFI describes every frame
 * relative to sp.
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

	.section .rodata
message:
	.ascii	"nested calls: sum ok\n"
	.set	message_len, . - message

	.text
func _start
	.cfi_undefined x30		/* the outermost frame */
	mov	x30, xzr
	mov	x19, xzr		/* sum */
	mov	w29, #ROUNDS
1:	mov	x0, #N
	bl	outer
	add	x19, x19, x0
	subs	w29, w29, #1
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
	sub	sp, sp, #32
	.cfi_def_cfa_offset 32
	stp	x30, x21, [sp, #16]
	.cfi_offset x30, -16
	.cfi_offset x21, -8
	str	x0, [sp]
	bl	middle
	mov	x21, x0
	ldr	x0, [sp]
	bl	middle
	add	x0, x0, x21
	ldp	x30, x21, [sp, #16]
	.cfi_restore x30
	.cfi_restore x21
	add	sp, sp, #32
	.cfi_def_cfa_offset 0
	ret
end outer

/* middle(n) = inner(n) + inner(n) */
func middle
	stp	x22, x30, [sp, #-48]!
	.cfi_def_cfa_offset 48
	.cfi_offset x22, -48
	.cfi_offset x30, -40
	str	x0, [sp, #24]
	bl	inner
	mov	x22, x0
	ldr	x0, [sp, #24]
	bl	inner
	add	x0, x0, x22
	ldp	x22, x30, [sp], #48
	.cfi_def_cfa_offset 0
	.cfi_restore x22
	.cfi_restore x30
	ret
end middle

/* inner(n) = work(n) */
func inner
	str	x30, [sp, #-16]!
	.cfi_def_cfa_offset 16
	.cfi_offset x30, -16
	bl	work
	ldr	x30, [sp], #16
	.cfi_def_cfa_offset 0
	.cfi_restore x30
	ret
end inner

/* work(n) = 1 + 2 + ... + n; a leaf: nothing on the stack */
func work
	mov	x1, x0
	mov	x0, xzr
1:	add	x0, x0, x1
	subs	x1, x1, #1
	b.ne	1b
	ret
end work

	.section .note.GNU-stack, "", %progbits
