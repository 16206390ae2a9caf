// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* The index: nodes, and the largest file. */
#include "common.h"

#define FILE_MAX (HM_FILE_BLOCKS_MAX << HM_BLOCK_SHIFT)
#define LAST_PAGE ((HM_FILE_BLOCKS_MAX << HM_BLOCK_ORDER) - 1)

/* Faults request nodes from the top down, and only those on the path to their page. */
static void test_fault_requests_only_nodes_on_its_path(void **state)
{
	struct hm_unit unit;
	struct env env;
	u64 pgoff = P(HM_NODE_SLOTS) + 3; /* in the second leaf */

	env_start(&env, 8, 1, BYTES(4 * HM_NODE_SLOTS));
	assert_int_equal(hm_fault(env.file, pgoff, HM_ACCESS_READ, &unit), HM_NO_NODE);
	assert_int_equal(unit.err, HM_NODE_DIR);
	add_node(env.file, pgoff, HM_NODE_DIR, NULL, NULL);
	assert_int_equal(hm_fault(env.file, pgoff, HM_ACCESS_READ, &unit), HM_NO_NODE);
	assert_int_equal(unit.err, HM_NODE_LEAF);
	add_node(env.file, pgoff, HM_NODE_LEAF, NULL, NULL);
	assert_int_equal(hm_fault(env.file, pgoff, HM_ACCESS(.size = HM_SIZE_BASE), &unit),
			 HM_NO_NODE);
	assert_int_equal(unit.err, HM_NODE_BASE);
	/* A huge unit needs no base node. */
	assert_int_equal(hm_fault(env.file, pgoff, HM_ACCESS_READ, &unit), HM_FILL);
	assert_false(hm_fill_done(&unit, 0, false));
	/* Another leaf of the same directory needs a leaf only. */
	assert_int_equal(hm_fault(env.file, P(2 * HM_NODE_SLOTS), HM_ACCESS_READ, &unit),
			 HM_NO_NODE);
	assert_int_equal(unit.err, HM_NODE_LEAF);
	/* The first blocks need neither a directory nor a leaf. */
	assert_int_equal(hm_fault(env.file, P(HM_HEAD_BLOCKS), HM_ACCESS_READ, &unit), HM_NO_NODE);
	assert_int_equal(unit.err, HM_NODE_LEAF);
	assert_int_equal(hm_fault(env.file, P(HM_HEAD_BLOCKS) - 1, HM_ACCESS_READ, &unit),
			 HM_NO_NODE);
	assert_int_equal(unit.err, HM_NODE_HEAD);
	env_end(&env);
}

/*
 * Two threads add the same node. The second one keeps its memory, and the node of the first one
 * keeps its contents.
 */
static void test_second_of_two_equal_nodes_is_refused(void **state)
{
	const u64 far = P(HM_NODE_SLOTS);
	struct env env;
	u32 kind;

	env_start(&env, 8, 1, BYTES(HM_NODE_SLOTS + 4));
	bring(env.file, 0, HM_ACCESS(.size = HM_SIZE_BASE));
	bring(env.file, far, HM_ACCESS(.size = HM_SIZE_BASE));
	bring(env.file, BLOCK - 1, HM_ACCESS(.size = HM_SIZE_BASE));
	for (kind = HM_NODE_DIR; kind <= HM_NODE_REST; kind++) {
		void *mem = calloc(1, hm_node_bytes((enum hm_node_kind)kind));
		bool first = kind == HM_NODE_HEAD || kind > HM_NODE_BASE;

		assert_false(hm_file_add_node(env.file, first ? 0 : far, (enum hm_node_kind)kind,
					      mem, hm_file_size(env.file), NULL, NULL));
		free(mem);
	}
	assert_int_equal(state_of(env.file, BLOCK - 1), HM_CLEAN);
	assert_int_equal(state_of(env.file, 0), HM_CLEAN);
	assert_int_equal(state_of(env.file, far), HM_CLEAN);
	env_end(&env);
}

/* hm_file_take_node() returns every node once. */
static void test_each_node_is_returned_once(void **state)
{
	struct env env;
	void *seen[8], *node;
	struct hm_file *file;
	u32 n = 0, i;

	env_start(&env, 8, 1, BYTES(4));
	file = env_open(&env, FILE_MAX);
	bring(file, 1, HM_ACCESS(.size = HM_SIZE_BASE)); /* head, base */
	bring(file, P(HM_NODE_SLOTS), HM_ACCESS_READ); /* dir, leaf */
	bring(file, LAST_PAGE - HM_BLOCK_PAGES, HM_ACCESS_READ); /* root, dir, leaf */
	drop(file, 0, ~0ull, true);
	hm_file_destroy(file);
	while ((node = hm_file_take_node(file))) {
		assert_true(n < 8);
		for (i = 0; i < n; i++)
			assert_ptr_not_equal(seen[i], node);
		seen[n++] = node;
	}
	assert_int_equal(n, 7);
	for (i = 0; i < n; i++)
		free(seen[i]);
	env.all[1] = NULL;
	env.nfiles = 1;
	free(file);
	env_end(&env);
}

/*
 * Pages of different blocks, leaves and directories have different words. A slot computed from the
 * wrong bits would fail this.
 */
static void test_every_page_has_its_own_word(void **state)
{
	u64 pages[] = {
		0,
		P(1),
		P(HM_NODE_SLOTS - 1),
		P(HM_NODE_SLOTS),
		P((u64)HM_NODE_SLOTS * HM_NODE_SLOTS - 1),
		P((u64)HM_NODE_SLOTS * HM_NODE_SLOTS),
		P((u64)HM_NODE_SLOTS * HM_NODE_SLOTS + HM_NODE_SLOTS + 1),
		LAST_PAGE - HM_BLOCK_PAGES,
	};
	struct hm_unit unit;
	struct env env;
	u32 i, j;

	env_start(&env, 16, 1, FILE_MAX);
	for (i = 0; i < 8; i++) {
		unit = bring(env.file, pages[i], HM_ACCESS_WRITE);
		assert_int_equal(unit.pgoff, pages[i] & ~(BLOCK - 1));
		for (j = i + 1; j < 8; j++)
			assert_int_equal(state_of(env.file, pages[j]), HM_ABSENT);
		audit(&env);
	}
	for (i = 0; i < 8; i++) {
		unit = touch(env.file, pages[i], HM_ACCESS_READ);
		assert_int_equal(unit.pgoff, pages[i] & ~(BLOCK - 1));
	}
	/* The dirty walk finds all of them in offset order. */
	for (i = 0, j = 0; i < 8; j++) {
		struct hm_run run;
		u64 pos = pages[i] & ~(BLOCK - 1);
		u64 start = i ? (pages[i - 1] & ~(BLOCK - 1)) + BLOCK : 0;

		assert_int_equal(hm_writeback(env.file, &start, ~0ull, HM_BLOCK_PAGES, true, &run),
				 HM_WB_RUN);
		assert_int_equal(run.pgoff, pos);
		hm_writeback_done(env.file, run.pgoff, run.npages, 0);
		i++;
	}
	env_end(&env);
}

static void test_last_page_of_largest_file_is_usable(void **state)
{
	void *mem = calloc(1, hm_file_bytes() + 64);
	struct hm_unit unit;
	struct env env;

	env_start(&env, 8, 1, FILE_MAX);
	assert_null(hm_file_init(env.cache, mem, FILE_MAX + 1));
	assert_false(hm_file_set_size(env.file, FILE_MAX + 1));
	assert_int_equal(hm_file_size(env.file), FILE_MAX);
	bring(env.file, LAST_PAGE, HM_ACCESS_WRITE);
	assert_int_equal(state_of(env.file, LAST_PAGE), HM_DIRTY);
	assert_int_equal(hm_fault(env.file, LAST_PAGE + 1, HM_ACCESS_READ, &unit), HM_BEYOND);
	assert_int_equal(write_all(env.file), 1);
	assert_int_equal(drop(env.file, 0, ~0ull, false), 1);
	env_end(&env);
	free(mem);
}

/* There is no limit but memory. Files may be closed in any order. */
static void test_any_number_of_files_can_be_open(void **state)
{
	enum {
		FILES = 70000
	};
	size_t size = (hm_file_bytes() + 63) & ~(size_t)63;
	struct hm_file **files = calloc(FILES, sizeof(*files));
	char *mem = aligned_alloc(64, size * FILES);
	bool expired;
	struct env env;
	u32 i;

	memset(mem, 0, size * FILES);
	env_start(&env, 8, 1, BYTES(1));
	for (i = 0; i < FILES; i++) {
		files[i] = hm_file_init(env.cache, mem + i * size, BYTES(1));
		assert_non_null(files[i]);
	}
	for (i = 0; i < FILES; i += 2)
		hm_file_destroy(files[i]);
	assert_null(hm_writeback_pick(env.cache, NULL, &expired));
	for (i = 1; i < FILES; i += 2)
		hm_file_destroy(files[i]);
	assert_null(hm_writeback_pick(env.cache, NULL, &expired));
	env_end(&env);
	free(files);
	free(mem);
}

/* The last unit of a node takes it along. The file can be used as before. */
static void test_nodes_without_units_are_freed(void **state)
{
	struct hm_unit unit;
	struct env env;
	const u64 far = P(HM_NODE_SLOTS);
	u64 dir;

	frees_nodes = true;
	env_start(&env, 8, 1, BYTES(2 * HM_NODE_SLOTS));
	bring(env.file, far + P(1), HM_ACCESS(.size = HM_SIZE_BASE));
	dir = hm_node_bytes(HM_NODE_DIR);
	bring(env.file, far + P(1) + 1, HM_ACCESS(.size = HM_SIZE_BASE));
	bring(env.file, far + P(2), HM_ACCESS_READ);
	assert_int_equal(hm_cache_index_bytes(env.cache),
			 dir + hm_node_bytes(HM_NODE_LEAF) + hm_node_bytes(HM_NODE_BASE));
	drop(env.file, far + P(1), far + P(1) + 1, false);
	assert_int_equal(hm_cache_index_bytes(env.cache),
			 dir + hm_node_bytes(HM_NODE_LEAF) + hm_node_bytes(HM_NODE_BASE));
	drop(env.file, far + P(1) + 1, far + P(2), false);
	assert_int_equal(hm_cache_index_bytes(env.cache), dir + hm_node_bytes(HM_NODE_LEAF));
	assert_int_equal(state_of(env.file, far + P(1)), HM_ABSENT);
	drop(env.file, far + P(2), far + P(3), false);
	assert_int_equal(hm_cache_index_bytes(env.cache), dir);
	assert_int_equal(hm_fault(env.file, far + P(1), HM_ACCESS_READ, &unit), HM_NO_NODE);
	assert_int_equal(unit.err, HM_NODE_LEAF);
	bring(env.file, far + P(1), HM_ACCESS(.size = HM_SIZE_BASE, .write = true));
	assert_int_equal(write_all(env.file), 1);

	/* The same for the head. */
	bring(env.file, 0, HM_ACCESS(.size = HM_SIZE_BASE));
	dir = hm_cache_index_bytes(env.cache) - hm_node_bytes(HM_NODE_HEAD) -
	      hm_node_bytes(HM_NODE_FIRST);
	bring(env.file, BLOCK - 1, HM_ACCESS(.size = HM_SIZE_BASE));
	assert_int_equal(hm_cache_index_bytes(env.cache), dir + hm_node_bytes(HM_NODE_HEAD) +
								  hm_node_bytes(HM_NODE_FIRST) +
								  hm_node_bytes(HM_NODE_REST));
	drop(env.file, 0, BLOCK, false);
	assert_int_equal(hm_cache_index_bytes(env.cache), dir);
	assert_int_equal(hm_fault(env.file, 0, HM_ACCESS_READ, &unit), HM_NO_NODE);
	assert_int_equal(unit.err, HM_NODE_HEAD);
	env_end(&env);
}

/* Bring a page in and drop it. The list of empty nodes must have room for its nodes. */
static void come_and_go(struct env *env, u64 pgoff)
{
	bring(env->file, pgoff, HM_ACCESS(.size = HM_SIZE_BASE));
	drop(env->file, pgoff, pgoff + 1, true);
	assert_true(hm_file_keep_empty(env->file, pgoff));
}

static void free_empty_nodes(struct env *env)
{
	void *nodes[HM_EMPTY_NODES];
	u32 n;

	while (hm_cache_take_empty(env->cache, nodes, &n))
		while (n-- > 0)
			free(nodes[n]);
	assert_int_equal(hm_cache_empty_count(env->cache), 0);
}

/*
 * Sparse pages come and go until the index is too large. Their nodes are in the list, and not those
 * of cached pages. A dense load then uses some of them again, and the others are freed.
 */
static void test_empty_nodes_are_listed_until_used_again_or_freed(void **state)
{
	u64 blocks, i, kept;
	struct env env;

	env_start(&env, 8, 1, FILE_MAX);
	blocks = env.cache->index_limit / hm_node_bytes(HM_NODE_BASE);
	for (i = 0; i < blocks; i++)
		come_and_go(&env, P(i) + BLOCK - 1);
	assert_true(hm_cache_index_excess(env.cache));
	assert_int_equal(hm_cache_empty_count(env.cache), blocks);

	kept = hm_cache_index_bytes(env.cache);
	for (i = 0; i < 2 * BLOCK; i++)
		bring(env.file, i, HM_ACCESS(.size = HM_SIZE_BASE));
	assert_int_equal(hm_cache_index_bytes(env.cache), kept);
	assert_int_equal(hm_cache_empty_bytes(env.cache),
			 (blocks - 2) * hm_node_bytes(HM_NODE_BASE));
	free_empty_nodes(&env);
	assert_int_equal(hm_cache_index_excess(env.cache), 0);
	assert_int_equal(hm_cache_index_bytes(env.cache),
			 hm_node_bytes(HM_NODE_DIR) + hm_node_bytes(HM_NODE_HEAD) +
				 hm_node_bytes(HM_NODE_FIRST) + hm_node_bytes(HM_NODE_REST) +
				 hm_node_bytes(HM_NODE_BASE));
	for (i = 0; i < 2 * BLOCK; i++)
		touch(env.file, i, HM_ACCESS(.size = HM_SIZE_BASE));
	env_end(&env);
}

/* A full list takes no other place, and a file that is closed leaves the list. */
static void test_list_of_empty_nodes_is_bounded(void **state)
{
	struct hm_file *other;
	struct env env;
	u64 i;

	env_start(&env, 8, 1, FILE_MAX);
	other = env_open(&env, BYTES(2));
	bring(other, 0, HM_ACCESS_READ);
	drop(other, 0, P(1), true);
	assert_true(hm_file_keep_empty(other, 0));
	for (i = 0; hm_cache_empty_count(env.cache) < HM_EMPTY_MAX * 3 / 4; i++)
		come_and_go(&env, P(i));
	bring(env.file, P(i), HM_ACCESS(.size = HM_SIZE_BASE));
	drop(env.file, P(i), P(i) + 1, true);
	assert_false(hm_file_keep_empty(env.file, P(i)));
	/* A node with a unit needs no place. */
	bring(env.file, P(i), HM_ACCESS(.size = HM_SIZE_BASE));
	assert_true(hm_file_keep_empty(env.file, P(i)));
	/* Its place is not added again: two faults that wait may repeat their places in turns. */
	assert_true(hm_file_keep_empty(env.file, P(i - 2)));
	assert_true(hm_file_keep_empty(env.file, P(i - 1)));

	env_close(&env, other);
	assert_int_equal(hm_cache_empty_count(env.cache), HM_EMPTY_MAX * 3 / 4 - 1);
	free_empty_nodes(&env);
	env_close(&env, env.all[0]);
	assert_int_equal(hm_cache_empty_count(env.cache), 0);
	env_end(&env);
}

/*
 * CPU 0 marks a node as dead for its removal, finds a promotion, and undoes the mark. CPU 1 has
 * promoted the block, and looks for empty nodes in between: it must not take the mark for a unit,
 * or the node is in no list and is not removed.
 */
static void test_dead_mark_is_no_unit(void **state)
{
	struct hm_base *base;
	struct env env;

	env_start(&env, 8, 1, BYTES(4));
	bring(env.file, P(1), HM_ACCESS(.size = HM_SIZE_BASE));
	drop(env.file, P(1), P(2), true);
	base = env.file->head->block[1].base;
	hm_atomic_add(&base->resident, (s64)HM_NODE_DEAD);
	assert_true(hm_file_keep_empty(env.file, P(1)));
	hm_atomic_add(&base->resident, -(s64)HM_NODE_DEAD);
	assert_int_equal(hm_cache_empty_bytes(env.cache), hm_node_bytes(HM_NODE_BASE));
	free_empty_nodes(&env);
	env_end(&env);
}

static enum hm_invalidated discard_next(struct hm_file *file, u64 *at, struct hm_unit *unit)
{
	enum hm_invalidated found;

	do
		found = hm_invalidate(file, at, ~0ull, true, unit);
	while (found == HM_INV_AGAIN);
	return found;
}

/* A full list stops the invalidation of failed pages, so that the caller can free their nodes. */
static void test_full_list_stops_invalidation(void **state)
{
	struct hm_unit unit;
	struct env env;
	u64 i, at = 0;

	env_start(&env, 8, 1, FILE_MAX);
	for (i = 0; i <= HM_EMPTY_MAX; i++) {
		assert_int_equal(fault(env.file, P(i), HM_ACCESS(.size = HM_SIZE_BASE), &unit),
				 HM_FILL);
		/* A task waits, so the page stays as failed. */
		assert_int_equal(hm_fault(env.file, P(i), HM_ACCESS_READ, &unit), HM_BUSY);
		assert_true(hm_fill_done(&unit, -EIO, false));
	}
	assert_int_equal(discard_next(env.file, &at, &unit), HM_INV_BUSY);
	assert_int_equal(at, P(HM_EMPTY_MAX));
	assert_false(hm_file_keep_empty(env.file, at));
	assert_int_equal(discard_next(env.file, &at, &unit), HM_INV_DONE);
	env_end(&env);
}

/* A fill that is given up, or fails, leaves its nodes in the list. */
static void test_nodes_of_failed_fills_are_listed(void **state)
{
	struct hm_unit unit;
	struct env env;

	env_start(&env, 8, 1, BYTES(4));
	assert_int_equal(fault(env.file, P(1), HM_ACCESS(.size = HM_SIZE_BASE), &unit), HM_FILL);
	assert_false(hm_fill_cancel(&unit));
	assert_int_equal(hm_cache_empty_count(env.cache), 1);
	assert_int_equal(fault(env.file, P(2), HM_ACCESS(.size = HM_SIZE_BASE), &unit), HM_FILL);
	assert_false(hm_fill_done(&unit, -EIO, false));
	assert_int_equal(hm_cache_empty_count(env.cache), 2);
	free_empty_nodes(&env);
	assert_int_equal(hm_cache_index_bytes(env.cache), 0);
	env_end(&env);
}

/*
 * A leaf is prepared while all blocks are holes. Then another leaf is added there, a hole gets
 * data, and the leaf is removed. The prepared leaf is refused: it would hide the data.
 */
static void test_leaf_from_before_a_write_is_refused(void **state)
{
	unsigned long holes[HM_BITMAP_LONGS(HM_NODE_SLOTS)];
	enum hm_size sizes[] = { HM_SIZE_HUGE, HM_SIZE_BASE };
	struct hm_leaf *leaf;
	struct hm_unit unit;
	struct env env;
	u32 i;

	memset(holes, 0xff, sizeof(holes));
	frees_nodes = true;
	for (i = 0; i < 2; i++) {
		env_start(&env, 8, 1, BYTES(2 * HM_NODE_SLOTS));
		leaf = calloc(1, sizeof(*leaf));
		hm_file_prepare_node(env.file, P(1), leaf);
		add_node(env.file, P(1), HM_NODE_HEAD, holes, NULL);
		assert_int_equal(fault(env.file, P(1), HM_ACCESS(.size = sizes[i]), &unit),
				 HM_ZERO);
		assert_false(hm_fill_done(&unit, 0, true));
		assert_int_equal(write_all(env.file), 1);
		drop(env.file, 0, ~0ull, false);
		assert_false(hm_file_add_node(env.file, P(1), HM_NODE_HEAD, leaf,
					      hm_file_size(env.file), holes, NULL));
		add_node(env.file, P(1), HM_NODE_HEAD, NULL, NULL);
		assert_int_equal(fault(env.file, P(1), HM_ACCESS_READ, &unit), HM_FILL);
		assert_false(hm_fill_done(&unit, 0, false));
		free(leaf);
		env_end(&env);
		frees_nodes = true;
	}
	frees_nodes = false;
}

/* A late marker sets the dirty bits above a unit after its nodes were removed. */
static void test_dirty_bit_without_a_leaf_is_stale(void **state)
{
	struct hm_run run;
	struct env env;
	u64 at = 0;

	frees_nodes = true;
	env_start(&env, 8, 1, BYTES(2 * HM_NODE_SLOTS));
	bring(env.file, P(HM_HEAD_BLOCKS), HM_ACCESS_READ);
	drop(env.file, 0, ~0ull, false);
	hm_bit_set(env.file->first_dir->dirty, 0);
	hm_bit_set(env.file->dirty, 0);
	assert_int_equal(hm_writeback(env.file, &at, ~0ull, HM_BLOCK_PAGES, true, &run),
			 HM_WB_DONE);
	assert_false(hm_bit_test(env.file->first_dir->dirty, 0));
	env_end(&env);
}

/*
 * Pages at random in a file of 10 TB, in a pool of 4 GB (the small build: in its largest file): the
 * index stays within 1/64 of the pool, 64 MB.
 */
static void random_touches_keep_the_index_small(enum hm_size size)
{
	enum {
		FRAMES = 2048,
		TOUCHES = 200000
	};
	u64 bytes = 10ull << 40 < FILE_MAX ? 10ull << 40 : FILE_MAX, random = 1, max = 0;
	struct env env;
	u32 i;

	frees_nodes = true;
	env_start(&env, FRAMES, 1, bytes);
	for (i = 0; i < TOUCHES; i++) {
		struct hm_access access = HM_ACCESS(.size = size, .order = HM_ORDER_RANDOM);

		random = random * 6364136223846793005ull + 1442695040888963407ull;
		use(env.file, (random >> 20) % (bytes >> HM_PAGE_SHIFT), access);
		while (hm_reclaim_want(env.cache, HM_BASE))
			assert_true(evict(env.cache, HM_BASE, 1));
		if (hm_cache_index_bytes(env.cache) > max)
			max = hm_cache_index_bytes(env.cache);
	}
	assert_true(max <= env.cache->index_limit + hm_node_bytes(HM_NODE_ROOT) +
				   hm_node_bytes(HM_NODE_DIR) + hm_node_bytes(HM_NODE_LEAF) +
				   hm_node_bytes(HM_NODE_BASE));
	print_message("%llu KB of index, limit %llu KB\n", (unsigned long long)max >> 10,
		      (unsigned long long)env.cache->index_limit >> 10);
	env_end(&env);
}

static void test_random_pages_of_a_huge_file_keep_the_index_small(void **state)
{
	random_touches_keep_the_index_small(HM_SIZE_AUTO);
	random_touches_keep_the_index_small(HM_SIZE_BASE);
}

static void test_random_blocks_of_a_huge_file_keep_the_index_small(void **state)
{
	random_touches_keep_the_index_small(HM_SIZE_HUGE);
}

/* A node that was prepared for another file size is refused, as it lacks newer holes. */
static void test_node_of_old_file_size_is_refused(void **state)
{
	const unsigned long none[HM_BITMAP_LONGS(HM_BLOCK_PAGES)] = { 0 };
	struct hm_unit unit;
	struct env env;
	void *mem;

	env_start(&env, 8, 1, BYTES(1) + HM_PAGE_SIZE);
	mem = aligned_alloc(64, (hm_node_bytes(HM_NODE_BASE) + 63) & ~(size_t)63);
	memset(mem, 0, hm_node_bytes(HM_NODE_BASE));
	add_node(env.file, 0, HM_NODE_HEAD, NULL, NULL);
	hm_file_set_size(env.file, BYTES(2));
	hm_file_set_zero_fill(env.file, P(1) + 1, BLOCK - 1, true);
	assert_false(hm_file_add_node(env.file, P(1), HM_NODE_BASE, mem, BYTES(1) + HM_PAGE_SIZE,
				      NULL, NULL));
	/* The size is right, but the bitmap is from before the holes. */
	assert_true(hm_file_add_node(env.file, P(1), HM_NODE_BASE, mem, BYTES(2), NULL, none));
	assert_int_equal(fault(env.file, P(1) + 2, HM_ACCESS(.size = HM_SIZE_BASE), &unit),
			 HM_FILL);
	assert_true(hm_needs_alloc(env.file, P(1) + 2));
	assert_false(hm_fill_done(&unit, 0, false));
	env_end(&env);
}

/*
 * A writer that appends does not delay the nodes in front of the end: each of them is added at the
 * first attempt, although the size has changed since its holes were looked up. A node is refused if
 * the end was within its range, whether the file grew or shrank.
 */
static void test_appender_does_not_delay_nodes_in_front_of_end(void **state)
{
	static const enum hm_node_kind kinds[] = { HM_NODE_DIR, HM_NODE_LEAF, HM_NODE_BASE };
	const u64 leaf = BYTES(HM_NODE_SLOTS);
	void *mem;
	struct env env;
	u32 i;

	env_start(&env, 8, 1, 2 * leaf + BYTES(1));
	for (i = 0; i < 3; i++) {
		size_t bytes = (hm_node_bytes(kinds[i]) + 63) & ~(size_t)63;
		u64 size = hm_file_size(env.file);

		mem = memset(aligned_alloc(64, bytes), 0, bytes);
		hm_file_set_size(env.file, size + 100);
		assert_true(hm_file_add_node(env.file, P(HM_HEAD_BLOCKS), kinds[i], mem, size, NULL,
					     NULL));
	}
	/* The base node of the block at the end of the file, and the leaf in front of a cut. */
	add_node(env.file, 2 * P(HM_NODE_SLOTS), HM_NODE_LEAF, NULL, NULL);
	mem = malloc(hm_node_bytes(HM_NODE_LEAF));
	assert_false(hm_file_add_node(env.file, 2 * P(HM_NODE_SLOTS) + P(1), HM_NODE_BASE, mem,
				      2 * leaf + BYTES(1), NULL, NULL));
	hm_file_set_size(env.file, leaf);
	assert_false(hm_file_add_node(env.file, P(HM_NODE_SLOTS), HM_NODE_LEAF, mem, leaf + 1, NULL,
				      NULL));
	assert_false(hm_file_add_node(env.file, P(HM_NODE_SLOTS), HM_NODE_LEAF, mem, 3 * leaf, NULL,
				      NULL));
	free(mem);
	env_end(&env);
}

/* hm_file_set_zero_fill() skips blocks without a leaf, as the leaf brings its own bitmap. */
static void test_blocks_without_leaf_are_skipped(void **state)
{
	struct hm_unit unit;
	struct env env;

	env_start(&env, 8, 1, BYTES(3 * HM_NODE_SLOTS));
	bring(env.file, 0, HM_ACCESS_READ);
	bring(env.file, P(2 * HM_NODE_SLOTS), HM_ACCESS_READ);
	drop(env.file, 0, ~0ull, true);
	/* The leaf in the middle of the range is missing. */
	hm_file_set_zero_fill(env.file, P(1), P(2 * HM_NODE_SLOTS), true);
	assert_false(hm_is_zero_fill(env.file, 0));
	assert_true(hm_is_zero_fill(env.file, P(1)));
	assert_true(hm_is_zero_fill(env.file, P(HM_HEAD_BLOCKS - 1)));
	assert_true(hm_is_zero_fill(env.file, P(2 * HM_NODE_SLOTS)));
	assert_false(hm_is_zero_fill(env.file, P(2 * HM_NODE_SLOTS + 1)));
	assert_int_equal(fault(env.file, P(HM_NODE_SLOTS), HM_ACCESS_READ, &unit), HM_FILL);
	assert_false(hm_fill_done(&unit, 0, false));
	/* A block that was split as a hole gets data: this applies to all its pages. */
	assert_int_equal(fault(env.file, P(1), HM_ACCESS(.size = HM_SIZE_BASE), &unit), HM_ZERO);
	assert_false(hm_fill_done(&unit, 0, false));
	drop(env.file, P(1), P(2), true);
	hm_file_set_zero_fill(env.file, P(1), BLOCK, false);
	assert_int_equal(fault(env.file, P(1) + 1, HM_ACCESS(.size = HM_SIZE_BASE), &unit),
			 HM_FILL);
	assert_false(hm_fill_done(&unit, 0, false));
	env_end(&env);
}

/* hm_peek(), hm_referenced() and others on pages without nodes. */
static void test_peek_works_without_nodes(void **state)
{
	struct hm_unit unit;
	struct env env;

	env_start(&env, 8, 1, FILE_MAX);
	assert_int_equal(hm_peek(env.file, LAST_PAGE, &unit), HM_ABSENT);
	assert_int_equal(unit.frame, HM_NO_FRAME_ID);
	assert_int_equal(unit.pgoff, LAST_PAGE + 1 - BLOCK);
	assert_false(hm_referenced(env.file, 5));
	assert_false(hm_is_zero_fill(env.file, 5));
	assert_false(around(env.file, 5, &unit));
	env_end(&env);
}

#define LINE(type, field) (offsetof(struct type, field) / 64)
#define LAST_LINE(type, field) \
	((offsetof(struct type, field) + sizeof(((struct type *)NULL)->field) - 1) / 64)

/* The fields that every fault reads share no cache line with frequently written fields. */
static void test_read_mostly_fields_share_no_written_line(void **state)
{
	assert_true(LAST_LINE(hm_cache, clock) < LINE(hm_cache, evict_cursor));
	assert_true(LAST_LINE(hm_cache, ghosts) < LINE(hm_cache, evict_cursor));
	assert_true(LAST_LINE(hm_cache, desc) < LINE(hm_cache, evict_cursor));
	assert_true(LAST_LINE(hm_cache, container) < LINE(hm_cache, evict_cursor));
	assert_true(LAST_LINE(hm_cache, shards) < LINE(hm_cache, evict_cursor));
	assert_true(LAST_LINE(hm_cache, ghost_clock) < LINE(hm_cache, evict_cursor));
	assert_true(LINE(hm_cache, evict_cursor) < LINE(hm_cache, files_lock));

	assert_true(LAST_LINE(hm_file, cache) < LINE(hm_file, dirty_counter));
	assert_true(LAST_LINE(hm_file, size) < LINE(hm_file, dirty_counter));
	assert_true(LAST_LINE(hm_file, needs_alloc) < LINE(hm_file, dirty_counter));
	assert_true(LAST_LINE(hm_file, needs_alloc) < LINE(hm_file, stream_lock));
	assert_true(LAST_LINE(hm_file, dirty_since) < LINE(hm_file, dirty_lock));
	assert_true(LAST_LINE(hm_file, stream) < LINE(hm_file, node_lock));
	assert_true(LAST_LINE(hm_file, root) < LINE(hm_file, dirty_counter));
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_fault_requests_only_nodes_on_its_path),
	cmocka_unit_test(test_second_of_two_equal_nodes_is_refused),
	cmocka_unit_test(test_each_node_is_returned_once),
	cmocka_unit_test(test_every_page_has_its_own_word),
	cmocka_unit_test(test_last_page_of_largest_file_is_usable),
	cmocka_unit_test(test_any_number_of_files_can_be_open),
	cmocka_unit_test(test_nodes_without_units_are_freed),
	cmocka_unit_test(test_empty_nodes_are_listed_until_used_again_or_freed),
	cmocka_unit_test(test_list_of_empty_nodes_is_bounded),
	cmocka_unit_test(test_dead_mark_is_no_unit),
	cmocka_unit_test(test_full_list_stops_invalidation),
	cmocka_unit_test(test_nodes_of_failed_fills_are_listed),
	cmocka_unit_test(test_leaf_from_before_a_write_is_refused),
	cmocka_unit_test(test_dirty_bit_without_a_leaf_is_stale),
	cmocka_unit_test(test_random_pages_of_a_huge_file_keep_the_index_small),
	cmocka_unit_test(test_random_blocks_of_a_huge_file_keep_the_index_small),
	cmocka_unit_test(test_node_of_old_file_size_is_refused),
	cmocka_unit_test(test_appender_does_not_delay_nodes_in_front_of_end),
	cmocka_unit_test(test_blocks_without_leaf_are_skipped),
	cmocka_unit_test(test_peek_works_without_nodes),
	cmocka_unit_test(test_read_mostly_fields_share_no_written_line),
};

int main(void)
{
	return cmocka_run_group_tests_name("index", tests, NULL, NULL);
}
