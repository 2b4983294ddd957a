/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The aarch64 vDSO: names and prototypes of arch/arm64/kernel/vdso.
 */
#include "../vvar.h"

#define NR_clock_gettime	113
#define NR_clock_getres		114

static inline u64 counter(void)
{
	u64 count;

	/* The counter may be read early; ISB orders it (__arch_get_hw_counter). */
	__asm__ volatile("isb; mrs %0, cntvct_el0" : "=r"(count) : : "memory");
	return count;
}

static inline long fallback(long nr, long a, long b)
{
	register long x8 __asm__("x8") = nr;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;

	__asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1) : "memory");
	return x0;
}

#include "../clock.h"

int __kernel_clock_gettime(int clock, struct timespec *ts)
{
	return do_clock_gettime(clock, ts);
}

int __kernel_clock_getres(int clock, struct timespec *ts)
{
	return do_clock_getres(clock, ts);
}

int __kernel_gettimeofday(struct timeval *tv, struct timezone *tz)
{
	return do_gettimeofday(tv, tz);
}
