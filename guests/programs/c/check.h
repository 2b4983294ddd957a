/*
 * For the guests that check one thing after the other: a line per group,
 * "NAME ok", or a line per failed check with its source line.
 */
#include <stdio.h>

static const char *group_name;
static int group_failed, all_failed;

#define CHECK(condition) \
	do { \
		if (!(condition)) { \
			printf("%s: line %d: not true: %s\n", group_name, __LINE__, #condition); \
			group_failed = 1; \
		} \
	} while (0)

#define GROUP(function) \
	do { \
		group_name = #function; \
		group_failed = 0; \
		function(); \
		if (!group_failed) \
			printf("%s ok\n", group_name); \
		all_failed |= group_failed; \
	} while (0)
