/*
 * time: clocks, through the C library (which uses the vDSO where it can) and
 * by system call.
 *
 * Nothing printed depends on the time: each group checks relations only, such
 * as that clocks do not go backwards and that two ways to read one agree.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
#include "check.h"

#define PLAIN __attribute__((noipa))

static int64_t nanoseconds(const struct timespec *t)
{
	return (int64_t)t->tv_sec * 1000000000 + t->tv_nsec;
}

PLAIN static int64_t read_clock(clockid_t id)
{
	struct timespec t = { -1, -1 };

	CHECK(clock_gettime(id, &t) == 0);
	CHECK(t.tv_nsec >= 0 && t.tv_nsec < 1000000000);
	return nanoseconds(&t);
}

PLAIN static int64_t read_clock_by_syscall(clockid_t id)
{
	struct timespec t = { -1, -1 };

	CHECK(syscall(SYS_clock_gettime, id, &t) == 0);
	return nanoseconds(&t);
}

static const clockid_t clocks[] = {
	CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_MONOTONIC_RAW, CLOCK_BOOTTIME,
	CLOCK_REALTIME_COARSE, CLOCK_MONOTONIC_COARSE,
	CLOCK_PROCESS_CPUTIME_ID, CLOCK_THREAD_CPUTIME_ID,
};
#define CLOCKS (sizeof clocks / sizeof *clocks)

static void forwards(void)
{
	for (unsigned c = 0; c < CLOCKS; c++) {
		int64_t last = read_clock(clocks[c]);

		CHECK(last >= 0);
		for (int i = 0; i < 500; i++) {
			int64_t now = read_clock(clocks[c]);

			CHECK(now >= last);
			last = now;
		}
	}
}

/* the vDSO and the system call read the same clock */
static void agreement(void)
{
	for (unsigned c = 0; c < CLOCKS; c++) {
		int64_t before = read_clock(clocks[c]);
		int64_t by_syscall = read_clock_by_syscall(clocks[c]);
		int64_t after = read_clock(clocks[c]);

		CHECK(before <= by_syscall && by_syscall <= after);
	}
}

static void coarse(void)
{
	for (int i = 0; i < 100; i++) {
		int64_t rough = read_clock(CLOCK_MONOTONIC_COARSE);
		int64_t fine = read_clock(CLOCK_MONOTONIC);

		CHECK(rough <= fine && fine - rough < 10000000000);
	}
}

/* after 2020, and the same for all who ask */
static void date(void)
{
	struct timeval tv;
	time_t whole = time(0);
	int64_t ns = read_clock(CLOCK_REALTIME);

	CHECK(whole > 1577836800);
	CHECK(ns / 1000000000 >= whole && ns / 1000000000 - whole < 5);
	CHECK(gettimeofday(&tv, 0) == 0);
	CHECK(tv.tv_usec >= 0 && tv.tv_usec < 1000000);
	CHECK((int64_t)tv.tv_sec * 1000000 + tv.tv_usec >= ns / 1000);
	CHECK(time(0) + 1 >= tv.tv_sec);	/* time() may be a tick behind */
}

static void resolution(void)
{
	struct timespec t;

	for (unsigned c = 0; c < CLOCKS; c++) {
		CHECK(clock_getres(clocks[c], &t) == 0);
		CHECK(t.tv_sec == 0 && t.tv_nsec >= 1 && t.tv_nsec <= 10000000);
	}
	CHECK(clock_getres(CLOCK_MONOTONIC, &t) == 0 && t.tv_nsec == 1);
}

static void errors(void)
{
	struct timespec t = { 0, 1000000000 };

	CHECK(clock_gettime(77, &t) == -1 && errno == EINVAL);
	CHECK(clock_getres(77, &t) == -1 && errno == EINVAL);
	CHECK(nanosleep(&t, 0) == -1 && errno == EINVAL);
	CHECK(syscall(SYS_clock_gettime, CLOCK_MONOTONIC, 8) == -1 && errno == EFAULT);
}

static void sleeping(void)
{
	struct timespec t = { 0, 3000000 };
	int64_t start = read_clock(CLOCK_MONOTONIC);

	CHECK(nanosleep(&t, 0) == 0);
	CHECK(read_clock(CLOCK_MONOTONIC) - start >= 3000000);
	start = read_clock(CLOCK_MONOTONIC) + 2000000;
	t.tv_sec = start / 1000000000;
	t.tv_nsec = start % 1000000000;
	CHECK(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, 0) == 0);
	CHECK(read_clock(CLOCK_MONOTONIC) >= start);
	t.tv_sec = 0;	/* long past */
	CHECK(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, 0) == 0);
}

/* a clock of CPU time runs while the program does */
static void cpu_time(void)
{
	int64_t start = read_clock(CLOCK_PROCESS_CPUTIME_ID);
	volatile unsigned long x = 0;

	for (int i = 0; i < 200000; i++)
		x += i;
	CHECK(read_clock(CLOCK_PROCESS_CPUTIME_ID) > start);
}

static void cpu_number(void)
{
	unsigned cpu = -1, node = -1;

	CHECK(syscall(SYS_getcpu, &cpu, &node, 0) == 0);
	CHECK(cpu < 8192 && node < 1024);
	CHECK(sched_getcpu() >= 0 && sched_getcpu() < 8192);
}

int main(void)
{
	GROUP(forwards);
	GROUP(agreement);
	GROUP(coarse);
	GROUP(date);
	GROUP(resolution);
	GROUP(errors);
	GROUP(sleeping);
	GROUP(cpu_time);
	GROUP(cpu_number);
	return all_failed;
}
