/*
 * hello: the least a C program does, for what its C library does around it.
 */
#include <stdio.h>

int main(void)
{
	puts("hello from C");
	return 0;
}
