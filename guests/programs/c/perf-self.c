/*
 * perf-self: profiles itself with perf_event_open, reads its own ring buffer
 * and prints its own stacks, names from a table of its functions; then counts
 * itself, a group and a child. On x86_64 also with deferred callchains.
 *
 * The names and the relations that are printed do not depend on the period
 * or on where in a function a sample falls.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "check.h"

#define PLAIN __attribute__((noipa))
#define DEFER_CALLCHAIN (1ull << 38)
#define DEFER_OUTPUT (1ull << 39)
/* Bits of the flag word that the header of Linux 6.1 has names for. */
#define KNOWN_FLAGS 38
#define RECORD_DEFERRED 22
#define USER_DEFERRED ((uint64_t)-640)
#define PAGE 4096ul

/* ---- what is measured ---- */

static volatile uint64_t sink;

PLAIN static void spin(unsigned n)
{
	/* A leaf gets a frame record if somebody asks for its address. */
	__asm__ volatile("" : : "r"(__builtin_frame_address(0)));
	for (unsigned i = 0; i < n; i++)
		sink = sink * 6364136223846793005u + 1;
}

PLAIN static void inner(unsigned n) { spin(n); sink++; }
PLAIN static void outer(unsigned n) { inner(n); sink++; }
PLAIN static void other(unsigned n) { spin(n); sink++; }

PLAIN static void workload(void)
{
	for (int i = 0; i < 20; i++) {
		outer(3000);
		other(1000);
	}
}

static const struct { void *start; const char *name; } functions[] = {
	{ spin, "spin" }, { inner, "inner" }, { outer, "outer" },
	{ other, "other" }, { workload, "workload" },
};

/* ---- perf_event_open ---- */

static int perf_open(struct perf_event_attr *attr, pid_t pid, int cpu, int group, unsigned long flags)
{
	attr->size = sizeof *attr;
	return syscall(SYS_perf_event_open, attr, pid, cpu, group, flags);
}

/* Of a counter that does not see the kernel. */
static struct perf_event_attr counter(uint32_t type, uint64_t config)
{
	struct perf_event_attr attr = { .type = type, .config = config };

	attr.disabled = 1;
	attr.exclude_kernel = 1;
	attr.exclude_callchain_kernel = 1;
	return attr;
}

static uint64_t read_count(int fd)
{
	uint64_t value = 0;

	CHECK(read(fd, &value, sizeof value) == sizeof value);
	return value;
}

/* ---- the ring ---- */

struct ring {
	struct perf_event_mmap_page *page;
	size_t size;
	uint64_t tail;
};

static struct ring map_ring(int fd, unsigned pages, int prot)
{
	struct ring ring = { .size = pages * PAGE };

	ring.page = mmap(NULL, PAGE + ring.size, prot, MAP_SHARED, fd, 0);
	CHECK(ring.page != MAP_FAILED);
	CHECK(ring.page->data_offset == PAGE && ring.page->data_size == ring.size);
	CHECK(!ring.page->cap_user_rdpmc && ring.page->index == 0);
	return ring;
}

/* The next record, copied out of the ring; 0 if there is none. */
static int next_record(struct ring *ring, void *to, size_t most)
{
	uint64_t head = __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE);
	char *data = (char *)ring->page + ring->page->data_offset, *out = to;
	struct perf_event_header header;

	if (ring->tail == head)
		return 0;
	for (size_t i = 0; i < sizeof header; i++)
		((char *)&header)[i] = data[(ring->tail + i) % ring->size];
	CHECK(header.size >= sizeof header && header.size <= most);
	if (header.size < sizeof header || header.size > most)
		exit(1);
	for (size_t i = 0; i < header.size; i++)
		out[i] = data[(ring->tail + i) % ring->size];
	ring->tail += header.size;
	__atomic_store_n(&ring->page->data_tail, ring->tail, __ATOMIC_RELEASE);
	return 1;
}

/* ---- stacks ---- */

#define DEPTH 16

struct stack {
	int depth;
	const char *names[DEPTH];
};

static const char *name_of(uint64_t address)
{
	const char *name = NULL;
	uintptr_t best = 0;

	for (unsigned i = 0; i < sizeof functions / sizeof *functions; i++) {
		uintptr_t start = (uintptr_t)functions[i].start;

		if (start <= address && address < start + 256 && start >= best) {
			best = start;
			name = functions[i].name;
		}
	}
	return name;
}

/* Names of a chain from the outermost function that is known. */
static struct stack named(const uint64_t *ips, uint64_t nr)
{
	struct stack stack = { 0 };

	for (uint64_t i = 0; i < nr; i++) {
		const char *name = name_of(ips[i]);

		if (name && stack.depth < DEPTH)
			stack.names[stack.depth++] = name;
	}
	return stack;
}

static struct { char text[80]; unsigned count; } seen[16];

static void tally(const struct stack *stack)
{
	char text[80] = "";

	for (int i = stack->depth - 1; i >= 0; i--) {
		strcat(text, stack->names[i]);
		if (i)
			strcat(text, ";");
	}
	for (unsigned i = 0; i < 16; i++) {
		if (!seen[i].count)
			strcpy(seen[i].text, text);
		if (strcmp(seen[i].text, text) == 0) {
			seen[i].count++;
			return;
		}
	}
}

static int by_text(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* The stacks, each once, those of at least one sample in twenty. */
static void print_stacks(const char *what, unsigned samples)
{
	qsort(seen, 16, sizeof *seen, by_text);
	for (unsigned i = 0; i < 16; i++)
		if (seen[i].count && seen[i].count * 20 >= samples)
			printf("  %s %s\n", what, seen[i].text);
	memset(seen, 0, sizeof seen);
}

/* ---- the groups ---- */

static void sampling(void)
{
	struct perf_event_attr attr = counter(PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES);
	uint64_t buffer[512], samples = 0, last = 0;
	struct ring ring;
	int fd;

	attr.sample_period = 5003;
	attr.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CALLCHAIN;
	fd = perf_open(&attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	CHECK(fd >= 0);
	ring = map_ring(fd, 16, PROT_READ | PROT_WRITE);
	CHECK(ioctl(fd, PERF_EVENT_IOC_ENABLE, 0) == 0);
	workload();
	CHECK(ioctl(fd, PERF_EVENT_IOC_DISABLE, 0) == 0);
	while (next_record(&ring, buffer, sizeof buffer)) {
		struct perf_event_header *header = (void *)buffer;
		struct stack stack;

		CHECK(header->type == PERF_RECORD_SAMPLE);
		CHECK((header->misc & PERF_RECORD_MISC_CPUMODE_MASK) == PERF_RECORD_MISC_USER);
		CHECK((uint32_t)buffer[2] == (uint32_t)getpid());
		CHECK(buffer[3] > last);
		last = buffer[3];
		CHECK(buffer[4] >= 2 && buffer[5] == PERF_CONTEXT_USER && buffer[6] == buffer[1]);
		stack = named(buffer + 6, buffer[4] - 1);
		tally(&stack);
		samples++;
	}
	/* What was counted is as many periods as there are samples, and a rest. */
	CHECK(read_count(fd) / 5003 == samples);
	print_stacks("fp", samples);
	CHECK(munmap(ring.page, PAGE + ring.size) == 0);
	CHECK(close(fd) == 0);
}

#ifdef __x86_64__
static void deferred(void)
{
	struct perf_event_attr attr = counter(PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES);
	uint64_t buffer[1024], waiting[64], samples = 0;
	unsigned waits = 0;
	struct ring ring;
	int fd;

	attr.sample_period = 5003;
	attr.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_CALLCHAIN;
	attr.__reserved_1 |= (DEFER_CALLCHAIN | DEFER_OUTPUT) >> KNOWN_FLAGS;
	fd = perf_open(&attr, 0, -1, -1, 0);
	CHECK(fd >= 0);
	ring = map_ring(fd, 16, PROT_READ | PROT_WRITE);
	ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
	workload();
	ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
	while (next_record(&ring, buffer, sizeof buffer)) {
		struct perf_event_header *header = (void *)buffer;

		if (header->type == PERF_RECORD_SAMPLE) {
			/* The cookie stands for the user's part. */
			CHECK(buffer[2] == 2 && buffer[3] == USER_DEFERRED && buffer[4] != 0);
			if (waits < 64)
				waiting[waits++] = buffer[4];
			samples++;
		} else {
			struct stack stack;

			CHECK(header->type == RECORD_DEFERRED);
			for (unsigned i = 0; i < waits; i++) {
				if (waiting[i] != buffer[1])
					continue;
				stack = named(buffer + 3, buffer[2]);
				tally(&stack);
				waiting[i--] = waiting[--waits];
			}
		}
	}
	CHECK(samples > 0 && waits == 0);
	print_stacks("defer", samples);
	munmap(ring.page, PAGE + ring.size);
	close(fd);
}
#endif

static void counting(void)
{
	struct perf_event_attr attr = counter(PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS);
	struct { uint64_t nr, enabled, running; struct { uint64_t value, id; } each[3]; } group;
	uint64_t once, id = 0;
	int fd = perf_open(&attr, 0, -1, -1, 0), leader, branches, faults;

	CHECK(fd >= 0);
	CHECK(read_count(fd) == 0);
	ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
	spin(1000);
	ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
	once = read_count(fd);
	spin(1000);
	CHECK(read_count(fd) == once);
	ioctl(fd, PERF_EVENT_IOC_RESET, 0);
	CHECK(read_count(fd) == 0);
	ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
	spin(1000);
	ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
	CHECK(read_count(fd) == once && once > 4000);
	close(fd);

	attr.read_format = PERF_FORMAT_GROUP | PERF_FORMAT_ID | PERF_FORMAT_TOTAL_TIME_ENABLED |
		PERF_FORMAT_TOTAL_TIME_RUNNING;
	leader = perf_open(&attr, 0, -1, -1, 0);
	attr.disabled = 0;
	attr.config = PERF_COUNT_HW_BRANCH_INSTRUCTIONS;
	branches = perf_open(&attr, 0, -1, leader, 0);
	attr.type = PERF_TYPE_SOFTWARE;
	attr.config = PERF_COUNT_SW_PAGE_FAULTS;
	faults = perf_open(&attr, 0, -1, leader, 0);
	CHECK(leader >= 0 && branches >= 0 && faults >= 0);
	ioctl(leader, PERF_EVENT_IOC_ENABLE, PERF_IOC_FLAG_GROUP);
	spin(1000);
	{
		char *fresh = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		for (int i = 0; i < 3; i++)
			fresh[i * PAGE] = 1;
	}
	ioctl(leader, PERF_EVENT_IOC_DISABLE, PERF_IOC_FLAG_GROUP);
	CHECK(read(leader, &group, sizeof group - 1) == -1 && errno == ENOSPC);
	CHECK(read(leader, &group, sizeof group) == sizeof group);
	CHECK(group.nr == 3 && group.enabled == group.running && group.enabled > 0);
	CHECK(group.each[0].value > once);
	CHECK(group.each[1].value >= 1000 && group.each[1].value < group.each[0].value);
	CHECK(group.each[2].value == 3);
	CHECK(ioctl(branches, PERF_EVENT_IOC_ID, &id) == 0 && id == group.each[1].id);
	CHECK(group.each[0].id != id);
	close(leader);
	close(branches);
	close(faults);
}

static void child(void)
{
	struct perf_event_attr attr = counter(PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS);
	uint64_t own, all;
	int fd, status;
	pid_t pid;

	/* Its count comes back when it ends. */
	attr.inherit = 1;
	fd = perf_open(&attr, 0, -1, -1, 0);
	CHECK(fd >= 0);
	ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
	own = read_count(fd);
	pid = fork();
	if (pid == 0) {
		spin(100000);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	all = read_count(fd);
	CHECK(all - own > 100000 * 3);
	/* The ring of an event of all CPUs cannot take in a child's samples. */
	CHECK(mmap(NULL, 2 * PAGE, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED && errno == EINVAL);
	close(fd);

	/* Samples of a child that another event is opened on. */
	int go[2];
	char byte = 0;

	CHECK(pipe(go) == 0);
	pid = fork();
	if (pid == 0) {
		if (read(go[0], &byte, 1) == 1)
			for (int i = 0; i < 10; i++)
				workload();
		_exit(0);
	}
	attr = counter(PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES);
	attr.disabled = 0;
	attr.task = 1;
	attr.sample_id_all = 1;
	attr.sample_period = 5003;
	attr.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_CALLCHAIN;
	attr.wakeup_events = 4;
	fd = perf_open(&attr, pid, -1, -1, 0);
	CHECK(fd >= 0);

	struct ring ring = map_ring(fd, 32, PROT_READ | PROT_WRITE);
	struct pollfd ready = { .fd = fd, .events = POLLIN };
	uint64_t buffer[512], samples = 0, exits = 0;

	CHECK(poll(&ready, 1, 0) == 0);
	CHECK(write(go[1], &byte, 1) == 1);
	/* Four samples wake the reader long before the child ends. */
	CHECK(poll(&ready, 1, -1) == 1 && ready.revents == POLLIN);
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK(poll(&ready, 1, 0) == 1 && (ready.revents & POLLHUP));
	while (next_record(&ring, buffer, sizeof buffer)) {
		struct perf_event_header *header = (void *)buffer;

		if (header->type == PERF_RECORD_EXIT) {
			CHECK((pid_t)buffer[1] == pid && (pid_t)buffer[4] == pid);
			exits++;
			continue;
		}
		CHECK(exits == 0 && header->type == PERF_RECORD_SAMPLE && (pid_t)buffer[2] == pid);
		struct stack stack = named(buffer + 5, buffer[3] - 1);
		tally(&stack);
		samples++;
	}
	CHECK(samples > 10 && exits == 1);
	print_stacks("child", samples);
	munmap(ring.page, PAGE + ring.size);
	close(fd);
}

/* A reader that is too slow: what is lost is counted, and said. */
static void lost(void)
{
	struct perf_event_attr attr = counter(PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES);
	uint64_t buffer[512], answer[2], samples = 0, missing = 0;
	struct ring ring;
	int fd;

	attr.sample_period = 501;
	attr.sample_type = PERF_SAMPLE_IP;
	attr.read_format = PERF_FORMAT_LOST;
	fd = perf_open(&attr, 0, -1, -1, 0);
	CHECK(fd >= 0);
	ring = map_ring(fd, 1, PROT_READ | PROT_WRITE);
	ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
	workload();
	ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
	while (next_record(&ring, buffer, sizeof buffer))
		samples++;
	/* 16 bytes each, and one byte of the page is never used. */
	CHECK(samples == 255);
	ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
	spin(1000);
	ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
	CHECK(next_record(&ring, buffer, sizeof buffer));
	CHECK((uint32_t)buffer[0] == PERF_RECORD_LOST);
	missing = buffer[2];
	while (next_record(&ring, buffer, sizeof buffer))
		samples++;
	CHECK(read(fd, answer, sizeof answer) == sizeof answer);
	CHECK(answer[1] == missing && answer[0] / 501 == samples + missing);
	munmap(ring.page, PAGE + ring.size);
	close(fd);
}

/* Only the newest records: a mapping that cannot be written. */
static void newest(void)
{
	struct perf_event_attr attr = counter(PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES);
	uint64_t head, last = UINT64_MAX, seen_records = 0;
	struct ring ring;
	char *data;
	int fd;

	attr.sample_period = 501;
	attr.sample_type = PERF_SAMPLE_TIME;
	attr.write_backward = 1;
	fd = perf_open(&attr, 0, -1, -1, 0);
	CHECK(fd >= 0);
	ring = map_ring(fd, 1, PROT_READ);
	ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
	workload();
	CHECK(ioctl(fd, PERF_EVENT_IOC_PAUSE_OUTPUT, 1) == 0);
	ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
	data = (char *)ring.page + PAGE;
	head = ring.page->data_head;
	CHECK((int64_t)head < -(int64_t)PAGE);
	for (uint64_t at = head; at < head + PAGE; at += 16) {
		uint64_t time;

		memcpy(&time, data + (at + 8) % PAGE, sizeof time);
		CHECK(time < last);
		last = time;
		seen_records++;
	}
	CHECK(seen_records == 256);
	munmap(ring.page, PAGE + ring.size);
	close(fd);
}

static volatile int signals, last_signal_fd = -1;

static void on_signal(int signal, siginfo_t *info, void *context)
{
	(void)signal;
	(void)context;
	signals++;
	last_signal_fd = info->si_fd;
	if (signals < 3)
		ioctl(info->si_fd, PERF_EVENT_IOC_REFRESH, 1);
}

/* One overflow, one signal, and the handler asks for the next. */
static void notified(void)
{
	struct perf_event_attr attr = counter(PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS);
	struct sigaction action = { .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO };
	int fd;

	sigaction(SIGRTMIN, &action, NULL);
	attr.sample_period = 10007;
	fd = perf_open(&attr, 0, -1, -1, 0);
	CHECK(fd >= 0);
	CHECK(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_ASYNC) == 0);
	CHECK(fcntl(fd, F_SETSIG, SIGRTMIN) == 0);
	CHECK(fcntl(fd, F_SETOWN, getpid()) == 0);
	CHECK(ioctl(fd, PERF_EVENT_IOC_REFRESH, 1) == 0);
	workload();
	CHECK(signals == 3 && last_signal_fd == fd);
	close(fd);
}

#define REFUSED(error) \
	CHECK(perf_open(&attr, 0, -1, -1, 0) == -1 && errno == error); \
	attr = counter(PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES)

static void refused(void)
{
	struct perf_event_attr attr = counter(PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES);

	attr.exclude_kernel = 0;
	REFUSED(EACCES);
	attr.sample_type = PERF_SAMPLE_CALLCHAIN;
	attr.exclude_callchain_kernel = 0;
	REFUSED(EACCES);
	attr.sample_type = 1ull << 40;
	REFUSED(EINVAL);
	attr.sample_type = PERF_SAMPLE_STACK_USER;
	attr.sample_stack_user = 12;
	REFUSED(EINVAL);
	attr.freq = 1;
	attr.sample_freq = 1000000;
	REFUSED(EINVAL);
	attr.type = PERF_TYPE_BREAKPOINT;
	REFUSED(EINVAL);
	attr.type = 1000;
	REFUSED(ENOENT);
	attr.sample_type = PERF_SAMPLE_CALLCHAIN;
	attr.sample_max_stack = 1000;
	REFUSED(EOVERFLOW);
	attr.sample_type = PERF_SAMPLE_BRANCH_STACK;
	attr.branch_sample_type = PERF_SAMPLE_BRANCH_ANY | PERF_SAMPLE_BRANCH_USER;
	REFUSED(EOPNOTSUPP);
	attr.size = 8;
	CHECK(syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0) == -1 && errno == E2BIG);
	CHECK(attr.size == 144);
	CHECK(perf_open(&attr, -1, 0, -1, 0) == -1 && errno == EACCES);
	CHECK(perf_open(&attr, -1, -1, -1, 0) == -1 && errno == EINVAL);
	CHECK(perf_open(&attr, 12345, -1, -1, 0) == -1 && errno == ESRCH);
	CHECK(perf_open(&attr, 0, -1, 1, 0) == -1 && errno == EBADF);
	CHECK(perf_open(&attr, 0, -1, -1, 16) == -1 && errno == EINVAL);
	CHECK(ioctl(1, PERF_EVENT_IOC_ENABLE, 0) == -1 && errno == ENOTTY);
}

int main(void)
{
	GROUP(sampling);
#ifdef __x86_64__
	GROUP(deferred);
#endif
	GROUP(counting);
	GROUP(child);
	GROUP(lost);
	GROUP(newest);
	GROUP(notified);
	GROUP(refused);
	return all_failed;
}
