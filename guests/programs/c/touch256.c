/*
 * touch256 [MIB]: allocates 256 MiB (or MIB) and touches every page.
 *
 * The first pass writes one word per page, so each page is a page fault; the
 * second reads the words back. Exits 0, or 1 when memory is short or wrong.
 */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define PLAIN __attribute__((noipa))
#define PAGE 4096

PLAIN static void touch_pages(char *p, size_t pages)
{
	for (size_t i = 0; i < pages; i++)
		*(uint64_t *)(p + i * PAGE + i % 500 * 8) = i + 1;
}

PLAIN static uint64_t sum_pages(const char *p, size_t pages)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < pages; i++)
		sum += *(const uint64_t *)(p + i * PAGE + i % 500 * 8);
	return sum;
}

int main(int argc, char **argv)
{
	size_t mib = argc > 1 ? strtoul(argv[1], 0, 10) : 256;
	size_t pages = mib * ((1 << 20) / PAGE);
	/* one page more: the allocation need not start at a page */
	char *p = malloc((pages + 1) * PAGE);
	uint64_t sum, expected = (uint64_t)pages * (pages + 1) / 2;

	if (!p) {
		puts("touch256: not enough memory");
		return 1;
	}
	p = (char *)(((uintptr_t)p + PAGE - 1) & -(uintptr_t)PAGE);
	touch_pages(p, pages);
	sum = sum_pages(p, pages);
	printf("touch256: %zu MiB, %zu pages, sum %" PRIu64 " %s\n", mib, pages, sum,
	       sum == expected ? "ok" : "WRONG");
	return sum != expected;
}
