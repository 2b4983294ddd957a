/*
 * zoo-clobbered-fp: a callee that stores over its caller's saved frame pointer.
 *
 * clobbers writes %rbp to where %rbp points, as assembly with a frame of size
 * zero did that put its own record in the wrong slot, and later repairs it. In
 * between the caller's record points to itself: a frame-pointer chain goes
 * round and round. The tables do not go by %rbp (victim's CFA is %rsp's), so
 * that their return addresses are right; the %rbp that they recover is not.
 */
#include "zoo.h"

func round
	open_frame 8
	call	victim
	xor	%eax, %eax
	close_frame 8
	ret
end round

func victim
	push	%rbp
	.cfi_def_cfa_offset 16
	.cfi_offset %rbp, -16
	mov	%rsp, %rbp		/* a frame record that the CFI does not use */
	call	clobbers
	pop	%rbp
	.cfi_def_cfa_offset 8
	.cfi_restore %rbp
	ret
end victim

func clobbers
	mov	(%rbp), %rax
	mov	%rbp, (%rbp)
	nop
	nop
	mov	%rax, (%rbp)
	ret
end clobbers
