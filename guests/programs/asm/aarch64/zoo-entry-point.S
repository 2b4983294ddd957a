/*
 * zoo-entry-point: the very first instruction of a program.
 *
 * The rule that says "no caller" begins one instruction into _start, as in
 * glibc. At the entry instruction itself the ordinary rule holds: x30, which
 * the kernel set to 0, is the return address. 0 is no address of code, so that
 * a careful unwinder still ends there.
 *
 * The SFrame that binutils 2.40 writes for _start says "an ordinary function" all
 * the way: version 1 has no way to say "outermost", and the assembler does not
 * leave the function out.
 */
#define OWN_START
#include "zoo.h"

func _start
	mov	x29, xzr
	.cfi_undefined x30
	mov	w19, #20
1:	bl	work
	subs	w19, w19, #1
	b.ne	1b
	mov	w0, #0
	mov	x8, #__NR_exit_group
	svc	#0
	brk	#0
end _start

func work
	enter_frame
	nop
	leave_frame
	ret
end work
