/*
 * files [DIRECTORY]: files a program finds in a system, and one of its own.
 *
 * Reads /proc/self/maps, /proc/self/exe, the auxiliary vector, /dev/zero,
 * /dev/null and /dev/urandom, then makes a file in DIRECTORY (or /tmp), writes
 * it, reads it back in several ways, and removes it.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
#include "check.h"

#define FAILS(call, error) (errno = 0, (call) == -1 && errno == (error))

static const char *program, *directory = "/tmp";
static int some_data = 1;

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

int main(int argc, char **argv);
extern char _start[];

static void maps(void)
{
	static char text[65536];
	int fd = open("/proc/self/maps", O_RDONLY), seen_code = 0, seen_data = 0, seen_stack = 0;
	size_t length = 0;
	ssize_t n;
	unsigned long last = 0;
	char here;

	CHECK(fd >= 0);
	while ((n = read(fd, text + length, sizeof text - 1 - length)) > 0)
		length += (size_t)n;
	CHECK(n == 0 && length > 0);
	close(fd);
	for (char *line = strtok(text, "\n"); line; line = strtok(0, "\n")) {
		unsigned long start, end, offset, inode;
		unsigned major, minor;
		char flags[5], path[256] = "";
		int fields = sscanf(line, "%lx-%lx %4s %lx %x:%x %lu %255[^\n]", &start, &end, flags,
				    &offset, &major, &minor, &inode, path);

		CHECK(fields >= 7);
		CHECK(start >= last && end > start);	/* in order, none twice */
		last = end;
		if (start <= (uintptr_t)main && (uintptr_t)main < end)
			seen_code = !strcmp(flags, "r-xp") && !strcmp(base_name(path), program);
		if (start <= (uintptr_t)&some_data && (uintptr_t)&some_data < end)
			seen_data = !strcmp(flags, "rw-p");
		if (start <= (uintptr_t)&here && (uintptr_t)&here < end)
			seen_stack = !strncmp(flags, "rw", 2) && strstr(path, "[stack]");
	}
	CHECK(seen_code);
	CHECK(seen_data);
	CHECK(seen_stack);
}

static void exe(void)
{
	char target[4096];
	ssize_t n = readlink("/proc/self/exe", target, sizeof target - 1);
	unsigned char ident[EI_NIDENT] = { 0 };
	int fd;

	CHECK(n > 0);
	target[n > 0 ? n : 0] = 0;
	CHECK(target[0] == '/' && !strcmp(base_name(target), program));
	fd = open("/proc/self/exe", O_RDONLY);
	CHECK(read(fd, ident, sizeof ident) == sizeof ident);
	CHECK(!memcmp(ident, ELFMAG, SELFMAG) && ident[EI_CLASS] == ELFCLASS64);
	close(fd);
}

static void auxiliary_vector(void)
{
	const Elf64_Phdr *phdr = (const Elf64_Phdr *)getauxval(AT_PHDR);
	const char *name = (const char *)getauxval(AT_EXECFN);
	const char *platform = (const char *)getauxval(AT_PLATFORM);
	const unsigned char *random = (const unsigned char *)getauxval(AT_RANDOM);
	int loads = 0, bits = 0;

	CHECK(getauxval(AT_PAGESZ) == 4096);
	CHECK(getauxval(AT_CLKTCK) == 100);
	CHECK(getauxval(AT_PHENT) == sizeof *phdr);
	CHECK(phdr && getauxval(AT_PHNUM) > 0);
	for (unsigned long i = 0; phdr && i < getauxval(AT_PHNUM); i++)
		loads += phdr[i].p_type == PT_LOAD;
	CHECK(loads >= 2);
	CHECK(getauxval(AT_ENTRY) == (uintptr_t)_start);
	CHECK(getauxval(AT_UID) == getuid() && getauxval(AT_EGID) == getegid());
	CHECK(getauxval(AT_SECURE) == 0);
	CHECK(getauxval(AT_HWCAP) != 0);
	CHECK(name && !strcmp(base_name(name), program));
#if defined(__x86_64__)
	CHECK(platform && !strcmp(platform, "x86_64"));
#else
	CHECK(platform && !strcmp(platform, "aarch64"));
#endif
	for (int i = 0; random && i < 16; i++)
		bits |= random[i];
	CHECK(bits);
	CHECK(FAILS((int)getauxval(12345) - 1, ENOENT));
}

static void devices(void)
{
	int zero = open("/dev/zero", O_RDWR), null = open("/dev/null", O_RDWR);
	char buf[10000];

	memset(buf, 1, sizeof buf);
	CHECK(read(zero, buf, sizeof buf) == sizeof buf);
	for (size_t i = 0; i < sizeof buf; i++)
		if (buf[i]) {
			CHECK(!"a byte of /dev/zero");
			break;
		}
	CHECK(write(zero, buf, sizeof buf) == sizeof buf);
	CHECK(read(null, buf, sizeof buf) == 0);
	CHECK(write(null, buf, sizeof buf) == sizeof buf);
	CHECK(FAILS(read(zero, (char *)8, 1), EFAULT));
	close(zero);
	close(null);
	CHECK(FAILS(read(zero, buf, 1), EBADF));
	CHECK(FAILS(open("/dev/nothing-of-this-name", O_RDONLY), ENOENT));
	CHECK(FAILS(open("/dev/null/below", O_RDONLY), ENOTDIR));
}

static void random_bytes(void)
{
	int fd = open("/dev/urandom", O_RDONLY);
	char a[32] = { 0 }, b[32] = { 0 }, c[32] = { 0 };

	CHECK(read(fd, a, sizeof a) == sizeof a);
	CHECK(read(fd, b, sizeof b) == sizeof b);
	CHECK(getrandom(c, sizeof c, 0) == sizeof c);
	CHECK(memcmp(a, b, sizeof a) && memcmp(b, c, sizeof a) && memcmp(a, c, sizeof a));
	CHECK(FAILS(getrandom(c, 1, 0x800), EINVAL));
	close(fd);
}

static void own_file(void)
{
	char path[4096], buf[64] = "", first[3], rest[8];
	struct iovec out[2] = { { "scattered ", 10 }, { "text", 4 } };
	struct iovec in[2] = { { first, sizeof first }, { rest, sizeof rest } };
	struct stat st;
	int fd, again;
	char *p;

	snprintf(path, sizeof path, "%s/guest-files-%ld", directory, (long)getpid());
	fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
	CHECK(fd >= 0);
	if (fd < 0)
		return;
	CHECK(FAILS(open(path, O_RDWR | O_CREAT | O_EXCL, 0600), EEXIST));
	CHECK(write(fd, "0123456789", 10) == 10);
	CHECK(lseek(fd, 0, SEEK_CUR) == 10 && lseek(fd, -7, SEEK_END) == 3);
	CHECK(read(fd, buf, 4) == 4 && !memcmp(buf, "3456", 4));
	CHECK(pwrite(fd, "ab", 2, 8) == 2);
	CHECK(pread(fd, buf, 5, 7) == 3 && !memcmp(buf, "7ab", 3));
	CHECK(lseek(fd, 0, SEEK_CUR) == 7);	/* where read() left it */
	CHECK(writev(fd, out, 2) == 14);
	CHECK(lseek(fd, 7, SEEK_SET) == 7);
	CHECK(readv(fd, in, 2) == 11 && !memcmp(first, "sca", 3) && !memcmp(rest, "ttered t", 8));
	CHECK(read(fd, buf, sizeof buf) == 3 && read(fd, buf, sizeof buf) == 0);
	CHECK(fstat(fd, &st) == 0 && st.st_size == 21 && S_ISREG(st.st_mode));
	CHECK((st.st_mode & 0777) == 0600 && st.st_nlink == 1);
	CHECK(stat(path, &st) == 0 && st.st_size == 21);

	again = dup(fd);	/* shares the position */
	CHECK(again > fd && lseek(again, 2, SEEK_SET) == 2 && lseek(fd, 0, SEEK_CUR) == 2);
	CHECK((fcntl(again, F_GETFL) & O_ACCMODE) == O_RDWR);
	CHECK(fcntl(again, F_SETFD, FD_CLOEXEC) == 0 && fcntl(again, F_GETFD) == FD_CLOEXEC);
	CHECK(close(again) == 0 && lseek(fd, 0, SEEK_CUR) == 2);

	p = mmap(0, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
	CHECK(p != MAP_FAILED && !memcmp(p, "0123456scattered text", 22));	/* then zeros */
	munmap(p, 4096);

	CHECK(ftruncate(fd, 5) == 0 && fstat(fd, &st) == 0 && st.st_size == 5);
	CHECK(ftruncate(fd, 8) == 0 && pread(fd, buf, 9, 0) == 8 && !memcmp(buf, "01234\0\0\0", 8));
	CHECK(FAILS(lseek(fd, -1, SEEK_SET), EINVAL));
	again = open(path, O_WRONLY | O_APPEND);
	CHECK(write(again, "end", 3) == 3 && pread(fd, buf, 16, 8) == 3 && !memcmp(buf, "end", 3));
	CHECK(FAILS(read(again, buf, 1), EBADF));
	close(again);

	CHECK(access(path, R_OK | W_OK) == 0);
	CHECK(unlink(path) == 0);
	CHECK(FAILS(open(path, O_RDONLY), ENOENT));
	CHECK(pread(fd, buf, 1, 1) == 1 && buf[0] == '1');	/* open, so still there */
	CHECK(close(fd) == 0);
	CHECK(FAILS(close(fd), EBADF));
}

int main(int argc, char **argv)
{
	program = base_name(argv[0]);
	if (argc > 1)
		directory = argv[1];
	GROUP(maps);
	GROUP(exe);
	GROUP(auxiliary_vector);
	GROUP(devices);
	GROUP(random_bytes);
	GROUP(own_file);
	return all_failed;
}
