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

/* The kernel keeps "CPU | node << 12" in IA32_TSC_AUX, which RDTSCP returns. */
long __vdso_getcpu(unsigned int *cpu, unsigned int *node, void *unused)
{
	u32 aux;

	(void)unused;
	__asm__ volatile("rdtscp" : "=c"(aux) : : "eax", "edx");
	if (cpu)
		*cpu = aux & 0xfff;
	if (node)
		*node = aux >> 12;
	return 0;
}

#define WEAK(name, function) \
	__typeof__(function) name __attribute__((weak, alias(#function)))

WEAK(clock_gettime, __vdso_clock_gettime);
WEAK(clock_getres, __vdso_clock_getres);
WEAK(gettimeofday, __vdso_gettimeofday);
WEAK(time, __vdso_time);
WEAK(getcpu, __vdso_getcpu);
