/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The x86_64 vDSO: names and prototypes of arch/x86/entry/vdso.
 */
#include "../vvar.h"

#define NR_clock_gettime	228
#define NR_clock_getres		229

static inline u64 counter(void)
{
	u32 low, high;

	/* RDTSC may run ahead of earlier loads; LFENCE orders it (rdtsc_ordered). */
	__asm__ volatile("lfence; rdtsc" : "=a"(low), "=d"(high) : : "memory");
	return low | (u64)high << 32;
}

static inline long fallback(long nr, long a, long b)
{
	long ret;

	__asm__ volatile("syscall" : "=a"(ret) : "a"(nr), "D"(a), "S"(b) : "rcx", "r11", "memory");
	return ret;
}

#include "../clock.h"

int __vdso_clock_gettime(int clock, struct timespec *ts)
{
	return do_clock_gettime(clock, ts);
}

int __vdso_clock_getres(int clock, struct timespec *ts)
{
	return do_clock_getres(clock, ts);
}

int __vdso_gettimeofday(struct timeval *tv, struct timezone *tz)
{
	return do_gettimeofday(tv, tz);
}

long __vdso_time(long *t)
{
	long now = wall_clock() / NSEC_PER_SEC;

	if (t)
		*t = now;
	return now;
}

/*
 * Linux asks the processor (RDPID, or the limit of a segment). The modelled CPU has
 * neither RDPID nor RDTSCP; the kernel keeps the numbers in the vvar page instead.
 */
long __vdso_getcpu(unsigned int *cpu, unsigned int *node, void *unused)
{
	(void)unused;
	if (cpu)
		*cpu = vvar_page.cpu;
	if (node)
		*node = vvar_page.node;
	return 0;
}

#define WEAK(name, function) \
	__typeof__(function) name __attribute__((weak, alias(#function)))

WEAK(clock_gettime, __vdso_clock_gettime);
WEAK(clock_getres, __vdso_clock_getres);
WEAK(gettimeofday, __vdso_gettimeofday);
WEAK(time, __vdso_time);
WEAK(getcpu, __vdso_getcpu);
