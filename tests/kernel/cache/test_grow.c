// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * A file grows from one page into the rest of its first block and into a second block, by two
 * threads that store, beside a thread that looks pages up and a thread that writes back. Many short
 * rounds repeat the split of the first block and the first fault on its rest, which may race. A
 * second test repeats only the split, beside a thread that reads the bits for holes in the rest.
 *
 *	HM_GROW_ROUNDS=N	default 200
 */
#include "common.h"

#include <pthread.h>
#include <sched.h>

#define NPAGES (2 * BLOCK)
#define STORERS 2u

/* cmocka's assertions work only in its own thread. */
#define check(cond) hm_assert(cond)

static struct env env;
static pthread_barrier_t barrier;
static pthread_mutex_t size_lock = PTHREAD_MUTEX_INITIALIZER;
static u32 rounds = 200;
static u32 storing; /* atomic: the storers that have not finished the round */

static void extend(u64 npages)
{
	pthread_mutex_lock(&size_lock);
	if (hm_file_size(env.file) < npages << HM_PAGE_SHIFT)
		hm_file_set_size(env.file, npages << HM_PAGE_SHIFT);
	pthread_mutex_unlock(&size_lock);
}

static void store_to(u64 page)
{
	const struct hm_access access = { .size = HM_SIZE_BASE, .write = true };
	struct hm_unit unit;
	enum hm_outcome out;

	extend(page + 1);
	while ((out = fault(env.file, page, access, &unit)) == HM_BUSY)
		sched_yield();
	check(out == HM_FILL || out == HM_ZERO || out == HM_HIT);
	if (out != HM_HIT)
		hm_fill_done(&unit, 0, true);
}

/* Storer 0 begins with the first page, and storer 1 with the first page of the rest. */
static void *run_storer(void *arg)
{
	u32 nr = arg != NULL, round;
	u64 i;

	hm_test_cpu = nr;
	hm_test_yield = 7 + 4 * nr;
	for (round = 0; round < rounds; round++) {
		pthread_barrier_wait(&barrier);
		for (i = 0; i < NPAGES; i++)
			store_to((i + nr * HM_FIRST_PAGES) % NPAGES);
		__atomic_sub_fetch(&storing, 1, __ATOMIC_RELEASE);
		pthread_barrier_wait(&barrier);
	}
	return NULL;
}

static void *run_looker(void *arg)
{
	u32 round;

	hm_test_cpu = STORERS;
	hm_test_yield = 13;
	for (round = 0; round < rounds; round++) {
		u64 page;

		pthread_barrier_wait(&barrier);
		for (page = 0; __atomic_load_n(&storing, __ATOMIC_ACQUIRE);
		     page = (page + 3) % NPAGES) {
			u64 first = hm_block_start(page), last = first + BLOCK - 1;
			struct hm_unit unit;
			enum hm_outcome out =
				hm_fault(env.file, page, HM_ACCESS(.cached_only = true), &unit);

			check(out != HM_HIT || unit.pgoff == page);
			if (hm_fault_around(env.file, page, &first, &last, &unit))
				check(first <= page && page <= last);
			hm_peek(env.file, page, &unit);
		}
		pthread_barrier_wait(&barrier);
	}
	return NULL;
}

static void test_file_grows_beside_lookups_stores_and_write_back(void **state)
{
	const char *value = getenv("HM_GROW_ROUNDS");
	pthread_t thread[STORERS + 1];
	u32 round, i;
	u64 page;

	if (value)
		rounds = (u32)strtoul(value, NULL, 0);
	frees_nodes = true;
	env_start(&env, 8, STORERS + 1, 0);
	pthread_barrier_init(&barrier, NULL, STORERS + 2);
	pthread_create(&thread[0], NULL, run_storer, NULL);
	pthread_create(&thread[1], NULL, run_storer, &env);
	pthread_create(&thread[2], NULL, run_looker, NULL);
	for (round = 0; round < rounds; round++) {
		hm_file_set_size(env.file, HM_PAGE_SIZE);
		storing = STORERS;
		pthread_barrier_wait(&barrier);
		while (__atomic_load_n(&storing, __ATOMIC_ACQUIRE))
			write_all(env.file);
		pthread_barrier_wait(&barrier);

		/* The audit finds a dirty page without its dirty bit. */
		audit(&env);
		write_all(env.file);
		for (page = 0; page < NPAGES; page++)
			assert_int_equal(state_of(env.file, page), HM_CLEAN);
		assert_int_equal(drop(env.file, 0, NPAGES, false), NPAGES);
	}
	for (i = 0; i <= STORERS; i++)
		pthread_join(thread[i], NULL);
	pthread_barrier_destroy(&barrier);
	env_end(&env);
}

static u32 splitting; /* atomic: the test still splits */
static u32 wrong;

static void *run_hole_reader(void *arg)
{
	(void)arg;
	hm_test_cpu = 1;
	while (__atomic_load_n(&splitting, __ATOMIC_ACQUIRE))
		wrong += !hm_is_zero_fill(env.file, HM_FIRST_PAGES);
	return NULL;
}

/* The file is one hole. A split of its first block sets the bits for holes of a new node. */
static void test_pages_without_words_stay_holes_during_a_split(void **state)
{
	u32 nrounds = 10 * rounds, n = 0, i;
	void **nodes = calloc(nrounds * HM_EMPTY_NODES, sizeof(*nodes));
	unsigned long holes[HM_BITMAP_LONGS(HM_NODE_SLOTS)];
	pthread_t thread;

	memset(holes, 0xff, sizeof(holes));
	env_start(&env, 8, 2, BYTES(4));
	add_node(env.file, 0, HM_NODE_HEAD, holes, NULL);
	/* The unit keeps the head in the index. */
	bring(env.file, BLOCK, HM_ACCESS(.size = HM_SIZE_HUGE));
	splitting = 1;
	pthread_create(&thread, NULL, run_hole_reader, NULL);
	for (i = 0; i < nrounds; i++) {
		bring(env.file, 0, HM_ACCESS(.size = HM_SIZE_BASE));
		assert_int_equal(drop(env.file, 0, 1, false), 1);
		n += hm_file_take_empty(env.file, 0, nodes + n);
	}
	__atomic_store_n(&splitting, 0, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
	assert_int_equal(n, nrounds);
	assert_int_equal(wrong, 0);
	/* The reader could use the nodes until now. */
	while (n-- > 0)
		free(nodes[n]);
	free(nodes);
	drop(env.file, 0, 2 * BLOCK, false);
	env_end(&env);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_file_grows_beside_lookups_stores_and_write_back),
		cmocka_unit_test(test_pages_without_words_stay_holes_during_a_split),
	};

	return cmocka_run_group_tests_name("grow", tests, NULL, NULL);
}
