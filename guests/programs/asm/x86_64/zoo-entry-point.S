/*
 * zoo-entry-point: the very first instruction of a program.
 *
 * The rule that says "no caller" begins one instruction into _start, as in
 * some C libraries. At the entry instruction itself the ordinary rule holds:
 * the word at %rsp, the number of arguments, is taken for a return address.
 *
 * The SFrame that binutils 2.40 writes for _start says "an ordinary function" all
 * the way: version 1 has no way to say "outermost", and the assembler does not
 * leave the function out.
 */
#define OWN_START
#include "zoo.h"

func _start
	xor	%ebp, %ebp
	.cfi_undefined rip
	mov	$20, %ebx
1:	call	work
	dec	%ebx
	jnz	1b
	xor	%edi, %edi
	mov	$__NR_exit_group, %eax
	syscall
	hlt
end _start

func work
	enter_frame
	nop
	leave_frame
	ret
end work
