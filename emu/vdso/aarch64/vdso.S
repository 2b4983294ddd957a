/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The signal trampoline, to which a handler returns when sigaction had no
 * SA_RESTORER (glibc). As in arch/arm64/kernel/vdso/sigreturn.S:
 *
 *  - Exactly these two instructions: libgcc, libunwind and GDB recognise a signal
 *    frame by them. So no BTI landing pad either.
 *  - A NOP before, so that an unwinder that looks up the return address less one
 *    does not land in another function.
 *  - No CFI, since Linux 5.8. What was there (CFA = x29 with x29 and x30 saved)
 *    led to the interrupted function's caller and made libgcc crash; without it
 *    unwinders fall back on the registers in the signal frame.
 */
#include "../note.h"

	.text
	.balign	16
	nop
	.globl	__kernel_rt_sigreturn
	.type	__kernel_rt_sigreturn, %function
__kernel_rt_sigreturn:
	mov	x8, #139		/* rt_sigreturn */
	svc	#0
	.size	__kernel_rt_sigreturn, . - __kernel_rt_sigreturn
