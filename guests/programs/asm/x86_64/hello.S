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
	.type	_start, @function
_start:
	.cfi_startproc
	.cfi_undefined rip		/* the outermost frame */
	xor	%ebp, %ebp
	mov	$__NR_write, %eax
	mov	$1, %edi
	lea	message(%rip), %rsi
	mov	$message_len, %edx
	syscall
	xor	%edi, %edi
	mov	$__NR_exit_group, %eax
	syscall
	hlt
	.cfi_endproc
	.size	_start, . - _start
	.section .note.GNU-stack, "", @progbits
