/*
 * demo: a small program with a profile worth looking at.
 *
 * It writes a text of made-up words, counts them, sorts them by frequency,
 * evaluates formulas with a recursive-descent parser, and multiplies matrices:
 *
 *   main
 *     report_words      make_text, count_words (tokenize, hash, find_word),
 *                       sort_words (recursive, with a callback), log_line
 *     report_formulas   evaluate -> parse_sum -> parse_product -> parse_power
 *                       -> parse_atom -> parse_sum ...
 *     report_matrix     power -> multiply -> dot
 *
 * Memory comes from a bump allocator over mmap, so there are page faults, and
 * log_line writes to /dev/null, so there are system calls. About 3 x 10^7
 * instructions; the output is always the same.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PLAIN __attribute__((noipa))	/* keep functions apart in the profile */

/* ---- memory ---- */

#define ARENA (8u << 20)

static char *arena, *arena_end;

PLAIN static void *allocate(size_t size)
{
	void *p = arena;

	size = (size + 15) & ~(size_t)15;
	if (size > (size_t)(arena_end - arena)) {
		fputs("demo: out of memory\n", stderr);
		exit(1);
	}
	arena += size;
	return p;
}

/* ---- a log nobody reads ---- */

static int log_fd = -1;

PLAIN static void log_line(const char *what, unsigned long value)
{
	char line[80];
	int n = snprintf(line, sizeof line, "%s %lu\n", what, value);

	if (write(log_fd, line, (size_t)n) != n)
		exit(1);
}

/* ---- words ---- */

#define BUCKETS	512
#define TEXT	(200u << 10)

struct word {
	struct word *next;	/* in its bucket */
	uint32_t hash, count;
	char text[];
};

static struct word *buckets[BUCKETS];
static unsigned distinct, total;

static uint32_t seed = 2463534242u;

static uint32_t next_random(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 17;
	seed ^= seed << 5;
	return seed;
}

/* words of one to three syllables, short ones more often */
PLAIN static char *make_text(size_t size)
{
	static const char syllables[16][4] = {
		"ba", "ke", "lo", "mi", "nu", "ra", "se", "ti",
		"vo", "wa", "zen", "tor", "lin", "mar", "pel", "dus",
	};
	char *text = allocate(size), *p = text;

	while (p < text + size - 16) {
		unsigned n = 1 + (next_random() & 1) + !(next_random() & 3);

		while (n--) {
			const char *s = syllables[next_random() & next_random() & 15];
			while (*s)
				*p++ = *s++;
		}
		*p++ = next_random() & 7 ? ' ' : '\n';
	}
	*p = 0;
	return text;
}

PLAIN static uint32_t hash(const char *s, size_t n)
{
	uint32_t h = 2166136261u;

	while (n--)
		h = (h ^ (unsigned char)*s++) * 16777619u;
	return h;
}

PLAIN static struct word *find_word(const char *s, size_t n)
{
	uint32_t h = hash(s, n);
	struct word **at = &buckets[h % BUCKETS], *w;

	for (w = *at; w; w = w->next)
		if (w->hash == h && !memcmp(w->text, s, n) && !w->text[n])
			return w;
	w = allocate(sizeof *w + n + 1);
	w->next = *at;
	w->hash = h;
	memcpy(w->text, s, n);
	*at = w;
	distinct++;
	return w;
}

/* the next word of the text, and where it ends */
PLAIN static const char *tokenize(const char *s, const char **end)
{
	while (*s == ' ' || *s == '\n')
		s++;
	*end = s;
	while (**end && **end != ' ' && **end != '\n')
		++*end;
	return s;
}

PLAIN static void count_words(const char *text)
{
	const char *end;

	for (const char *s = tokenize(text, &end); s != end; s = tokenize(end, &end)) {
		find_word(s, (size_t)(end - s))->count++;
		if (++total % 100 == 0)
			log_line("words", total);
	}
}

/* by count, most frequent first, then by name */
PLAIN static int by_count(const struct word *a, const struct word *b)
{
	if (a->count != b->count)
		return a->count > b->count ? -1 : 1;
	return strcmp(a->text, b->text);
}

PLAIN static void sort_words(struct word **w, size_t n,
			     int (*order)(const struct word *, const struct word *))
{
	struct word *pivot;
	size_t i = 0, j = n - 1;

	if (n < 2)
		return;
	pivot = w[n / 2];
	for (;;) {
		struct word *t;

		while (order(w[i], pivot) < 0)
			i++;
		while (order(pivot, w[j]) < 0)
			j--;
		if (i >= j)
			break;
		t = w[i];
		w[i++] = w[j];
		w[j--] = t;
	}
	sort_words(w, i, order);
	sort_words(w + i, n - i, order);
}

PLAIN static void report_words(void)
{
	char *text = make_text(TEXT);
	struct word **list;
	size_t n = 0;

	count_words(text);
	list = allocate(distinct * sizeof *list);
	for (unsigned b = 0; b < BUCKETS; b++)
		for (struct word *w = buckets[b]; w; w = w->next)
			list[n++] = w;
	sort_words(list, n, by_count);
	printf("words: %u, %u distinct; most frequent:", total, distinct);
	for (unsigned i = 0; i < 4; i++)
		printf(" %s %u", list[i]->text, list[i]->count);
	printf("\n");
}

/* ---- formulas ---- */

#define MODULUS 1000003u

static const char *at;

PLAIN static uint32_t parse_sum(void);

PLAIN static uint32_t parse_atom(void)
{
	uint32_t v = 0;

	if (*at == '(') {
		at++;
		v = parse_sum();
		at++;	/* the closing one */
		return v;
	}
	while (*at >= '0' && *at <= '9')
		v = (v * 10 + (uint32_t)(*at++ - '0')) % MODULUS;
	return v;
}

PLAIN static uint32_t parse_power(void)
{
	uint32_t v = parse_atom();

	if (*at == '^') {
		uint64_t r = 1;
		uint32_t n;

		at++;
		for (n = parse_power() % 64; n; n--)
			r = r * v % MODULUS;
		v = (uint32_t)r;
	}
	return v;
}

PLAIN static uint32_t parse_product(void)
{
	uint64_t v = parse_power();

	while (*at == '*') {
		at++;
		v = v * parse_power() % MODULUS;
	}
	return (uint32_t)v;
}

PLAIN static uint32_t parse_sum(void)
{
	uint32_t v = parse_product();

	while (*at == '+') {
		at++;
		v = (v + parse_product()) % MODULUS;
	}
	return v;
}

PLAIN static uint32_t evaluate(const char *formula)
{
	at = formula;
	return parse_sum();
}

PLAIN static void report_formulas(void)
{
	static const char *const formulas[] = {
		"1+2*3",
		"(1+2)*(3+4)*(5+6)",
		"2^10+3^9+(1+1)^(2+3)",
		"((((((7+1)*2+1)*3+1)*5+1)*7+1)*11+1)*13",
		"(12+34*(56+78*(90+12*(34+56*(78+90^(1+2*3))))))^2",
	};
	uint32_t sum = 0;

	for (unsigned i = 0; i < 10000; i++) {
		sum = (sum * 31 + evaluate(formulas[i % 5])) % MODULUS;
		if (i % 50 == 0)
			log_line("formula", sum);
	}
	printf("formulas: the last is %u, checksum %u\n", evaluate(formulas[4]), sum);
}

/* ---- matrices ---- */

#define SIZE 48

typedef uint32_t matrix[SIZE][SIZE];

/* row i of a with row j of the transposed b */
PLAIN static uint32_t dot(const uint32_t *a, const uint32_t *b)
{
	uint64_t sum = 0;

	for (unsigned k = 0; k < SIZE; k++)
		sum += (uint64_t)a[k] * b[k];
	return (uint32_t)(sum % MODULUS);
}

PLAIN static void multiply(matrix out, matrix a, matrix b)
{
	matrix *t = allocate(sizeof *t);

	for (unsigned i = 0; i < SIZE; i++)
		for (unsigned j = 0; j < SIZE; j++)
			(*t)[j][i] = b[i][j];
	for (unsigned i = 0; i < SIZE; i++)
		for (unsigned j = 0; j < SIZE; j++)
			out[i][j] = dot(a[i], (*t)[j]);
}

/* out = m to the power of n: squaring, one level of recursion per bit */
PLAIN static void power(matrix out, matrix m, unsigned n)
{
	matrix *half;

	if (n == 1) {
		memcpy(out, m, sizeof(matrix));
		return;
	}
	half = allocate(sizeof *half);
	power(*half, m, n / 2);
	if (n & 1) {
		matrix *square = allocate(sizeof *square);

		multiply(*square, *half, *half);
		multiply(out, *square, m);
	} else {
		multiply(out, *half, *half);
	}
}

PLAIN static void report_matrix(void)
{
	matrix *m = allocate(sizeof *m), *out = allocate(sizeof *out);
	uint64_t trace = 0;

	for (unsigned i = 0; i < SIZE; i++)
		for (unsigned j = 0; j < SIZE; j++)
			(*m)[i][j] = (i * j + i + 2 * j) % 10;
	power(*out, *m, 1000);
	for (unsigned i = 0; i < SIZE; i++)
		trace += (*out)[i][i];
	printf("matrix: trace of the 1000th power is %u\n", (unsigned)(trace % MODULUS));
}

int main(void)
{
	arena = mmap(0, ARENA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (arena == MAP_FAILED)
		return 1;
	arena_end = arena + ARENA;
	log_fd = open("/dev/null", O_WRONLY);

	report_words();
	report_formulas();
	report_matrix();
	return 0;
}
