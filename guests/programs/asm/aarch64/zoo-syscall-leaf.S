/*
 * zoo-syscall-leaf: a system call wrapper that is a leaf, below a deep chain.
 *
 * wrapper makes no frame: what is sampled in the kernel and unwound on the way
 * back to user mode finds the return address in x30, not in a frame record.
 * down calls itself DEPTH times first; all of its frames must be there.
 */
#include "zoo.h"

#define DEPTH	10

func round
	enter_frame
	mov	w0, #DEPTH
	bl	down
	mov	w0, #0
	leave_frame
	ret
end round

func down
	enter_frame
	subs	w0, w0, #1
	b.eq	1f
	bl	down
	b	2f
1:	bl	wrapper
2:	leave_frame
	ret
end down

func wrapper
	mov	x8, #__NR_getppid
	svc	#0
	ret
end wrapper
