// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Count the guest's instructions for accesses to a mapping. Under QEMU's -icount shift=0,
 * the time stamp counter counts the instructions of all CPUs in kernel and user space, so
 * the counts are exact and the same in every run. With one CPU and a device that completes
 * I/O at once, the guest is never idle, so no idle loop is counted.
 *
 *	count-insns [-s STEP] [-a ADVICE] FILE MIB COUNT...
 *
 * STEP is the unit of a single access in bytes (default 2 MB). STEP and MIB must be powers of
 * two. ADVICE is none, sequential, random, hugepage, populate-read or populate-write. Each
 * COUNT prints a line "NAME OPERATIONS INSTRUCTIONS FAULTS":
 *
 *	copy, fill	read or write MIB of a present buffer: the loops alone
 *	seq-read	map the file, read all of it
 *	seq-write	map it, write all of it, msync
 *	warm		not counted: read a byte of every STEP, so that it is cached
 *	warm-pages	not counted: read a byte of every page, so that all of the file is cached
 *	warm-calls	not counted: read the file by calls of 1 MB
 *	read-fault	map the cached file, read a byte of every STEP
 *	upgrade		read a byte of every STEP, then count writes to every STEP
 *	first-write	map it, write a byte of every STEP
 *	sync		write a byte of every STEP, then count the msync
 *	rewrite		write a byte of every STEP and msync, then count writes to every STEP
 *	drop		unmap it, then count POSIX_FADV_DONTNEED
 *	forget		not counted: drop
 *	random-read	read a byte of RANDOM_OPS random pages
 *	random-write	write a byte of RANDOM_OPS random pages
 *	spread-read	read a byte of every page, in random order within each 8 MB. Each
 *			access that faults is counted alone: NAME-mean, and as one operation
 *			each NAME-median, NAME-99th (percentile) and NAME-most (maximum)
 *	spread-write	write a byte of every page, likewise
 *	read-call, read-again	read the file by calls of 1 MB
 *	read-page-call	read the file by calls of 4 KB, in an order that is not sequential
 *	write-call	write the file by calls of 1 MB
 */
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "count.h"

#define BUFFER (1ul << 20)
#define RANDOM_OPS 8192ul
#define PAGE 4096ul
#define SPREAD 2048ul /* pages */

struct bench {
	int fd;
	size_t size;
	size_t step;
	int advice;
	char *at;
};

struct count {
	uint64_t ops;
	uint64_t insns;
	long faults;
};

static uint64_t sink;

static long faults(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_minflt + usage.ru_majflt;
}

static void start(struct count *count)
{
	count->faults = faults();
	count->insns = now();
}

static void stop(struct count *count, uint64_t ops)
{
	count->insns = now() - count->insns;
	count->faults = faults() - count->faults;
	count->ops = ops;
}

/* Unrolled, and not inlined: memory and files must use the same loop. */
static __attribute__((noinline)) void read_words(const char *at, size_t length)
{
	const volatile uint64_t *word = (const volatile uint64_t *)at;
	uint64_t sum = 0;

	for (size_t i = 0; i < length / 8; i += 8)
		sum += word[i] + word[i + 1] + word[i + 2] + word[i + 3] + word[i + 4] +
		       word[i + 5] + word[i + 6] + word[i + 7];
	sink += sum;
}

static __attribute__((noinline)) void write_words(char *at, size_t length)
{
	volatile uint64_t *word = (volatile uint64_t *)at;

	for (size_t i = 0; i < length / 8; i += 8)
		for (size_t j = 0; j < 8; j++)
			word[i + j] = i;
}

static void map(struct bench *b, bool advised)
{
	b->at = mmap(NULL, b->size, PROT_READ | PROT_WRITE, MAP_SHARED, b->fd, 0);
	if (b->at == MAP_FAILED)
		fail("mmap");
	if (advised && b->advice && madvise(b->at, b->size, b->advice))
		fail("madvise");
}

static void unmap(struct bench *b)
{
	if (b->at && munmap(b->at, b->size))
		fail("munmap");
	b->at = NULL;
}

/*
 * Visits every step once, in an order that is not sequential: read-ahead and write-behind must
 * not run, because their instructions would be counted, too.
 */
static size_t offset_of(const struct bench *b, size_t step, size_t i)
{
	size_t steps = b->size / step;

	return i * (steps * 5 / 8 | 1) % steps * step;
}

static char *step_at(const struct bench *b, size_t i)
{
	return b->at + offset_of(b, b->step, i);
}

static void read_steps(struct bench *b)
{
	for (size_t i = 0; i < b->size / b->step; i++)
		sink += *(volatile uint64_t *)step_at(b, i);
}

static void write_steps(struct bench *b)
{
	for (size_t i = 0; i < b->size / b->step; i++)
		*(volatile uint64_t *)(step_at(b, i) + 8) = i;
}

static char *buffer_new(void)
{
	char *buffer = aligned_alloc(BUFFER, BUFFER);

	if (!buffer)
		fail("memory");
	return memset(buffer, 1, BUFFER);
}

static void memory(struct bench *b, struct count *count, bool write)
{
	char *buffer = buffer_new();

	start(count);
	for (size_t i = 0; i < b->size; i += BUFFER) {
		if (write)
			write_words(buffer, BUFFER);
		else
			read_words(buffer, BUFFER);
	}
	stop(count, b->size / b->step);
	free(buffer);
}

static void copy(struct bench *b, struct count *count)
{
	memory(b, count, false);
}

static void fill(struct bench *b, struct count *count)
{
	memory(b, count, true);
}

static void seq_read(struct bench *b, struct count *count)
{
	start(count);
	map(b, true);
	for (size_t i = 0; i < b->size; i += BUFFER)
		read_words(b->at + i, BUFFER);
	stop(count, b->size / b->step);
}

static void seq_write(struct bench *b, struct count *count)
{
	start(count);
	map(b, true);
	for (size_t i = 0; i < b->size; i += BUFFER)
		write_words(b->at + i, BUFFER);
	if (msync(b->at, b->size, MS_SYNC))
		fail("msync");
	stop(count, b->size / b->step);
}

static void warm(struct bench *b, struct count *count)
{
	map(b, true);
	read_steps(b);
	count->ops = 0;
}

static void warm_pages(struct bench *b, struct count *count)
{
	map(b, true);
	for (size_t i = 0; i < b->size / PAGE; i++)
		sink += *(volatile uint64_t *)(b->at + offset_of(b, PAGE, i));
	count->ops = 0;
}

static void read_fault(struct bench *b, struct count *count)
{
	map(b, true);
	start(count);
	read_steps(b);
	stop(count, b->size / b->step);
}

static void upgrade(struct bench *b, struct count *count)
{
	map(b, true);
	read_steps(b);
	start(count);
	write_steps(b);
	stop(count, b->size / b->step);
}

static void first_write(struct bench *b, struct count *count)
{
	map(b, true);
	start(count);
	write_steps(b);
	stop(count, b->size / b->step);
}

static void sync_all(struct bench *b, struct count *count)
{
	map(b, true);
	write_steps(b);
	start(count);
	if (msync(b->at, b->size, MS_SYNC))
		fail("msync");
	stop(count, b->size / b->step);
}

static void rewrite(struct bench *b, struct count *count)
{
	map(b, true);
	write_steps(b);
	if (msync(b->at, b->size, MS_SYNC))
		fail("msync");
	start(count);
	write_steps(b);
	stop(count, b->size / b->step);
}

static void drop(struct bench *b, struct count *count)
{
	int err;

	fsync(b->fd);
	start(count);
	err = posix_fadvise(b->fd, 0, (off_t)b->size, POSIX_FADV_DONTNEED);
	stop(count, b->size / b->step);
	if (err) {
		fprintf(stderr, "posix_fadvise: %s\n", strerror(err));
		exit(1);
	}
}

static void forget(struct bench *b, struct count *count)
{
	drop(b, count);
	count->ops = 0;
}

static void random_access(struct bench *b, struct count *count, bool write)
{
	uint64_t x = 88172645463325252ull;

	map(b, true);
	start(count);
	for (size_t i = 0; i < RANDOM_OPS; i++) {
		volatile uint64_t *word;

		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		word = (volatile uint64_t *)(b->at + (x >> 12) % (b->size / PAGE) * PAGE);
		if (write)
			*word = x;
		else
			sink += *word;
	}
	stop(count, RANDOM_OPS);
}

static void random_read(struct bench *b, struct count *count)
{
	random_access(b, count, false);
}

static void random_write(struct bench *b, struct count *count)
{
	random_access(b, count, true);
}

static int compare(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static void print_count(const char *name, const char *what, uint64_t ops, uint64_t insns)
{
	printf("%s-%s %llu %llu %llu\n", name, what, (unsigned long long)ops,
	       (unsigned long long)insns, (unsigned long long)ops);
}

/* Accesses SPREAD pages in random order. Stores the instructions of each fault to @out. */
static uint64_t *spread_part(struct bench *b, size_t first, bool write, uint64_t *out)
{
	static uint64_t x = 88172645463325252ull;
	size_t order[SPREAD];

	for (size_t i = 0; i < SPREAD; i++) {
		size_t j;

		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		j = (x >> 12) % (i + 1);
		order[i] = order[j];
		order[j] = first + i;
	}
	for (size_t i = 0; i < SPREAD; i++) {
		volatile uint64_t *word = (volatile uint64_t *)(b->at + order[i] * PAGE);
		struct count one;

		start(&one);
		if (write)
			*word = i;
		else
			sink += *word;
		stop(&one, 1);
		if (one.faults)
			*out++ = one.insns;
	}
	return out;
}

static void spread(struct bench *b, struct count *count, const char *name, bool write)
{
	size_t pages = b->size / PAGE, n;
	uint64_t *insns = calloc(pages, sizeof(*insns)), *end = insns, sum = 0;

	if (!insns)
		fail("memory");
	map(b, true);
	for (size_t i = 0; i + SPREAD <= pages; i += SPREAD)
		end = spread_part(b, i, write, end);
	n = (size_t)(end - insns);
	for (size_t i = 0; i < n; i++)
		sum += insns[i];
	qsort(insns, n, sizeof(*insns), compare);
	print_count(name, "mean", n, sum);
	print_count(name, "median", 1, insns[n / 2]);
	print_count(name, "99th", 1, insns[n * 99 / 100]);
	print_count(name, "most", 1, insns[n - 1]);
	free(insns);
	count->ops = 0;
}

static void spread_read(struct bench *b, struct count *count)
{
	spread(b, count, "spread-read", false);
}

static void spread_write(struct bench *b, struct count *count)
{
	spread(b, count, "spread-write", true);
}

static void calls(struct bench *b, struct count *count, bool write)
{
	char *buffer = buffer_new();

	start(count);
	for (size_t i = 0; i < b->size; i += BUFFER) {
		ssize_t n = write ? pwrite(b->fd, buffer, BUFFER, (off_t)i) :
				    pread(b->fd, buffer, BUFFER, (off_t)i);

		if (n != (ssize_t)BUFFER)
			fail(write ? "pwrite" : "pread");
	}
	stop(count, b->size / b->step);
	free(buffer);
}

static void read_call(struct bench *b, struct count *count)
{
	calls(b, count, false);
}

static void warm_calls(struct bench *b, struct count *count)
{
	calls(b, count, false);
	count->ops = 0;
}

static void write_call(struct bench *b, struct count *count)
{
	calls(b, count, true);
}

static void read_page_call(struct bench *b, struct count *count)
{
	char *buffer = buffer_new();

	start(count);
	for (size_t i = 0; i < b->size / PAGE; i++) {
		if (pread(b->fd, buffer, PAGE, (off_t)offset_of(b, PAGE, i)) != PAGE)
			fail("pread");
	}
	stop(count, b->size / b->step);
	free(buffer);
}

static const struct {
	const char *name;
	void (*run)(struct bench *b, struct count *count);
} counts[] = {
	{ "copy", copy },
	{ "fill", fill },
	{ "seq-read", seq_read },
	{ "seq-write", seq_write },
	{ "warm", warm },
	{ "warm-pages", warm_pages },
	{ "warm-calls", warm_calls },
	{ "read-fault", read_fault },
	{ "upgrade", upgrade },
	{ "first-write", first_write },
	{ "sync", sync_all },
	{ "rewrite", rewrite },
	{ "drop", drop },
	{ "forget", forget },
	{ "random-read", random_read },
	{ "random-write", random_write },
	{ "spread-read", spread_read },
	{ "spread-write", spread_write },
	{ "read-call", read_call },
	{ "read-again", read_call },
	{ "read-page-call", read_page_call },
	{ "write-call", write_call },
};

static const struct {
	const char *name;
	int advice;
} advices[] = {
	{ "none", 0 },
	{ "sequential", MADV_SEQUENTIAL },
	{ "random", MADV_RANDOM },
	{ "hugepage", MADV_HUGEPAGE },
	{ "populate-read", 22 },
	{ "populate-write", 23 },
};

static int advice_of(const char *name)
{
	for (size_t i = 0; i < sizeof(advices) / sizeof(advices[0]); i++)
		if (!strcmp(advices[i].name, name))
			return advices[i].advice;
	fprintf(stderr, "count-insns: unknown advice %s\n", name);
	exit(2);
}

static void run(struct bench *b, const char *name)
{
	struct count count = { 0 };
	size_t i;

	for (i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
		if (!strcmp(counts[i].name, name))
			break;
	if (i == sizeof(counts) / sizeof(counts[0])) {
		fprintf(stderr, "count-insns: unknown count %s\n", name);
		exit(2);
	}
	counts[i].run(b, &count);
	unmap(b);
	if (count.ops)
		printf("%s %llu %llu %ld\n", name, (unsigned long long)count.ops,
		       (unsigned long long)count.insns, count.faults);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	struct bench b = { .step = 2ul << 20 };
	int option;

	while ((option = getopt(argc, argv, "+s:a:")) != -1) {
		if (option == 's')
			b.step = strtoul(optarg, NULL, 0);
		else if (option == 'a')
			b.advice = advice_of(optarg);
		else
			return 2;
	}
	if (argc - optind < 3 || !b.step || b.step & (b.step - 1)) {
		fprintf(stderr, "usage: count-insns [-s STEP] [-a ADVICE] FILE MIB COUNT...\n");
		return 2;
	}
	b.size = strtoul(argv[optind + 1], NULL, 0) << 20;
	if (!b.size || b.size & (b.size - 1)) {
		fprintf(stderr, "count-insns: %s MiB is not a power of two\n", argv[optind + 1]);
		return 2;
	}
	b.fd = open(argv[optind], O_RDWR);
	if (b.fd < 0)
		fail(argv[optind]);
	for (int i = optind + 2; i < argc; i++)
		run(&b, argv[i]);
	return 0;
}
