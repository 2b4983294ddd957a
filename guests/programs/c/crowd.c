/*
 * crowd TASKS CALLS: TASKS children that are all there at once, each of which makes CALLS system
 * calls; without TASKS the first task makes them. What the cost of a system call, and of a task
 * among many, is measured with.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static __attribute__((noinline)) long ask(long calls)
{
	long same = 0, own = getpid();

	for (long i = 0; i < calls; i++)
		same += syscall(SYS_getpid) == own;
	return same;
}

int main(int argc, char **argv)
{
	long tasks = argc > 1 ? atol(argv[1]) : 0;
	long calls = argc > 2 ? atol(argv[2]) : 1000;
	int gate[2], status, ended = 0;
	char byte;

	if (!tasks) {
		printf("crowd: %ld of %ld calls\n", ask(calls), calls);
		return 0;
	}
	if (pipe(gate))
		return 1;
	for (long i = 0; i < tasks; i++) {
		pid_t child = fork();

		if (child < 0)
			return 2;
		if (child)
			continue;
		/* The end of the file is the sign to begin. */
		close(gate[1]);
		if (read(gate[0], &byte, 1))
			_exit(3);
		_exit(ask(calls) != calls);
	}
	close(gate[1]);
	while (wait(&status) > 0)
		ended += WIFEXITED(status) && !WEXITSTATUS(status);
	printf("crowd: %d of %ld tasks\n", ended, tasks);
	return ended != tasks;
}
