/*
 * segv [nested]: handles SIGSEGV.
 *
 * The handler takes SA_SIGINFO and runs on an alternate stack. It looks at
 * si_code and si_addr, then does what the group of checks asks for: leave with
 * siglongjmp, repair the cause with mprotect so that the instruction runs
 * again, or continue at another instruction by changing the saved program
 * counter. With "nested" the handler itself faults, which is the end.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <ucontext.h>
#include <unistd.h>
#include "check.h"

#define PLAIN __attribute__((noipa))
#define PAGE 4096

#if defined(__x86_64__)
#define PC(uc) ((uc)->uc_mcontext.gregs[REG_RIP])
#else
#define PC(uc) ((uc)->uc_mcontext.pc)
#endif

static char alternate[32768];
static enum { LEAVE, REPAIR, SKIP, FAULT } what_to_do;
static sigjmp_buf out;
static volatile int faults;
static volatile int code;
static char *volatile addr;
static volatile int on_alternate;

extern char skip_to[];

PLAIN static void handler(int sig, siginfo_t *info, void *context)
{
	ucontext_t *uc = context;
	volatile char here = 0;

	(void)sig;
	faults++;
	code = info->si_code;
	addr = info->si_addr;
	on_alternate = &here >= alternate && &here < alternate + sizeof alternate;
	switch (what_to_do) {
	case LEAVE:
		siglongjmp(out, 1);
	case REPAIR:
		mprotect((void *)((uintptr_t)addr & -(uintptr_t)PAGE), PAGE, PROT_READ | PROT_WRITE);
		break;
	case SKIP:
		PC(uc) = (uintptr_t)skip_to;
		break;
	case FAULT:
		*(volatile char *)(uintptr_t)here = 1;
	}
}

PLAIN static void store(volatile char *p, char value)
{
	*p = value;
}

static char *map(size_t pages, int protection)
{
	return mmap(0, pages * PAGE, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

/* ---- the groups ---- */

static void unmapped(void)
{
	char *p = map(1, PROT_READ | PROT_WRITE);

	what_to_do = LEAVE;
	faults = 0;
	munmap(p, PAGE);
	if (!sigsetjmp(out, 1))
		store(p + 123, 1);
	CHECK(faults == 1);
	CHECK(code == SEGV_MAPERR);
	CHECK(addr == p + 123);
	CHECK(on_alternate);
	if (!sigsetjmp(out, 1))
		store(0, 1);
	CHECK(faults == 2);
	CHECK(code == SEGV_MAPERR);
	CHECK(addr == 0);
}

static void protected(void)
{
	char *p = map(1, PROT_READ);

	what_to_do = LEAVE;
	faults = 0;
	if (!sigsetjmp(out, 1))
		store(p + 5, 1);
	CHECK(faults == 1);
	CHECK(code == SEGV_ACCERR);
	CHECK(addr == p + 5);
	CHECK(p[5] == 0);
	munmap(p, PAGE);
}

static void repaired(void)
{
	char *p = map(16, PROT_NONE);

	what_to_do = REPAIR;
	faults = 0;
	for (int i = 0; i < 16; i++) {
		store(p + i * PAGE + i, (char)i);
		CHECK(addr == p + i * PAGE + i);
	}
	CHECK(faults == 16);
	CHECK(code == SEGV_ACCERR);
	for (int i = 0; i < 16; i++)
		CHECK(p[i * PAGE + i] == i);
	CHECK(faults == 16);
	munmap(p, 16 * PAGE);
}

/* an access across two pages of which the second is the protected one */
static void straddling(void)
{
	char *p = map(2, PROT_READ | PROT_WRITE);
	uint64_t value = 0x1122334455667788, back;

	mprotect(p + PAGE, PAGE, PROT_NONE);
	what_to_do = REPAIR;
	faults = 0;
	__asm__ volatile("" : "+r"(value));
	*(volatile uint64_t *)(p + PAGE - 3) = value;
	CHECK(faults == 1);
	CHECK(addr == p + PAGE);
	memcpy(&back, p + PAGE - 3, 8);
	CHECK(back == value);
	munmap(p, 2 * PAGE);
}

PLAIN static long load_or_skip(const char *p)
{
	long v = 7;

#if defined(__x86_64__)
	__asm__ volatile("movzbl (%1), %k0\n\t.globl skip_to\nskip_to:" : "+r"(v) : "r"(p));
#else
	__asm__ volatile("ldrb %w0, [%1]\n\t.globl skip_to\nskip_to:" : "+r"(v) : "r"(p));
#endif
	return v;
}

static void skipped(void)
{
	static const char nine = 9;

	what_to_do = SKIP;
	faults = 0;
	CHECK(load_or_skip(&nine) == 9);
	CHECK(faults == 0);
	CHECK(load_or_skip((const char *)1) == 7);
	CHECK(faults == 1);
	CHECK(addr == (char *)1);
}

static void not_executable(void)
{
	char *p = map(1, PROT_READ | PROT_WRITE);

	what_to_do = LEAVE;
	faults = 0;
	if (!sigsetjmp(out, 1))
		((void (*)(void))(uintptr_t)p)();
	CHECK(faults == 1);
	CHECK(code == SEGV_ACCERR);
	CHECK(addr == p);
	munmap(p, PAGE);
}

PLAIN static unsigned use_up_stack(unsigned n)
{
	volatile char page[1024];

	page[0] = (char)n;
	return n == -1u ? 0 : use_up_stack(n + 1) + (unsigned char)page[0];
}

static void stack_overflow(void)
{
	char here;

	what_to_do = LEAVE;
	faults = 0;
	if (!sigsetjmp(out, 1))
		use_up_stack(0);
	CHECK(faults == 1);
	CHECK(on_alternate);
	CHECK((uintptr_t)addr < (uintptr_t)&here - 256 * 1024);
}

/* sent, not caused: si_addr means nothing, si_code says so */
static void sent(void)
{
	what_to_do = LEAVE;
	faults = 0;
	if (!sigsetjmp(out, 1))
		kill(getpid(), SIGSEGV);
	CHECK(faults == 1);
	CHECK(code == SI_USER);
}

int main(int argc, char **argv)
{
	stack_t stack = { .ss_sp = alternate, .ss_size = sizeof alternate };
	struct sigaction action = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_ONSTACK };
	struct rlimit limit = { 1 << 20, 8 << 20 };

	setvbuf(stdout, 0, _IOLBF, 0);
	setrlimit(RLIMIT_STACK, &limit);	/* overflows sooner, where it counts */
	sigaltstack(&stack, 0);
	sigaction(SIGSEGV, &action, 0);
	if (argc > 1 && !strcmp(argv[1], "nested")) {
		puts("a fault within the handler");
		what_to_do = FAULT;
		store(0, 1);
		return 1;
	}
	GROUP(unmapped);
	GROUP(protected);
	GROUP(repaired);
	GROUP(straddling);
	GROUP(skipped);
	GROUP(not_executable);
	GROUP(stack_overflow);
	GROUP(sent);
	return all_failed;
}
