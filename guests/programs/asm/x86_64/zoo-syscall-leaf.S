/*
 * zoo-syscall-leaf: a system call wrapper that is a leaf, below a deep chain.
 *
 * wrapper makes no frame: what is sampled in the kernel and unwound on the way
 * back to user mode finds the return address at %rsp, not in a frame record.
 * down calls itself DEPTH times first; all of its frames must be there.
 */
#include "zoo.h"

#define DEPTH	10

func round
	enter_frame
	mov	$DEPTH, %edi
	call	down
	xor	%eax, %eax
	leave_frame
	ret
end round

func down
	enter_frame
	dec	%edi
	jz	1f
	call	down
	jmp	2f
1:	call	wrapper
2:	leave_frame
	ret
end down

func wrapper
	mov	$__NR_getppid, %eax
	syscall
	ret
end wrapper
