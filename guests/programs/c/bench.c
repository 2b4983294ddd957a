/*
 * bench [PERCENT]: a CPU benchmark.
 *
 * About 10^9 instructions with PERCENT = 100, the default, on either
 * architecture, and in proportion for other values: each percent is one
 * round of about 10^7. A round is integer arithmetic, recursive calls, walks
 * through memory in order and by pointer, a sort with a callback, and a few
 * system calls. Prints a checksum that depends on PERCENT only.
 */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PLAIN __attribute__((noipa))

#define CELLS	(1u << 16)	/* 512 KiB of cells for the walks */
#define KEYS	1800

struct cell {
	uint32_t next, value;
};

static struct cell cells[CELLS];
static uint32_t keys[KEYS];

/* integer arithmetic, no memory: xorshift and a multiply */
PLAIN static uint64_t integers(uint64_t x, unsigned n)
{
	uint64_t sum = 0;

	while (n--) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		sum += x * UINT64_C(0x9e3779b97f4a7c15);
	}
	return sum;
}

/* calls and returns */
PLAIN static uint64_t calls(unsigned n)
{
	return n < 2 ? 1 : calls(n - 1) + calls(n - 2) + 1;
}

/* memory in order, read and written */
PLAIN static uint64_t walk_in_order(uint32_t add)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < CELLS; i++) {
		cells[i].value += add ^ i;
		sum += cells[i].value;
	}
	return sum;
}

/* memory by pointer: every load needs the one before */
PLAIN static uint64_t walk_by_pointer(unsigned steps)
{
	uint64_t sum = 0;
	uint32_t at = 0;

	while (steps--) {
		at = cells[at].next;
		sum += cells[at].value;
	}
	return sum;
}

PLAIN static int compare_keys(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

/* libc's qsort calls back into this program */
PLAIN static uint64_t sort(uint32_t seed)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < KEYS; i++)
		keys[i] = seed = seed * 1664525 + 1013904223;
	qsort(keys, KEYS, sizeof *keys, compare_keys);
	for (unsigned i = 0; i < KEYS; i++)
		sum += (uint64_t)keys[i] * i;
	return sum;
}

PLAIN static uint64_t system_calls(unsigned n)
{
	uint64_t sum = 0;

	while (n--)
		sum += syscall(SYS_getpid) > 0;
	return sum;
}

PLAIN static uint64_t one_round(uint32_t round)
{
	uint64_t sum = integers(round + 1, 300000);

	sum += calls(22);
	for (uint32_t i = 0; i < 4; i++)
		sum += walk_in_order(round + i);
	sum += walk_by_pointer(3 * CELLS);
	sum += sort(round);
	sum += system_calls(10);
	return sum;
}

int main(int argc, char **argv)
{
	uint32_t percent = argc > 1 ? (uint32_t)strtoul(argv[1], 0, 10) : 100;
	uint64_t sum = 0;

	/* one cycle through all cells: an odd step, modulo a power of two */
	for (uint32_t i = 0; i < CELLS; i++)
		cells[i].next = (i + 40503) % CELLS;
	for (uint32_t round = 0; round < percent; round++)
		sum = sum * 31 + one_round(round);
	printf("bench %" PRIu32 ": checksum %016" PRIx64 "\n", percent, sum);
	return 0;
}
