/*
 * Threads, children, pipes, signals between them, timers: each line says what one part found. What
 * is printed does not depend on the number of CPUs, nor on who runs first.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 4, ROUNDS = 500 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t barrier;
static long counter, turn;
static volatile sig_atomic_t alarms, hits;

static void on_alarm(int signal)
{
	(void)signal;
	alarms++;
}

static void on_hit(int signal)
{
	(void)signal;
	hits++;
}

static long spin(long n)
{
	volatile long x = 0;

	for (long i = 0; i < n; i++)
		x += i ^ x;
	return x;
}

static void *worker(void *argument)
{
	long id = (long)argument;

	pthread_barrier_wait(&barrier);
	for (int i = 0; i < ROUNDS; i++) {
		pthread_mutex_lock(&mutex);
		counter++;
		pthread_mutex_unlock(&mutex);
	}
	/* In turn: thread 0, 1, 2, 3. */
	pthread_mutex_lock(&mutex);
	while (turn != id)
		pthread_cond_wait(&condition, &mutex);
	turn++;
	pthread_cond_broadcast(&condition);
	pthread_mutex_unlock(&mutex);
	spin(20000);
	return (void *)(id * id);
}

static void threads(void)
{
	pthread_t thread[THREADS];
	long sum = 0;
	void *result;

	pthread_barrier_init(&barrier, NULL, THREADS);
	for (long i = 0; i < THREADS; i++)
		pthread_create(&thread[i], NULL, worker, (void *)i);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(thread[i], &result);
		sum += (long)result;
	}
	printf("threads: counted %ld, turns %ld, results %ld\n", counter, turn, sum);
}

static int status_of(pid_t child)
{
	int status = 0;

	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	return status;
}

static void pipes(void)
{
	static char block[150000];
	char piece[4096];
	long total = 0;
	int ends[2];
	ssize_t n;

	if (pipe(ends))
		return;
	pid_t child = fork();
	if (child == 0) {
		close(ends[0]);
		n = write(ends[1], block, sizeof block);
		_exit(n == sizeof block ? 3 : 4);
	}
	close(ends[1]);
	while ((n = read(ends[0], piece, sizeof piece)) > 0)
		total += n;
	close(ends[0]);
	printf("pipe: %ld bytes, child ended with %d\n", total, WEXITSTATUS(status_of(child)));
}

static void memory(void)
{
	int *copied = malloc(64 << 10);

	copied[5000] = 1;
	pid_t child = fork();
	if (child == 0) {
		copied[5000] = 2;
		_exit(copied[5000]);
	}
	int status = status_of(child);
	printf("memory: the child's is %d, ours %d\n", WEXITSTATUS(status), copied[5000]);
	free(copied);
}

static void programs(char *self)
{
	char *arguments[] = { self, "again", "here", NULL };
	char *none[] = { NULL };

	fflush(stdout);
	pid_t child = vfork();
	if (child == 0) {
		execve("/proc/self/exe", arguments, none);
		_exit(99);
	}
	printf("program: ended with %d\n", WEXITSTATUS(status_of(child)));
}

static void endings(void)
{
	pid_t child = fork();
	if (child == 0)
		*(volatile int *)0 = 1;
	int fault = status_of(child);
	child = fork();
	if (child == 0)
		for (;;)
			pause();
	kill(child, SIGKILL);
	int killed = status_of(child);
	printf("endings: by signal %d and signal %d\n", WTERMSIG(fault), WTERMSIG(killed));
}

static void timers(void)
{
	struct itimerval often = { { 0, 1000 }, { 0, 1000 } }, never = { { 0, 0 }, { 0, 0 } };

	signal(SIGALRM, on_alarm);
	setitimer(ITIMER_REAL, &often, NULL);
	while (alarms < 3)
		pause();
	setitimer(ITIMER_REAL, &never, NULL);
	printf("timer: at least 3 alarms\n");
}

static void interrupted(void)
{
	struct timespec long_time = { 5, 0 }, rest = { 0, 0 };

	signal(SIGUSR1, on_hit);
	pid_t child = fork();
	if (child == 0) {
		struct timespec while_ = { 0, 1000000 };

		nanosleep(&while_, NULL);
		kill(getppid(), SIGUSR1);
		_exit(0);
	}
	int result = nanosleep(&long_time, &rest);
	printf("sleep: %s after a signal, %d hit, %ld s left\n",
	       result && errno == EINTR ? "ended" : "went on", (int)hits, (long)rest.tv_sec);
	status_of(child);
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "again")) {
		printf("program: again, %s\n", argv[2]);
		return 7;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	threads();
	pipes();
	memory();
	programs(argv[0]);
	endings();
	timers();
	interrupted();
	return 0;
}
