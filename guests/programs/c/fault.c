/*
 * fault [KIND]: a program that dies of a signal, a few calls deep.
 *
 *   null      writes through a null pointer                SIGSEGV
 *   readonly  writes to its own read-only data             SIGSEGV
 *   noexec    calls into data that is not executable       SIGSEGV
 *   kernel    reads an address no user program can have    SIGSEGV
 *   stack     recurses until the stack is used up          SIGSEGV
 *   illegal   executes an undefined instruction            SIGILL
 *   trap      executes a breakpoint instruction            SIGTRAP
 *   divide    divides by zero (x86 only traps)             SIGFPE
 *   abort     calls abort()                                SIGABRT
 *   kill      sends itself SIGKILL                         SIGKILL
 *
 * Without an argument: null. Prints one line first. Exits 2 on an unknown
 * KIND, and 0 when nothing stopped it.
 */
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PLAIN __attribute__((noipa))

static const int constant = 1;
static volatile unsigned data_word[4];
static volatile long sink;

static void say(const char *text)
{
	if (write(1, text, strlen(text)) < 0)
		_exit(3);
}

PLAIN static void store(volatile int *p, int value)
{
	*p = value;
}

PLAIN static void write_null(void)
{
	store((volatile int *)0, 42);
}

PLAIN static void write_readonly(void)
{
	store((volatile int *)(uintptr_t)&constant, 42);
}

PLAIN static void call_data(void)
{
	void (*f)(void) = (void (*)(void))(uintptr_t)data_word;

	f();
	sink++;
}

PLAIN static void read_kernel(void)
{
	sink = *(volatile long *)0x8000000000000000;
}

PLAIN static unsigned long use_up_stack(unsigned long n)
{
	volatile char page[1024];

	page[0] = (char)n;
	if (n == -1ul)
		return 0;
	return use_up_stack(n + 1) + (unsigned char)page[0];
}

PLAIN static void overflow_stack(void)
{
	sink = (long)use_up_stack(0);
}

PLAIN static void illegal(void)
{
#if defined(__x86_64__)
	__asm__ volatile("ud2");
#else
	__asm__ volatile("udf #0");
#endif
}

PLAIN static void trap(void)
{
#if defined(__x86_64__)
	__asm__ volatile("int3");
#else
	__asm__ volatile("brk #0");
#endif
}

PLAIN static void divide(void)
{
	long by = data_word[0], of = 1234;	/* by is 0 */

#if defined(__x86_64__)
	__asm__ volatile("cqo; idivq %1" : "+a"(of) : "r"(by) : "rdx", "cc");
#else
	__asm__ volatile("sdiv %0, %0, %1" : "+r"(of) : "r"(by));
#endif
	sink = of;
}

PLAIN static void call_abort(void)
{
	abort();
}

PLAIN static void call_kill(void)
{
	kill(getpid(), SIGKILL);
}

static const struct {
	const char *name, *text;
	void (*run)(void);
} kinds[] = {
	{ "null", "writing through a null pointer\n", write_null },
	{ "readonly", "writing to read-only data\n", write_readonly },
	{ "noexec", "calling data\n", call_data },
	{ "kernel", "reading a kernel address\n", read_kernel },
	{ "stack", "using up the stack\n", overflow_stack },
	{ "illegal", "executing an undefined instruction\n", illegal },
	{ "trap", "executing a breakpoint instruction\n", trap },
	{ "divide", "dividing by zero\n", divide },
	{ "abort", "calling abort\n", call_abort },
	{ "kill", "sending SIGKILL to itself\n", call_kill },
};

PLAIN static int inner(const char *kind)
{
	for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		if (!strcmp(kind, kinds[i].name)) {
			say(kinds[i].text);
			kinds[i].run();
			say("still alive\n");
			return 0;
		}
	}
	say("unknown kind of fault\n");
	return 2;
}

PLAIN static int outer(const char *kind)
{
	int r = inner(kind);

	sink++;		/* not a tail call */
	return r;
}

int main(int argc, char **argv)
{
	return outer(argc > 1 ? argv[1] : "null");
}
