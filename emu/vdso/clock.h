/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The clocks, for both architectures. The includer defines before:
 *	static inline u64 counter(void)			the CPU counter, ordered
 *	static inline long fallback(long nr, long, long)	a real system call
 *	NR_clock_gettime, NR_clock_getres
 */
#include "vvar.h"

#define NSEC_PER_SEC	1000000000ul
#define TAI_OFFSET	37	/* seconds that TAI is ahead of UTC, since 2017 */

enum {
	CLOCK_REALTIME = 0,
	CLOCK_MONOTONIC = 1,
	CLOCK_MONOTONIC_RAW = 4,
	CLOCK_REALTIME_COARSE = 5,
	CLOCK_MONOTONIC_COARSE = 6,
	CLOCK_BOOTTIME = 7,
	CLOCK_TAI = 11,
};

struct timespec {
	long tv_sec;
	long tv_nsec;
};

struct timeval {
	long tv_sec;
	long tv_usec;
};

struct timezone {
	int tz_minuteswest;
	int tz_dsttime;
};

/* Nanoseconds since 1970, consistent with the page at one moment. */
static inline u64 wall_clock(void)
{
	u64 now;
	u32 seq;

	do {
		do {
			seq = __atomic_load_n(&vvar_page.seq, __ATOMIC_ACQUIRE);
		} while (seq & 1);
		now = counter() + __atomic_load_n(&vvar_page.wall_offset_ns, __ATOMIC_RELAXED);
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
	} while (__atomic_load_n(&vvar_page.seq, __ATOMIC_RELAXED) != seq);
	return now;
}

static inline int do_clock_gettime(int clock, struct timespec *ts)
{
	u64 now;

	switch (clock) {
	case CLOCK_REALTIME:
	case CLOCK_REALTIME_COARSE:
		now = wall_clock();
		break;
	case CLOCK_MONOTONIC:
	case CLOCK_MONOTONIC_RAW:
	case CLOCK_MONOTONIC_COARSE:
	case CLOCK_BOOTTIME:
		now = counter();
		break;
	case CLOCK_TAI:
		now = wall_clock() + TAI_OFFSET * NSEC_PER_SEC;
		break;
	default:
		return fallback(NR_clock_gettime, clock, (long)ts);
	}
	ts->tv_sec = now / NSEC_PER_SEC;
	ts->tv_nsec = now % NSEC_PER_SEC;
	return 0;
}

/* Every clock that is read here has the counter's resolution, coarse ones too. */
static inline int do_clock_getres(int clock, struct timespec *ts)
{
	switch (clock) {
	case CLOCK_REALTIME:
	case CLOCK_REALTIME_COARSE:
	case CLOCK_MONOTONIC:
	case CLOCK_MONOTONIC_RAW:
	case CLOCK_MONOTONIC_COARSE:
	case CLOCK_BOOTTIME:
	case CLOCK_TAI:
		if (ts) {
			ts->tv_sec = 0;
			ts->tv_nsec = 1;
		}
		return 0;
	default:
		return fallback(NR_clock_getres, clock, (long)ts);
	}
}

static inline int do_gettimeofday(struct timeval *tv, struct timezone *tz)
{
	if (tv) {
		u64 now = wall_clock();

		tv->tv_sec = now / NSEC_PER_SEC;
		tv->tv_usec = now % NSEC_PER_SEC / 1000;
	}
	if (tz) {
		tz->tz_minuteswest = 0;
		tz->tz_dsttime = 0;
	}
	return 0;
}
