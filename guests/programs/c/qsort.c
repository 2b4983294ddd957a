/*
 * qsort [COUNT]: the C library's qsort and bsearch call back into the program.
 *
 * COUNT numbers, names and records are made up, sorted with one callback each
 * (the one for records calls a function per key), and searched. In a chain the
 * library's frames are between the program's, and they have no frame pointers.
 * The callbacks define total orders, so every qsort gives the same result.
 * Exits 0, or 1 when a result is out of order.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PLAIN __attribute__((noipa))
#define MOST 20000

struct record {
	uint32_t group, id;
	char name[8];
};

static uint32_t numbers[MOST];
static char names[MOST][8];
static struct record records[MOST];
static uint32_t seed = 1;

static uint32_t next_random(void)
{
	seed = seed * 1664525 + 1013904223;
	return seed >> 8;
}

PLAIN static int compare_numbers(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

PLAIN static int compare_names(const void *a, const void *b)
{
	return strcmp(a, b);
}

PLAIN static int by_group(const struct record *a, const struct record *b)
{
	return (a->group > b->group) - (a->group < b->group);
}

PLAIN static int by_id(const struct record *a, const struct record *b)
{
	return (a->id > b->id) - (a->id < b->id);
}

PLAIN static int compare_records(const void *a, const void *b)
{
	int r = by_group(a, b);

	return r ? r : by_id(a, b);
}

PLAIN static void fill(size_t count)
{
	for (size_t i = 0; i < count; i++) {
		uint32_t r = next_random();

		numbers[i] = r;
		for (unsigned j = 0; j < 6; j++, r /= 17)
			names[i][j] = (char)('a' + r % 17);
		records[i].group = r % 100;
		records[i].id = (uint32_t)i;
		memcpy(records[i].name, names[i], sizeof records[i].name);
	}
}

PLAIN static int in_order(const void *base, size_t count, size_t size,
			  int (*compare)(const void *, const void *))
{
	const char *p = base;

	for (size_t i = 1; i < count; i++)
		if (compare(p + (i - 1) * size, p + i * size) > 0)
			return 0;
	return 1;
}

/* a checksum that depends on the order */
PLAIN static uint32_t checksum(const void *base, size_t size)
{
	const unsigned char *p = base;
	uint32_t h = 2166136261u;

	while (size--)
		h = (h ^ *p++) * 16777619u;
	return h;
}

PLAIN static int sort_and_report(const char *what, void *base, size_t count, size_t size,
				 int (*compare)(const void *, const void *))
{
	size_t found = 0;
	int ok;

	qsort(base, count, size, compare);
	ok = in_order(base, count, size, compare);
	for (size_t i = 0; i < count; i += 10)
		found += bsearch((char *)base + i * size, base, count, size, compare) != 0;
	printf("%s: %s, %zu found, checksum %08x\n", what, ok ? "in order" : "NOT in order",
	       found, (unsigned)checksum(base, count * size));
	return ok && found == (count + 9) / 10;
}

int main(int argc, char **argv)
{
	size_t count = argc > 1 ? strtoul(argv[1], 0, 10) : 2000;
	int ok;

	if (count > MOST)
		count = MOST;
	fill(count);
	ok = sort_and_report("numbers", numbers, count, sizeof *numbers, compare_numbers);
	ok &= sort_and_report("names", names, count, sizeof *names, compare_names);
	ok &= sort_and_report("records", records, count, sizeof *records, compare_records);
	return !ok;
}
