/*
 * reader [PATH]...: what a program takes from the system that it runs on.
 *
 * Of each PATH, in order: the sorted names of a directory, where a link leads,
 * how many lines and bytes a file has and a sum of them, or why it cannot be
 * read. Then the lines of standard input, each with its number. Whether a file
 * may be executed is marked with a star.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int refuse(const char *path)
{
	fprintf(stderr, "%s: %s\n", path, strerror(errno));
	return 1;
}

static int read_directory(const char *path)
{
	char *names[256];
	int count = 0;
	struct dirent *entry;
	DIR *dir = opendir(path);

	if (!dir)
		return refuse(path);
	while (count < 256 && (entry = readdir(dir)))
		if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
			names[count++] = strdup(entry->d_name);
	closedir(dir);
	qsort(names, count, sizeof *names, compare);
	printf("%s: %d names:", path, count);
	for (int i = 0; i < count; i++) {
		printf(" %s", names[i]);
		free(names[i]);
	}
	putchar('\n');
	return 0;
}

/* Adler-32 */
static unsigned sum(unsigned sum, const unsigned char *bytes, size_t len)
{
	unsigned a = sum & 0xffff, b = sum >> 16;

	for (size_t i = 0; i < len; i++) {
		a = (a + bytes[i]) % 65521;
		b = (b + a) % 65521;
	}
	return b << 16 | a;
}

static int read_file(const char *path, int executable)
{
	static unsigned char chunk[1024];
	unsigned total = 1;
	long bytes = 0, lines = 0;
	ssize_t n;
	int fd = open(path, O_RDONLY);

	if (fd < 0)
		return refuse(path);
	while ((n = read(fd, chunk, sizeof chunk)) > 0) {
		total = sum(total, chunk, n);
		bytes += n;
		for (ssize_t i = 0; i < n; i++)
			lines += chunk[i] == '\n';
	}
	close(fd);
	if (n < 0)
		return refuse(path);
	printf("%s%s: %ld lines, %ld bytes, sum %08x\n", path, executable ? "*" : "", lines, bytes,
	       total);
	return 0;
}

static int read_path(const char *path)
{
	char target[PATH_MAX];
	struct stat st;
	ssize_t n;

	if (lstat(path, &st) < 0)
		return refuse(path);
	if (S_ISLNK(st.st_mode)) {
		n = readlink(path, target, sizeof target - 1);
		if (n < 0)
			return refuse(path);
		target[n] = 0;
		printf("%s: leads to %s\n", path, target);
		if (stat(path, &st) < 0)
			return refuse(path);
	}
	if (S_ISDIR(st.st_mode))
		return read_directory(path);
	return read_file(path, (st.st_mode & S_IXUSR) != 0);
}

static void read_input(void)
{
	static char line[256];
	int number = 0;

	while (fgets(line, sizeof line, stdin)) {
		line[strcspn(line, "\n")] = 0;
		printf("%d: %s\n", ++number, line);
	}
}

int main(int argc, char **argv)
{
	int failed = 0;

	for (int i = 1; i < argc; i++)
		failed += read_path(argv[i]);
	read_input();
	return failed;
}
