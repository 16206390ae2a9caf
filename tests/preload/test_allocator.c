// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * An allocator, which this program is linked with, maps and unmaps memory between two mappings of a
 * file. The monitor thread follows the mappings, and gives no advice for the allocator's memory.
 */
#include "common.h"

#include <dlfcn.h>
#include <pthread.h>

#include "page.h"

#define LIVE 64
#define ROUNDS 4000
#define THREADS 2
#define BLOCK (2 * MB) /* at most */

struct block {
	unsigned char *at;
	size_t size;
};

static struct file file;
static volatile unsigned char *map[2];

static uint64_t random_number(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	return *state ^= *state << 17;
}

/* One byte of each page. */
static void block_fill(const struct block *block, unsigned char value)
{
	size_t at;

	for (at = 0; at < block->size; at += PAGE)
		block->at[at] = value;
	block->at[block->size - 1] = value;
}

static bool block_is(const struct block *block, unsigned char value)
{
	size_t at;

	for (at = 0; at < block->size; at += PAGE)
		if (block->at[at] != value)
			return false;
	return block->at[block->size - 1] == value;
}

static void *churn(void *arg)
{
	uint64_t state = 88172645463325252ull + (uintptr_t)arg;
	struct block live[LIVE] = {};
	size_t i, k, at;

	for (i = 0; i < ROUNDS; i++) {
		k = random_number(&state) % LIVE;
		if (live[k].at) {
			assert_true(block_is(&live[k], (unsigned char)k));
			free(live[k].at);
		}
		live[k].size = 16 + random_number(&state) % BLOCK;
		live[k].at = malloc(live[k].size);
		assert_non_null(live[k].at);
		block_fill(&live[k], (unsigned char)k);
		at = random_number(&state) % SIZE;
		assert_int_equal(map[i % 2][at], byte_of(at));
	}
	for (k = 0; k < LIVE; k++)
		free(live[k].at);
	return NULL;
}

/* Returns the number of areas without a file that have advice for random access. */
static unsigned int advised_areas(void)
{
	FILE *smaps = fopen("/proc/self/smaps", "re");
	unsigned long inode = 1, value;
	unsigned int n = 0;
	char line[512];

	assert_non_null(smaps);
	while (fgets(line, sizeof(line), smaps)) {
		if (sscanf(line, "%*x-%*x %*s %*x %*x:%*x %lu", &value) == 1)
			inode = value;
		else if (!strncmp(line, "VmFlags:", 8))
			n += !inode && strstr(line, " rr");
	}
	fclose(smaps);
	return n;
}

static bool is_steered(volatile unsigned char *at)
{
	const struct steer_page *(*page_of)(void);
	const struct steer_page *page;
	unsigned int i;

	*(void **)&page_of = dlsym(RTLD_DEFAULT, "hugemap_run_page");
	assert_non_null(page_of);
	page = page_of();
	for (i = 0; page && i < STEER_PAGE_MAPS; i++)
		if (page->maps[i].id && !page->maps[i].ended &&
		    page->maps[i].start == (uintptr_t)at)
			return true;
	return false;
}

static void allocator_works_between_mappings(void **state)
{
	pthread_t thread[THREADS];
	uintptr_t i;

	file_new(&file, SIZE);
	map[0] = map[1] = (unsigned char *)map_shared(&file, PROT_READ);
	/* The allocator's memory lies below the first mapping, and above the second one. */
	free(malloc(64 * MB));
	churn(NULL);
	map[1] = (unsigned char *)map_shared(&file, PROT_READ);
	assert_true(wait_for_watchers(1));
	for (i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, churn, (void *)i), 0);
	for (i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	assert_true(is_steered(map[0]) && is_steered(map[1]));
	assert_int_equal(advised_areas(), 0);
	for (i = 0; i < 2; i++)
		munmap((void *)map[i], SIZE);
	assert_true(wait_for_watchers(0));
	file_end(&file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(allocator_works_between_mappings),
	};

	return RUN(tests);
}
