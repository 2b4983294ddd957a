/*
 * zoo-fp-without-cfi: code with frame pointers and no CFI in the middle of a
 * chain that has CFI.
 *
 * builtin is the code that a language's runtime embeds in its executable,
 * probe the hand-written helper that touches each page of a large frame. Both
 * keep frame records and nothing describes them: an unwinder that goes by
 * tables alone stops in them, and in leaf when builtin has called it. One that
 * falls back to frame pointers goes on.
 */
#include "zoo.h"

func round
	enter_frame
	call	builtin
	call	large
	xor	%eax, %eax
	leave_frame
	ret
end round

bare builtin
	push	%rbp
	mov	%rsp, %rbp
	sub	$16, %rsp
	call	leaf
	nop
	leave
	ret
bare_end builtin

/* a frame of three pages */
func large
	enter_frame
	mov	$0x3000, %eax
	call	probe
	sub	%rax, %rsp
	nop
	mov	%rbp, %rsp
	leave_frame
	ret
end large

/* probe(%rax bytes): touches each page below the caller's frame */
bare probe
	push	%rbp
	mov	%rsp, %rbp
	mov	%rax, %r11
1:	sub	$0x1000, %rsp
	test	%rsp, 8(%rsp)
	sub	$0x1000, %r11
	ja	1b
	mov	%rbp, %rsp
	pop	%rbp
	ret
bare_end probe

func leaf
	enter_frame
	nop
	leave_frame
	ret
end leaf
