/*
 * memory: mmap, munmap, mprotect, mremap, brk and madvise, what they do and
 * which errors they give.
 *
 * Whether an address can be read or written is found out without a fault, by
 * giving it to a system call: access() for reading, read() from /dev/zero for
 * writing, both fail with EFAULT.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "check.h"

#define PAGE 4096
#define RW (PROT_READ | PROT_WRITE)
#define PRIVATE (MAP_PRIVATE | MAP_ANONYMOUS)
#define FAILS(call, error) (errno = 0, (intptr_t)(call) == -1 && errno == (error))

static int zero;

static int readable(const char *p)
{
	return !(access(p, F_OK) == -1 && errno == EFAULT);
}

static int writable(char *p)
{
	return read(zero, p, 1) == 1;
}

static char *map(size_t pages, int protection)
{
	return mmap(0, pages * PAGE, protection, PRIVATE, -1, 0);
}

static int all_zero(const char *p, size_t n)
{
	while (n--)
		if (*p++)
			return 0;
	return 1;
}

static void map_and_unmap(void)
{
	char *p = mmap(0, 3 * PAGE - 100, RW, PRIVATE, -1, 0);

	CHECK(p != MAP_FAILED && (uintptr_t)p % PAGE == 0);
	CHECK(all_zero(p, 3 * PAGE));	/* up to the end of the page */
	memset(p, 1, 3 * PAGE);
	CHECK(munmap(p + PAGE, 1) == 0);	/* a hole of one page */
	CHECK(writable(p) && !readable(p + PAGE) && writable(p + 2 * PAGE));
	CHECK(p[PAGE - 1] == 1 && p[2 * PAGE + 1] == 1);
	CHECK(munmap(p, 3 * PAGE) == 0);	/* holes do not matter */
	CHECK(!readable(p) && !readable(p + 2 * PAGE));
	CHECK(munmap(p, 3 * PAGE) == 0);	/* nor does having nothing there */
}

static void map_errors(void)
{
	CHECK(FAILS(mmap(0, 0, RW, PRIVATE, -1, 0), EINVAL));
	CHECK(FAILS(mmap(0, PAGE, RW, MAP_ANONYMOUS, -1, 0), EINVAL));
	CHECK(FAILS(mmap(0, PAGE, RW, MAP_PRIVATE, -1, 0), EBADF));
	CHECK(FAILS(mmap(0, (size_t)1 << 62, RW, PRIVATE, -1, 0), ENOMEM));
	CHECK(FAILS(mmap((void *)123, PAGE, RW, PRIVATE | MAP_FIXED, -1, 0), EINVAL));
	CHECK(FAILS(munmap((void *)123, PAGE), EINVAL));
	CHECK(FAILS(munmap((void *)PAGE, 0), EINVAL));
}

static void fixed(void)
{
	char *p = map(4, RW), *q;

	memset(p, 5, 4 * PAGE);
	q = mmap(p + PAGE, PAGE, PROT_READ, PRIVATE | MAP_FIXED, -1, 0);
	CHECK(q == p + PAGE);
	CHECK(q[0] == 0 && !writable(q));	/* what was there is gone */
	CHECK(p[PAGE - 1] == 5 && p[2 * PAGE] == 5);
	CHECK(FAILS(mmap(p, PAGE, RW, PRIVATE | MAP_FIXED_NOREPLACE, -1, 0), EEXIST));
	munmap(q, PAGE);
	q = mmap(p + PAGE, PAGE, RW, PRIVATE | MAP_FIXED_NOREPLACE, -1, 0);
	CHECK(q == p + PAGE);
	munmap(q, PAGE);
	q = mmap(p + PAGE, PAGE, RW, PRIVATE, -1, 0);	/* a hint that can be met */
	CHECK(q == p + PAGE);
	q = mmap(p, PAGE, RW, PRIVATE, -1, 0);	/* and one that cannot */
	CHECK(q != MAP_FAILED && q != p);
	munmap(q, PAGE);
	munmap(p, 4 * PAGE);
}

static void protect(void)
{
	char *p = map(4, RW);

	p[PAGE] = 9;
	CHECK(mprotect(p + PAGE, PAGE, PROT_READ) == 0);
	CHECK(writable(p) && readable(p + PAGE) && !writable(p + PAGE) && writable(p + 2 * PAGE));
	CHECK(mprotect(p + PAGE, 1, PROT_NONE) == 0);
	CHECK(!readable(p + PAGE));
	CHECK(mprotect(p, 4 * PAGE, RW) == 0);
	CHECK(p[PAGE] == 9 && writable(p + PAGE));
	/* not through musl, which rounds the address down */
	CHECK(FAILS(syscall(SYS_mprotect, p + 1, PAGE, RW), EINVAL));
	CHECK(mprotect(p, 0, RW) == 0);
	munmap(p + 2 * PAGE, PAGE);
	/* up to the hole it is done, then it fails */
	CHECK(FAILS(mprotect(p, 4 * PAGE, PROT_READ), ENOMEM));
	CHECK(!writable(p) && !writable(p + PAGE) && writable(p + 3 * PAGE));
	munmap(p, 4 * PAGE);
}

static void remap(void)
{
	char *p = map(8, RW), *q, *target;

	memset(p, 3, 8 * PAGE);
	q = mremap(p, 8 * PAGE, 4 * PAGE, 0);	/* shrink */
	CHECK(q == p && !readable(p + 4 * PAGE) && p[4 * PAGE - 1] == 3);
	q = mremap(p, 4 * PAGE, 6 * PAGE, 0);	/* grow where there is room */
	CHECK(q == p && p[4 * PAGE - 1] == 3 && all_zero(p + 4 * PAGE, 2 * PAGE));
	mmap(p + 6 * PAGE, PAGE, RW, PRIVATE | MAP_FIXED, -1, 0);
	CHECK(FAILS(mremap(p, 6 * PAGE, 7 * PAGE, 0), ENOMEM));	/* no room */
	q = mremap(p, 6 * PAGE, 32 * PAGE, MREMAP_MAYMOVE);
	CHECK(q != MAP_FAILED && q != p);
	CHECK(!readable(p) && q[0] == 3 && q[4 * PAGE - 1] == 3);
	CHECK(all_zero(q + 4 * PAGE, 28 * PAGE));
	munmap(p + 6 * PAGE, PAGE);
	/* move to a given place */
	target = map(4, RW);
	memset(target, 1, 4 * PAGE);
	p = mremap(q, 2 * PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, target);
	CHECK(p == target && target[0] == 3 && target[2 * PAGE - 1] == 3 && target[2 * PAGE] == 1);
	CHECK(!readable(q) && q[2 * PAGE] == 3);
	munmap(target, 4 * PAGE);
	CHECK(FAILS(mremap(target, PAGE, 2 * PAGE, MREMAP_MAYMOVE), EFAULT));
	CHECK(FAILS(mremap(q + 1, PAGE, 2 * PAGE, MREMAP_MAYMOVE), EINVAL));
	CHECK(FAILS(mremap(q + 2 * PAGE, PAGE, 0, MREMAP_MAYMOVE), EINVAL));
	munmap(q, 32 * PAGE);
}

static void advice(void)
{
	char *p = map(4, RW);

	memset(p, 6, 4 * PAGE);
	CHECK(madvise(p + PAGE, 2 * PAGE, MADV_DONTNEED) == 0);
	CHECK(all_zero(p + PAGE, 2 * PAGE));
	CHECK(p[PAGE - 1] == 6 && p[3 * PAGE] == 6);
	CHECK(madvise(p, 4 * PAGE, MADV_WILLNEED) == 0);
	CHECK(madvise(p, 4 * PAGE, MADV_SEQUENTIAL) == 0);
	CHECK(madvise(p, 4 * PAGE, MADV_NORMAL) == 0);
	CHECK(madvise(p, 0, MADV_DONTNEED) == 0);
	CHECK(FAILS(madvise(p + 1, PAGE, MADV_DONTNEED), EINVAL));
	CHECK(FAILS(madvise(p, PAGE, 12345), EINVAL));
	munmap(p, 4 * PAGE);
	CHECK(FAILS(madvise(p, PAGE, MADV_DONTNEED), ENOMEM));
}

static char *break_at(char *to)
{
	return (char *)syscall(SYS_brk, to);
}

static void program_break(void)
{
	char *start = break_at(0), *page = (char *)(((uintptr_t)start + PAGE - 1) & -(uintptr_t)PAGE);
	char *end = page + 16 * PAGE;

	CHECK(break_at(end) == end);
	CHECK(break_at(0) == end);
	CHECK(all_zero(page, 16 * PAGE));
	memset(page, 7, 16 * PAGE);
	CHECK(!readable(end));
	CHECK(break_at(page + PAGE) == page + PAGE);	/* back */
	CHECK(page[0] == 7 && !readable(page + PAGE));
	CHECK(break_at(end) == end);	/* and again: new pages, new zeros */
	CHECK(page[PAGE - 1] == 7 && all_zero(page + PAGE, 15 * PAGE));
	CHECK(break_at((char *)1) == end);	/* refused: says where it is */
	CHECK(break_at((char *)-(uintptr_t)PAGE) == end);
	CHECK(break_at(start) == start);
}

/* shared and private mappings of one file */
static void of_a_file(void)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	char *p = mmap(0, PAGE, RW, MAP_PRIVATE, fd, 0);
	char *q = mmap(0, PAGE, PROT_READ, MAP_PRIVATE, fd, 0);

	CHECK(p != MAP_FAILED && q != MAP_FAILED);
	CHECK(!memcmp(p, "\177ELF", 4) && !memcmp(p, q, PAGE));
	p[0] = 'x';	/* a copy of its own */
	CHECK(q[0] == '\177');
	CHECK(madvise(p, PAGE, MADV_DONTNEED) == 0 && p[0] == '\177');	/* dropped */
	CHECK(FAILS(mmap(0, PAGE, RW, MAP_SHARED, fd, 0), EACCES));
	CHECK(FAILS(mmap(0, PAGE, PROT_READ, MAP_PRIVATE, fd, 100), EINVAL));
	close(fd);	/* the mappings stay */
	CHECK(!memcmp(p + 1, "ELF", 3));
	munmap(p, PAGE);
	munmap(q, PAGE);
	CHECK(FAILS(mmap(0, PAGE, PROT_READ, MAP_PRIVATE, fd, 0), EBADF));
}

/* code written by the program itself */
static void code(void)
{
#if defined(__x86_64__)
	static const unsigned char one[] = { 0xb8, 1, 0, 0, 0, 0xc3 };
	static const unsigned char two[] = { 0xb8, 2, 0, 0, 0, 0xc3 };
#else
	static const uint32_t one[] = { 0x52800020, 0xd65f03c0 };
	static const uint32_t two[] = { 0x52800040, 0xd65f03c0 };
#endif
	char *p = map(1, RW);
	int (*f)(void) = (int (*)(void))(uintptr_t)p;

	memcpy(p, one, sizeof one);
	__builtin___clear_cache(p, p + sizeof one);
	CHECK(mprotect(p, PAGE, PROT_READ | PROT_EXEC) == 0);
	CHECK(f() == 1);
	CHECK(mprotect(p, PAGE, RW) == 0);
	memcpy(p, two, sizeof two);
	__builtin___clear_cache(p, p + sizeof two);
	CHECK(mprotect(p, PAGE, PROT_READ | PROT_EXEC) == 0);
	CHECK(f() == 2);
	munmap(p, PAGE);
}

int main(void)
{
	zero = open("/dev/zero", O_RDONLY);
	GROUP(map_and_unmap);
	GROUP(map_errors);
	GROUP(fixed);
	GROUP(protect);
	GROUP(remap);
	GROUP(advice);
	GROUP(program_break);
	GROUP(of_a_file);
	GROUP(code);
	return all_failed;
}
