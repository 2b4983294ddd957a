/*
 * zoo-small-functions: small optimised functions in a loop.
 *
 * What a compiler makes of everyday code at -O2 without frame pointers: leaves
 * of some instructions, early returns, a recursion that it unrolls, calls in
 * tail position. Most of the time passes in prologues and epilogues, where
 * tables are wrong if they are wrong anywhere; a profile of such a program
 * looked different on different machines and nobody could say which was right.
 *
 * Prints the sum of what the functions return.
 */
#include <stdio.h>

#define NI __attribute__((noinline, noclone))

static unsigned state = 1;

NI static unsigned next(void)
{
	state = state * 1664525 + 1013904223;
	return state >> 20;
}

NI static unsigned clamp(unsigned x, unsigned most)
{
	if (x > most)
		return most;
	return x;
}

NI static unsigned mix(unsigned a, unsigned b, unsigned c)
{
	unsigned first = clamp(a ^ next(), b);
	return first + clamp(next(), c);
}

NI static unsigned gcd(unsigned a, unsigned b)
{
	return b ? gcd(b, a % b) : a;
}

NI static unsigned collatz(unsigned n, unsigned depth)
{
	if (n <= 1 || depth == 0)
		return depth;
	if (n & 1)
		return collatz(3 * n + 1, depth - 1) + 1;
	return collatz(n / 2, depth - 1);
}

NI static unsigned both(unsigned a, unsigned b)
{
	return gcd(a | 1, b | 1) + collatz(a & 255, 20);
}

int main(void)
{
	unsigned sum = 0;
	for (int i = 0; i < 100; i++) {
		unsigned one = mix(i, 1000, 3000);
		sum += both(one, mix(i, 3000, 1000));
	}
	printf("small functions: %u\n", sum);
	return 0;
}
