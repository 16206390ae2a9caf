// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * A mapped file is a store of values of 1 KB. 70 % of the values are deleted. Report the memory that
 * the cache needs for the rest, and the instructions of a get. count-insns.c explains the counter.
 *
 *	count-store load FILE MIB
 *	count-store get FILE MIB GETS uniform|zipf ADVICE [RESIDENT]
 *
 * "load" writes all values. "get" reads values that are not deleted, in random order. ADVICE is
 * none, random or hugepage. "get" prints
 *
 *	MEAN MEDIAN P99 MOST FAULTS CACHED TOUCHED LIVE DIGEST
 *
 * First the instructions of a get. CACHED is the number of bytes of the file that the cache holds
 * after the last get: the number in the file RESIDENT, or what mincore() reports. TOUCHED is the
 * number of bytes in the pages of 4 KB that a get has read, LIVE that of all values that are not
 * deleted.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "count.h"

#define VALUE 1024ul
#define WORDS (VALUE / 8)
#define PAGE 4096ul
#define DELETED 70 /* percent */
#define PRIME 0x9e3779b97f4a7c15ull

struct store {
	uint64_t *at;
	size_t size, values;
	uint32_t *live; /* values that are not deleted, in random order */
	size_t nlive;
	uint64_t *weights; /* zipf: the sum of the weights up to each of @live */
	uint64_t random;
};

static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 31) * PRIME;
	x = (x ^ x >> 29) * PRIME;
	return x ^ x >> 32;
}

static uint64_t next_random(struct store *store)
{
	store->random += PRIME;
	return mix(store->random);
}

static void *allocate(size_t bytes)
{
	void *at = malloc(bytes);

	if (!at)
		fail("memory");
	return memset(at, 0, bytes);
}

static void map(struct store *store, const char *path, int advice)
{
	int fd = open(path, O_RDWR | O_CREAT, 0644);

	if (fd < 0 || ftruncate(fd, (off_t)store->size))
		fail(path);
	store->at = mmap(NULL, store->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (store->at == MAP_FAILED)
		fail("mmap");
	if (advice != MADV_NORMAL && madvise(store->at, store->size, advice))
		fail("madvise");
	close(fd);
}

static void load(struct store *store)
{
	for (size_t i = 0; i < store->values; i++)
		for (size_t j = 0; j < WORDS; j++)
			store->at[i * WORDS + j] = (i + 1) * PRIME + j;
	if (msync(store->at, store->size, MS_SYNC))
		fail("msync");
}

static void choose_live(struct store *store)
{
	store->live = allocate(store->values * sizeof(*store->live));
	for (size_t i = 0; i < store->values; i++)
		if (mix(i + 1) % 100 >= DELETED)
			store->live[store->nlive++] = (uint32_t)i;
	for (size_t i = store->nlive; i > 1; i--) {
		size_t other = next_random(store) % i;
		uint32_t last = store->live[i - 1];

		store->live[i - 1] = store->live[other];
		store->live[other] = last;
	}
}

/* Each value gets the weight 1 / rank. */
static void weigh(struct store *store)
{
	uint64_t sum = 0;

	store->weights = allocate(store->nlive * sizeof(*store->weights));
	for (size_t i = 0; i < store->nlive; i++)
		store->weights[i] = sum += (1ull << 32) / (i + 1);
}

static size_t choose(struct store *store)
{
	size_t low = 0, high = store->nlive - 1;
	uint64_t at = next_random(store);

	if (!store->weights)
		return store->live[at % store->nlive];
	at %= store->weights[high];
	while (low < high) {
		size_t middle = (low + high) / 2;

		if (store->weights[middle] > at)
			high = middle;
		else
			low = middle + 1;
	}
	return store->live[low];
}

static __attribute__((noinline)) uint64_t get(const struct store *store, size_t value)
{
	const uint64_t *at = store->at + value * WORDS;
	uint64_t digest = 0;

	for (size_t j = 0; j < WORDS; j++)
		digest = ((digest << 23 | digest >> 41) ^ at[j]) * PRIME;
	return digest;
}

static size_t resident(const struct store *store, const char *path)
{
	unsigned char *pages = allocate(store->size / PAGE);
	size_t n = 0;
	FILE *file;

	if (path) {
		file = fopen(path, "r");
		if (!file || fscanf(file, "%zu", &n) != 1)
			fail(path);
		return n;
	}
	if (mincore(store->at, store->size, pages))
		fail("mincore");
	for (size_t i = 0; i < store->size / PAGE; i++)
		n += pages[i] & 1;
	return n * PAGE;
}

static int compare(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static void run(struct store *store, size_t gets, const char *resident_path)
{
	uint64_t *insns = allocate(gets * sizeof(*insns)), sum = 0, digest = 0;
	unsigned char *touched = allocate(store->size / PAGE);
	struct rusage before, after;
	size_t ntouched = 0, cached;

	getrusage(RUSAGE_SELF, &before);
	for (size_t i = 0; i < gets; i++) {
		size_t value = choose(store);
		uint64_t begin = now(), read = get(store, value);

		insns[i] = now() - begin;
		digest = ((digest << 23 | digest >> 41) ^ read) * PRIME;
		sum += insns[i];
		ntouched += !touched[value * VALUE / PAGE];
		touched[value * VALUE / PAGE] = 1;
	}
	getrusage(RUSAGE_SELF, &after);
	cached = resident(store, resident_path);
	qsort(insns, gets, sizeof(*insns), compare);
	printf("%llu %llu %llu %llu %ld %zu %zu %zu %016llx\n", (unsigned long long)(sum / gets),
	       (unsigned long long)insns[gets / 2], (unsigned long long)insns[gets * 99 / 100],
	       (unsigned long long)insns[gets - 1],
	       after.ru_minflt + after.ru_majflt - before.ru_minflt - before.ru_majflt, cached,
	       ntouched * PAGE, store->nlive * VALUE, (unsigned long long)digest);
}

static int advice_of(const char *name)
{
	if (!strcmp(name, "random"))
		return MADV_RANDOM;
	return strcmp(name, "hugepage") ? MADV_NORMAL : MADV_HUGEPAGE;
}

int main(int argc, char **argv)
{
	struct store store = {};

	if (argc > 3)
		store.size = strtoul(argv[3], NULL, 0) << 20;
	store.values = store.size / VALUE;
	if (argc == 4 && !strcmp(argv[1], "load")) {
		map(&store, argv[2], MADV_NORMAL);
		load(&store);
		return 0;
	}
	if ((argc != 7 && argc != 8) || strcmp(argv[1], "get")) {
		fprintf(stderr,
			"usage: count-store load FILE MIB\n"
			"       count-store get FILE MIB GETS uniform|zipf ADVICE [RESIDENT]\n");
		return 2;
	}
	choose_live(&store);
	if (!strcmp(argv[5], "zipf"))
		weigh(&store);
	map(&store, argv[2], advice_of(argv[6]));
	run(&store, strtoul(argv[4], NULL, 0), argv[7]);
	return 0;
}
