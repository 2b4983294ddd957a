/*
 * signals [queue]: signals a program sends to itself, one thread.
 *
 * Without an argument: kill, tgkill and raise, what siginfo says, signals that
 * interrupt handlers, masks, pending signals, alternate stacks, SA_NODEFER,
 * SA_RESETHAND, ignored signals, sigsuspend, and whether vector registers,
 * the floating-point control register and general registers survive a handler
 * that overwrites them. With "queue": sigqueue, the order of real-time signals,
 * sigwaitinfo.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "check.h"

#define PLAIN __attribute__((noipa))

static volatile int count[64];
static volatile siginfo_t last;
static char order[64];
static volatile unsigned order_length;

static void note(char c)
{
	if (order_length < sizeof order - 1)
		order[order_length++] = c;
	order[order_length] = 0;
}

static void reset(void)
{
	memset((void *)count, 0, sizeof count);
	order_length = 0;
	order[0] = 0;
}

static void handle(int sig, void (*function)(int, siginfo_t *, void *), int flags, int mask)
{
	struct sigaction action = { .sa_sigaction = function, .sa_flags = SA_SIGINFO | flags };

	if (mask)
		sigaddset(&action.sa_mask, mask);
	sigaction(sig, &action, 0);
}

static int change_mask(int how, int sig)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, sig);
	return sigprocmask(how, &set, 0);
}

static int is_blocked(int sig)
{
	sigset_t set;

	sigprocmask(SIG_BLOCK, 0, &set);
	return sigismember(&set, sig);
}

static int is_pending(int sig)
{
	sigset_t set;

	sigpending(&set);
	return sigismember(&set, sig);
}

PLAIN static void counting(int sig, siginfo_t *info, void *context)
{
	(void)context;
	count[sig]++;
	memcpy((void *)&last, info, sizeof last);
}

/* ---- sending ---- */

static void sending(void)
{
	pid_t pid = getpid();

	reset();
	handle(SIGUSR1, counting, 0, 0);
	CHECK(kill(pid, SIGUSR1) == 0);
	CHECK(count[SIGUSR1] == 1);
	CHECK(last.si_signo == SIGUSR1 && last.si_code == SI_USER);
	CHECK(last.si_pid == pid && last.si_uid == getuid());
	CHECK(syscall(SYS_tgkill, pid, syscall(SYS_gettid), SIGUSR1) == 0);
	CHECK(count[SIGUSR1] == 2);
	CHECK(last.si_code == SI_TKILL && last.si_pid == pid);
	CHECK(raise(SIGUSR1) == 0);
	CHECK(count[SIGUSR1] == 3);
	CHECK(kill(pid, 0) == 0);
	CHECK(kill(pid, 65) == -1 && errno == EINVAL);
	CHECK(syscall(SYS_tgkill, pid, -1, SIGUSR1) == -1 && errno == EINVAL);
	CHECK(count[SIGUSR1] == 3);
}

/* ---- a signal during a handler ---- */

PLAIN static void inner(int sig, siginfo_t *info, void *context)
{
	(void)sig, (void)info, (void)context;
	note('i');
}

PLAIN static void outer(int sig, siginfo_t *info, void *context)
{
	(void)info, (void)context;
	note('(');
	raise(SIGUSR2);
	if (order_length < 8)
		raise(sig);	/* blocked here, so it comes after this one */
	note(is_blocked(sig) ? 'b' : 'u');
	note(')');
}

static void nested(void)
{
	reset();
	handle(SIGUSR1, outer, 0, 0);
	handle(SIGUSR2, inner, 0, 0);
	raise(SIGUSR1);
	CHECK(!strcmp(order, "(ib)(ib)(ib)"));
	CHECK(!is_blocked(SIGUSR1));
	reset();
	handle(SIGUSR1, outer, 0, SIGUSR2);	/* now SIGUSR2 waits as well */
	raise(SIGUSR1);
	CHECK(!strcmp(order, "(b)(b)(b)(b)i"));	/* the lower number goes first */
	CHECK(!is_blocked(SIGUSR1) && !is_blocked(SIGUSR2));
}

/* ---- flags ---- */

PLAIN static void again(int sig, siginfo_t *info, void *context)
{
	(void)info, (void)context;
	note('<');
	if (++count[sig] < 3)
		raise(sig);
	note('>');
}

static void nodefer(void)
{
	reset();
	handle(SIGUSR1, again, SA_NODEFER, 0);
	raise(SIGUSR1);
	CHECK(!strcmp(order, "<<<>>>"));
	reset();
	handle(SIGUSR1, again, 0, 0);
	raise(SIGUSR1);
	CHECK(!strcmp(order, "<><><>"));
}

static void resethand(void)
{
	struct sigaction now;

	reset();
	handle(SIGUSR1, counting, SA_RESETHAND, 0);
	raise(SIGUSR1);
	CHECK(count[SIGUSR1] == 1);
	sigaction(SIGUSR1, 0, &now);
	CHECK(now.sa_handler == SIG_DFL);
}

static void ignored(void)
{
	reset();
	signal(SIGUSR1, SIG_IGN);
	CHECK(raise(SIGUSR1) == 0);
	signal(SIGCHLD, SIG_DFL);	/* the default is to ignore it */
	CHECK(raise(SIGCHLD) == 0);
	CHECK(signal(SIGKILL, SIG_IGN) == SIG_ERR && errno == EINVAL);
	CHECK(signal(SIGSTOP, SIG_IGN) == SIG_ERR && errno == EINVAL);
	/* ignoring a pending signal drops it */
	handle(SIGUSR1, counting, 0, 0);
	change_mask(SIG_BLOCK, SIGUSR1);
	raise(SIGUSR1);
	CHECK(is_pending(SIGUSR1));
	signal(SIGUSR1, SIG_IGN);
	CHECK(!is_pending(SIGUSR1));
	handle(SIGUSR1, counting, 0, 0);
	change_mask(SIG_UNBLOCK, SIGUSR1);
	CHECK(count[SIGUSR1] == 0);
}

/* ---- masks ---- */

static void masks(void)
{
	sigset_t set, before;

	reset();
	handle(SIGUSR1, counting, 0, 0);
	handle(SIGUSR2, counting, 0, 0);
	CHECK(change_mask(SIG_BLOCK, SIGUSR1) == 0);
	CHECK(is_blocked(SIGUSR1));
	raise(SIGUSR1);
	raise(SIGUSR1);		/* the same signal again: counts once */
	raise(SIGUSR2);
	CHECK(count[SIGUSR1] == 0 && count[SIGUSR2] == 1);
	CHECK(is_pending(SIGUSR1) && !is_pending(SIGUSR2));
	change_mask(SIG_UNBLOCK, SIGUSR1);
	CHECK(count[SIGUSR1] == 1);
	CHECK(!is_pending(SIGUSR1));
	/* SIGKILL and SIGSTOP cannot be blocked */
	sigfillset(&set);
	sigprocmask(SIG_SETMASK, &set, &before);
	CHECK(!is_blocked(SIGKILL) && !is_blocked(SIGSTOP) && is_blocked(SIGTERM));
	sigprocmask(SIG_SETMASK, &before, 0);
	CHECK(!is_blocked(SIGTERM));
	CHECK(sigprocmask(99, &set, 0) == -1 && errno == EINVAL);
}

static void suspend(void)
{
	sigset_t none;

	reset();
	handle(SIGUSR1, counting, 0, 0);
	change_mask(SIG_BLOCK, SIGUSR1);
	raise(SIGUSR1);
	sigemptyset(&none);
	CHECK(sigsuspend(&none) == -1 && errno == EINTR);
	CHECK(count[SIGUSR1] == 1);
	CHECK(is_blocked(SIGUSR1));
	change_mask(SIG_UNBLOCK, SIGUSR1);
	CHECK(count[SIGUSR1] == 1);
}

/* ---- alternate stack ---- */

static char alternate[32768];
static volatile int where[2];	/* of the two handlers: 1 alternate, 0 normal */

static int on_alternate(void)
{
	volatile char here = 0;

	return &here >= alternate && &here < alternate + sizeof alternate;
}

PLAIN static void second(int sig, siginfo_t *info, void *context)
{
	(void)sig, (void)info, (void)context;
	where[1] = on_alternate();
}

PLAIN static void first(int sig, siginfo_t *info, void *context)
{
	stack_t now;

	(void)sig, (void)info, (void)context;
	where[0] = on_alternate();
	sigaltstack(0, &now);
	count[0] = now.ss_flags;
	now.ss_flags = 0;
	count[1] = sigaltstack(&now, 0) == -1 && errno == EPERM;	/* not while it is in use */
	raise(SIGUSR2);
}

static void altstack(void)
{
	stack_t stack = { .ss_sp = alternate, .ss_size = sizeof alternate };
	stack_t off = { .ss_flags = SS_DISABLE }, now;

	reset();
	CHECK(sigaltstack(0, &now) == 0 && now.ss_flags == SS_DISABLE);
	CHECK(sigaltstack(&stack, 0) == 0);
	CHECK(sigaltstack(0, &now) == 0 && now.ss_flags == 0 && now.ss_sp == alternate);
	handle(SIGUSR1, first, SA_ONSTACK, 0);
	handle(SIGUSR2, second, SA_ONSTACK, 0);
	raise(SIGUSR1);
	CHECK(where[0] == 1 && where[1] == 1);
	CHECK(count[0] == SS_ONSTACK);
	CHECK(count[1]);
	handle(SIGUSR1, first, 0, 0);	/* not asked for: normal, then alternate */
	raise(SIGUSR1);
	CHECK(where[0] == 0 && where[1] == 1);
	CHECK(sigaltstack(&off, 0) == 0);
	raise(SIGUSR1);			/* none: normal */
	CHECK(where[0] == 0 && where[1] == 0);
	stack.ss_size = 64;
	CHECK(sigaltstack(&stack, 0) == -1 && errno == ENOMEM);
}

/* ---- registers ---- */

#if defined(__x86_64__)
#define VECTORS 16
#define GENERAL 6
#else
#define VECTORS 32
#define GENERAL 8
#endif

struct registers {
	uint64_t vector[VECTORS][2], control, general[GENERAL];
};

static struct registers zeros;

#if defined(__x86_64__)
#define EACH_VECTOR(op) \
	op(0) op(1) op(2) op(3) op(4) op(5) op(6) op(7) \
	op(8) op(9) op(10) op(11) op(12) op(13) op(14) op(15)
#define LOAD(n) "movdqu " #n "*16(%0), %%xmm" #n "\n\t"
#define STORE(n) "movdqu %%xmm" #n ", " #n "*16(%0)\n\t"

/* sets all registers, sends the signal with them, stores them */
PLAIN static void send_with(struct registers *r, long pid, long tid, long sig)
{
	register long number __asm__("rax") = SYS_tgkill;

	__asm__ volatile(
		"stmxcsr 328(%0)\n\t"
		"ldmxcsr 256(%0)\n\t" EACH_VECTOR(LOAD)
		"mov 264(%0), %%r8\n\tmov 272(%0), %%r9\n\tmov 280(%0), %%r10\n\t"
		"mov 288(%0), %%r12\n\tmov 296(%0), %%r13\n\tmov 304(%0), %%r14\n\t"
		"syscall\n\t"
		"mov %%r8, 264(%0)\n\tmov %%r9, 272(%0)\n\tmov %%r10, 280(%0)\n\t"
		"mov %%r12, 288(%0)\n\tmov %%r13, 296(%0)\n\tmov %%r14, 304(%0)\n\t"
		EACH_VECTOR(STORE)
		"stmxcsr 256(%0)\n\t"
		"ldmxcsr 328(%0)"
		: : "b"(r), "r"(number), "D"(pid), "S"(tid), "d"(sig)
		: "rcx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "memory",
		  "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7",
		  "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
}

static void clobber(void)
{
	uint32_t control = 0x1f80;	/* all exceptions masked, to nearest */

	__asm__ volatile(EACH_VECTOR(LOAD) "ldmxcsr %1" : : "b"(&zeros), "m"(control)
		: "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7",
		  "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
	__asm__ volatile("xor %%r8d, %%r8d; xor %%r9d, %%r9d; xor %%r10d, %%r10d" : : : "r8", "r9", "r10");
}
#define CONTROL 0x7f80		/* toward zero */
#else
#define EACH_PAIR(op) \
	op(0, 1) op(2, 3) op(4, 5) op(6, 7) op(8, 9) op(10, 11) op(12, 13) op(14, 15) \
	op(16, 17) op(18, 19) op(20, 21) op(22, 23) op(24, 25) op(26, 27) op(28, 29) op(30, 31)
#define LOAD(a, b) "ldp q" #a ", q" #b ", [%0, #" #a "*16]\n\t"
#define STORE(a, b) "stp q" #a ", q" #b ", [%0, #" #a "*16]\n\t"
#define ALL_VECTORS \
	"v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", \
	"v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", \
	"v26", "v27", "v28", "v29", "v30", "v31"

PLAIN static void send_with(struct registers *r, long pid, long tid, long sig)
{
	register long number __asm__("x8") = SYS_tgkill;
	register long x0 __asm__("x0") = pid;
	register long x1 __asm__("x1") = tid;
	register long x2 __asm__("x2") = sig;

	__asm__ volatile(
		"mrs x21, fpcr\n\t"
		"ldr x9, [%0, #512]\n\tmsr fpcr, x9\n\t" EACH_PAIR(LOAD)
		"ldr x9, [%0, #520]\n\tldr x10, [%0, #528]\n\tldr x11, [%0, #536]\n\t"
		"ldr x12, [%0, #544]\n\tldr x13, [%0, #552]\n\tldr x17, [%0, #560]\n\t"
		"ldr x19, [%0, #568]\n\tldr x20, [%0, #576]\n\t"
		"svc #0\n\t"
		"str x9, [%0, #520]\n\tstr x10, [%0, #528]\n\tstr x11, [%0, #536]\n\t"
		"str x12, [%0, #544]\n\tstr x13, [%0, #552]\n\tstr x17, [%0, #560]\n\t"
		"str x19, [%0, #568]\n\tstr x20, [%0, #576]\n\t"
		EACH_PAIR(STORE)
		"mrs x9, fpcr\n\tstr x9, [%0, #512]\n\t"
		"msr fpcr, x21"
		: "+r"(r), "+r"(x0) : "r"(number), "r"(x1), "r"(x2)
		: "x9", "x10", "x11", "x12", "x13", "x17", "x19", "x20", "x21", "memory", ALL_VECTORS);
}

static void clobber(void)
{
	struct registers *r = &zeros;

	__asm__ volatile(EACH_PAIR(LOAD) "msr fpcr, xzr" : : "r"(r) : ALL_VECTORS);
	__asm__ volatile("mov x9, #0; mov x10, #0; mov x11, #0; mov x12, #0; mov x13, #0; mov x17, #0"
		: : : "x9", "x10", "x11", "x12", "x13", "x17");
}
#define CONTROL 0xc00000	/* toward zero */
#endif

PLAIN static void clobbering(int sig, siginfo_t *info, void *context)
{
	(void)info, (void)context;
	count[sig]++;
	clobber();
}

static void registers(void)
{
	/* room for the caller's control register at the end */
	static struct { struct registers r; uint64_t more[2]; } now;
	struct registers want = { .control = CONTROL };

	for (unsigned i = 0; i < VECTORS; i++) {
		want.vector[i][0] = 0x0101010101010101 * (i + 1);
		want.vector[i][1] = ~want.vector[i][0];
	}
	for (unsigned i = 0; i < GENERAL; i++)
		want.general[i] = 0x1234567800000000 + i;
	reset();
	now.r = want;
	handle(SIGUSR1, clobbering, 0, 0);
	send_with(&now.r, getpid(), syscall(SYS_gettid), SIGUSR1);
	CHECK(count[SIGUSR1] == 1);
	CHECK(!memcmp(now.r.vector, want.vector, sizeof want.vector));
	CHECK((uint32_t)now.r.control == CONTROL);
	CHECK(!memcmp(now.r.general, want.general, sizeof want.general));
}

/* ---- queue ---- */

PLAIN static void noting(int sig, siginfo_t *info, void *context)
{
	(void)context;
	note((char)('A' + sig - SIGRTMIN));
	note((char)('0' + info->si_value.sival_int));
	CHECK(info->si_code == SI_QUEUE && info->si_pid == getpid());
}

static void queued(void)
{
	sigset_t all, before;

	reset();
	sigfillset(&all);
	for (int i = 0; i < 3; i++)
		handle(SIGRTMIN + i, noting, 0, 0);
	sigprocmask(SIG_BLOCK, &all, &before);
	for (int i = 0; i < 6; i++) {
		union sigval value = { .sival_int = i };

		CHECK(sigqueue(getpid(), SIGRTMIN + 2 - i % 3, value) == 0);
	}
	CHECK(order_length == 0);
	sigprocmask(SIG_SETMASK, &before, 0);
	/*
	 * The lowest number is taken first, each in the order it was queued. All
	 * three handlers are entered before the first instruction of one runs, so
	 * the last one entered runs first; the second signal of a number waits
	 * until the handler of the first has returned.
	 */
	CHECK(!strcmp(order, "C0C3B1B4A2A5"));
}

static void waited(void)
{
	struct timespec zero = { 0, 0 };
	union sigval value = { .sival_int = 7 };
	siginfo_t info;
	sigset_t set;

	reset();
	handle(SIGUSR1, counting, 0, 0);
	change_mask(SIG_BLOCK, SIGUSR1);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	CHECK(sigtimedwait(&set, &info, &zero) == -1 && errno == EAGAIN);
	sigqueue(getpid(), SIGUSR1, value);
	memset(&info, 0, sizeof info);
	CHECK(sigwaitinfo(&set, &info) == SIGUSR1);
	CHECK(info.si_code == SI_QUEUE && info.si_value.sival_int == 7);
	change_mask(SIG_UNBLOCK, SIGUSR1);
	CHECK(count[SIGUSR1] == 0);
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "queue")) {
		GROUP(queued);
		GROUP(waited);
		return all_failed;
	}
	GROUP(sending);
	GROUP(nested);
	GROUP(nodefer);
	GROUP(resethand);
	GROUP(ignored);
	GROUP(masks);
	GROUP(suspend);
	GROUP(altstack);
	GROUP(registers);
	return all_failed;
}
