/*
 * hello: the smallest guest. No libc, no stack use: one write(2), one
 * exit_group(2).
 */
#include <asm/unistd.h>

	.section .rodata
message:
	.ascii	"hello from assembly\n"
	.set	message_len, . - message

	.text
	.globl	_start
	.type	_start, %function
_start:
	.cfi_startproc
	.cfi_undefined x30		/* the outermost frame */
	mov	x29, xzr
	mov	x30, xzr
	mov	x8, #__NR_write
	mov	x0, #1
	adrp	x1, message
	add	x1, x1, :lo12:message
	mov	x2, #message_len
	svc	#0
	mov	x0, #0
	mov	x8, #__NR_exit_group
	svc	#0
	brk	#0
	.cfi_endproc
	.size	_start, . - _start
	.section .note.GNU-stack, "", %progbits
