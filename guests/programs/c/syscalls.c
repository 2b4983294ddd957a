/*
 * syscalls [ROUNDS]: system calls in a loop.
 *
 * Each round makes eight system calls, all through a function of its own:
 * getpid, gettid, read from /dev/zero, write to /dev/null, lseek, sched_yield,
 * clock_gettime (the real call, not the vDSO) and close(-1), which fails.
 * Every result is checked. Exits 0 when none was unexpected.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PLAIN __attribute__((noipa))

static unsigned long calls, unexpected;

PLAIN static void check(int ok)
{
	calls++;
	if (!ok)
		unexpected++;
}

PLAIN static void call_getpid(long pid)
{
	check(syscall(SYS_getpid) == pid);
}

PLAIN static void call_gettid(long pid)
{
	check(syscall(SYS_gettid) == pid);
}

PLAIN static void call_read(int fd)
{
	char buf[512];

	buf[0] = buf[511] = 1;
	check(read(fd, buf, sizeof buf) == sizeof buf && buf[0] == 0 && buf[511] == 0);
}

PLAIN static void call_write(int fd)
{
	static const char text[64] = "nobody reads this";

	check(write(fd, text, sizeof text) == sizeof text);
}

PLAIN static void call_lseek(int fd)
{
	check(lseek(fd, 0, SEEK_SET) == 0);
}

PLAIN static void call_yield(void)
{
	check(syscall(SYS_sched_yield) == 0);
}

PLAIN static void call_clock(void)
{
	static struct timespec last;
	struct timespec now;
	int r = (int)syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);

	check(r == 0 && (now.tv_sec > last.tv_sec ||
			 (now.tv_sec == last.tv_sec && now.tv_nsec >= last.tv_nsec)));
	last = now;
}

PLAIN static void call_close(void)
{
	check(close(-1) == -1 && errno == EBADF);
}

PLAIN static void one_round(long pid, int zero, int null)
{
	call_getpid(pid);
	call_gettid(pid);
	call_read(zero);
	call_write(null);
	call_lseek(null);
	call_yield();
	call_clock();
	call_close();
}

int main(int argc, char **argv)
{
	unsigned long rounds = argc > 1 ? strtoul(argv[1], 0, 10) : 2000;
	int zero = open("/dev/zero", O_RDONLY), null = open("/dev/null", O_WRONLY);

	for (unsigned long i = 0; i < rounds; i++)
		one_round(getpid(), zero, null);
	printf("syscalls: %lu calls, %lu unexpected results\n", calls, unexpected);
	return unexpected != 0;
}
