/*
 * recursion [FIB [DEPTH]]: recursive functions of several shapes.
 *
 *   fib        two calls per level, so the depth changes all the time
 *   descend    one call per level, DEPTH levels, with a local array in each
 *   is_even    and is_odd call each other, DEPTH levels
 *   ackermann  a call in the argument of a call
 *
 * Exits 0, or 1 when a result is wrong.
 */
#include <stdio.h>
#include <stdlib.h>

#define PLAIN __attribute__((noipa))	/* neither inlined nor cloned */

PLAIN static unsigned long fib(unsigned n)
{
	return n < 2 ? n : fib(n - 1) + fib(n - 2);
}

PLAIN static unsigned long descend(unsigned long n)
{
	volatile unsigned long here[4] = { n, 1, 2, 3 };

	if (n == 0)
		return 0;
	return descend(n - 1) + here[1];
}

PLAIN static int is_odd(unsigned long n);

PLAIN static int is_even(unsigned long n)
{
	return n == 0 ? 1 : is_odd(n - 1);
}

PLAIN static int is_odd(unsigned long n)
{
	return n == 0 ? 0 : is_even(n - 1);
}

PLAIN static unsigned long ackermann(unsigned long m, unsigned long n)
{
	if (m == 0)
		return n + 1;
	if (n == 0)
		return ackermann(m - 1, 1);
	return ackermann(m - 1, ackermann(m, n - 1));
}

/* the Fibonacci numbers without recursion, to check fib() with */
static unsigned long fib_loop(unsigned n)
{
	unsigned long a = 0, b = 1;

	while (n--) {
		unsigned long c = a + b;
		a = b;
		b = c;
	}
	return a;
}

int main(int argc, char **argv)
{
	unsigned n = argc > 1 ? (unsigned)strtoul(argv[1], 0, 10) : 24;
	unsigned long depth = argc > 2 ? strtoul(argv[2], 0, 10) : 1000;
	unsigned long f = fib(n), d = descend(depth), a = ackermann(2, 50);
	int even = is_even(depth);

	printf("fib(%u) = %lu\n", n, f);
	printf("descend(%lu) = %lu\n", depth, d);
	printf("%lu is %s\n", depth, even ? "even" : "odd");
	printf("ackermann(2, 50) = %lu\n", a);
	return f != fib_loop(n) || d != depth || even != !(depth & 1) || a != 103;
}
