// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "common.h"

_Thread_local u32 hm_test_cpu;
_Thread_local u32 hm_test_yield;
_Thread_local u32 hm_test_steps;

struct hm_options options_for(u32 frames, u32 cpus)
{
	struct hm_options opts;

	hm_options_init(&opts);
	opts.pool_frames = frames;
	opts.cpus = cpus;
	return opts;
}

void env_init(struct env *env, const struct hm_options *given)
{
	struct hm_options opts = *given;
	size_t bytes;

	memset(env, 0, sizeof(*env));
	hm_test_cpu = 0;
	assert_null(hm_options_check(&opts));
	bytes = (hm_cache_bytes(&opts) + 63) & ~(size_t)63;
	env->mem = aligned_alloc(64, bytes);
	assert_non_null(env->mem);
	memset(env->mem, 0, bytes);
	env->cache = hm_cache_init(env->mem, &opts);
	assert_non_null(env->cache);
}

struct hm_file *env_open(struct env *env, u64 bytes)
{
	size_t size = (hm_file_bytes() + 63) & ~(size_t)63;
	void *mem = aligned_alloc(64, size);
	struct hm_file *file;

	assert_true(env->nfiles < 16);
	memset(mem, 0, size);
	file = hm_file_init(env->cache, mem, bytes);
	assert_non_null(file);
	env->all[env->nfiles++] = file;
	if (!env->file)
		env->file = file;
	return file;
}

void env_start(struct env *env, u32 frames, u32 cpus, u64 file_bytes)
{
	struct hm_options opts = options_for(frames, cpus);

	env_init(env, &opts);
	env_open(env, file_bytes);
}

void env_close(struct env *env, struct hm_file *file)
{
	void *node;
	u64 index;
	u32 i;

	drop(file, 0, ~0ull, true);
	hm_file_destroy(file);
	/* The nodes of a closed file do not count, even if they are freed later. */
	index = hm_cache_index_bytes(env->cache);
	while ((node = hm_file_take_node(file)))
		free(node);
	assert_int_equal(hm_cache_index_bytes(env->cache), index);
	for (i = 0; env->all[i] != file; i++)
		assert_true(i + 1 < env->nfiles);
	env->all[i] = env->all[--env->nfiles];
	free(file);
}

void env_end(struct env *env)
{
	audit(env);
	while (env->nfiles)
		env_close(env, env->all[env->nfiles - 1]);
	assert_int_equal(hm_cache_dirty_pages(env->cache), 0);
	assert_int_equal(hm_pool_free(env->cache, HM_HUGE), env->cache->nframes);
	assert_int_equal(hm_pool_free(env->cache, HM_BASE), 0);
	assert_int_equal(hm_cache_index_bytes(env->cache), 0);
	frees_nodes = false;
	free(env->mem);
}

void add_node(struct hm_file *file, u64 pgoff, enum hm_node_kind kind,
	      const unsigned long *zero_fill, const unsigned long *needs_alloc)
{
	size_t size = (hm_node_bytes(kind) + 63) & ~(size_t)63;
	void *mem = aligned_alloc(64, size);

	memset(mem, 0, size);
	hm_file_prepare_node(file, pgoff, mem);
	if (!hm_file_add_node(file, pgoff, kind, mem, hm_file_size(file), zero_fill, needs_alloc))
		free(mem);
}

bool frees_nodes;

static void trim(struct hm_file *file, u64 pgoff)
{
	void *nodes[HM_EMPTY_NODES];
	u32 n = frees_nodes ? hm_file_take_empty(file, pgoff, nodes) : 0;

	while (n-- > 0)
		free(nodes[n]);
}

enum hm_outcome fault(struct hm_file *file, u64 pgoff, struct hm_access access,
		      struct hm_unit *unit)
{
	enum hm_outcome out;

	while ((out = hm_fault(file, pgoff, access, unit)) == HM_NO_NODE)
		add_node(file, pgoff, (enum hm_node_kind)unit->err, NULL, NULL);
	return out;
}

struct hm_unit bring(struct hm_file *file, u64 pgoff, struct hm_access access)
{
	struct hm_unit unit;
	enum hm_outcome out = fault(file, pgoff, access, &unit);

	assert_true(out == HM_FILL || out == HM_ZERO);
	assert_true(unit.pgoff <= pgoff && pgoff < unit.pgoff + unit.npages);
	assert_false(hm_fill_done(&unit, 0, access.write));
	return unit;
}

struct hm_unit touch(struct hm_file *file, u64 pgoff, struct hm_access access)
{
	struct hm_unit unit;

	assert_int_equal(fault(file, pgoff, access, &unit), HM_HIT);
	return unit;
}

bool use(struct hm_file *file, u64 pgoff, struct hm_access access)
{
	struct hm_unit unit;
	u32 rounds = 0;

	for (;;) {
		enum hm_outcome out = fault(file, pgoff, access, &unit);

		if (out == HM_HIT)
			return true;
		if (out == HM_FILL || out == HM_ZERO) {
			assert_false(hm_fill_done(&unit, 0, access.write));
			return false;
		}
		assert_int_equal(out, HM_NO_FRAME);
		assert_true(++rounds < 100);
		evict(file->cache, hm_access_is_base(access) ? HM_BASE : HM_HUGE, 1);
	}
}

bool around(struct hm_file *file, u64 pgoff, struct hm_unit *unit)
{
	u64 first = pgoff, last = pgoff;

	return hm_fault_around(file, pgoff, &first, &last, unit);
}

enum hm_state state_of(struct hm_file *file, u64 pgoff)
{
	struct hm_unit unit;

	return hm_peek(file, pgoff, &unit);
}

u32 reclaim(struct hm_cache *cache, enum hm_kind kind, u32 want, struct hm_victim *victims,
	    u32 *evicted)
{
	u32 n = hm_reclaim(cache, kind, want, victims, MAX_VICTIMS);
	u32 i;

	assert_true(n <= MAX_VICTIMS);
	for (i = 0; i < n; i++) {
		if (!victims[i].evict)
			continue;
		assert_int_equal(state_of(victims[i].unit.file, victims[i].unit.pgoff),
				 HM_EVICTING);
		if (victims[i].to != HM_NO_FRAME_ID) {
			assert_false(hm_move_done(&victims[i].unit, victims[i].to, true));
			continue;
		}
		assert_false(hm_evict_done(&victims[i].unit, HM_EVICTED));
		trim(victims[i].unit.file, victims[i].unit.pgoff);
		if (evicted)
			(*evicted)++;
	}
	return n;
}

u32 evict(struct hm_cache *cache, enum hm_kind kind, u32 want)
{
	struct hm_victim victims[MAX_VICTIMS];
	u32 evicted = 0, rounds = 0;

	while (evicted < want && reclaim(cache, kind, want - evicted, victims, &evicted))
		assert_true(++rounds < 10000);
	return evicted;
}

u32 write_range(struct hm_file *file, u64 start, u64 end)
{
	struct hm_run run;
	u32 runs = 0;
	enum hm_wb wb;

	while ((wb = hm_writeback(file, &start, end, 8 * HM_BLOCK_PAGES, true, &run)) ==
	       HM_WB_RUN) {
		hm_writeback_done(file, run.pgoff, run.npages, 0);
		runs++;
	}
	assert_int_equal(wb, HM_WB_DONE);
	return runs;
}

u32 write_all(struct hm_file *file)
{
	return write_range(file, 0, ~0ull);
}

u32 drop(struct hm_file *file, u64 start, u64 end, bool discard)
{
	enum hm_invalidated inv;
	struct hm_unit unit;
	u32 n = 0;

	while ((inv = hm_invalidate(file, &start, end, discard, &unit)) != HM_INV_DONE) {
		if (inv == HM_INV_AGAIN)
			continue;
		assert_int_equal(inv, HM_INV_UNIT);
		assert_false(hm_evict_done(&unit, discard ? HM_EVICT_DISCARD : HM_EVICTED));
		trim(file, unit.pgoff);
		n++;
	}
	return n;
}

/* --- the audit ---------------------------------------------------------------- */

struct sums {
	u8 *used; /* for each frame: 1: a unit has it; 2: it is on a free list */
	u64 dirty; /* pages */
	u64 queued;
};

static bool is_marked_dirty(const unsigned long *map, u32 slot)
{
	return hm_bit_test(map, slot);
}

static void audit_word(struct hm_file *file, struct hm_pos *pos, u64 word, struct sums *sums)
{
	struct hm_cache *cache = file->cache;
	enum hm_state state = hm_word_state(word);
	u32 frame = hm_word_frame(word);
	struct hm_desc *desc;

	if (state != HM_FILLING && !hm_state_resident(state))
		return;
	assert_true(frame < cache->nframes * (HM_BLOCK_PAGES + 1u));
	assert_int_equal(hm_frame_is_base(cache, frame), !!pos->base);
	assert_int_equal(sums->used[frame], 0); /* each frame belongs to one unit */
	sums->used[frame] = 1;
	desc = hm_desc_of(cache, frame);
	assert_ptr_equal(hm_ptr_read(&desc->word), pos->word);
	assert_ptr_equal(desc->file, file);
	assert_int_equal(desc->pgoff, pos->pgoff);
	if (state == HM_CLEAN)
		assert_true(hm_queued(desc)); /* else reclaim never finds it */
	if (state == HM_FILLING)
		assert_false(hm_queued(desc));
	if (hm_queued(desc)) {
		assert_ptr_equal(&cache->shards[hm_atomic_read(&desc->where) >> 8],
				 hm_shard_of(cache, file, pos->pgoff));
		sums->queued++;
	}
	if (state != HM_DIRTY && state != HM_WRITING)
		return;
	sums->dirty += hm_pos_pages(pos);
	if (pos->base)
		assert_true(is_marked_dirty(pos->base->dirty, pos->base_slot));
	assert_true(is_marked_dirty(pos->leaf->dirty, pos->leaf_slot));
	if (!pos->dir)
		return;
	assert_true(is_marked_dirty(pos->dir->dirty, pos->dir_slot));
	assert_true(is_marked_dirty(file->dirty, pos->root_slot));
}

static void audit_block(struct hm_file *file, u64 pgoff, struct sums *sums)
{
	struct hm_pos pos;
	u64 word, resident = 0;
	struct hm_base *base;
	bool split;
	u32 i;

	assert_true(hm_index_find(file, pgoff, &pos));
	pos.pgoff = pgoff;
	pos.word = &hm_pos_block(&pos)->word;
	word = hm_atomic_read(pos.word);
	split = hm_word_state(word) == HM_SPLIT;
	assert_int_not_equal(hm_word_state(word), HM_FROZEN);
	assert_int_not_equal(hm_word_state(word), HM_FAILED); /* failed blocks are split */
	audit_word(file, &pos, word, sums);
	base = hm_pos_block(&pos)->base;
	assert_true(base || !split);
	for (i = 0; base && i < hm_base_words(base, pgoff); i++) {
		assert_true(hm_index_find(file, pgoff + i, &pos));
		pos.base = base;
		pos.pgoff = pgoff + i;
		pos.word = hm_base_word(base, pgoff + i);
		word = hm_atomic_read(pos.word);
		assert_int_equal(hm_word_state(word) == HM_FROZEN, !split);
		audit_word(file, &pos, word, sums);
		resident += hm_word_state(word) != HM_FROZEN && hm_word_state(word) != HM_ABSENT;
	}
	if (base)
		assert_int_equal(hm_atomic_read(&base->resident), resident);
}

/* @blocks: the blocks of a leaf, from @first on */
static void audit_leaf(struct hm_file *file, struct hm_leaf *leaf, u64 first, u32 blocks,
		       struct sums *sums)
{
	u64 resident = 0;
	u32 nbase = 0, i;

	for (i = 0; i < blocks; i++) {
		if (leaf == file->head || first + i >= HM_HEAD_BLOCKS)
			audit_block(file, P(first + i), sums);
		resident += hm_word_state(hm_atomic_read(&leaf->block[i].word)) != HM_ABSENT;
		nbase += !!leaf->block[i].base;
	}
	assert_int_equal(hm_atomic_read(&leaf->resident), resident);
	assert_int_equal(leaf->nbase, nbase);
}

static void audit_file(struct hm_file *file, struct sums *sums)
{
	u64 before = sums->dirty;
	u32 i, j;

	if (file->head)
		audit_leaf(file, file->head, 0, HM_HEAD_BLOCKS, sums);
	for (i = 0; i < HM_NODE_SLOTS; i++) {
		struct hm_dir **dir = hm_file_dir(file, i);

		for (j = 0; dir && *dir && j < HM_NODE_SLOTS; j++)
			if ((*dir)->leaf[j])
				audit_leaf(file, (*dir)->leaf[j],
					   ((u64)i * HM_NODE_SLOTS + j) * HM_NODE_SLOTS,
					   HM_NODE_SLOTS, sums);
	}
	assert_int_equal(hm_file_dirty_pages(file), sums->dirty - before);
	/* A dirty file has a timestamp. Without one it would never expire. */
	assert_int_equal(hm_atomic_read(&file->dirty_since) != 0, sums->dirty != before);
}

/* Check the unit that reclaim takes for the oldest one of a queue. */
static void audit_oldest(struct hm_cache *cache, struct hm_shard *shard, u32 kind, u32 q)
{
	u32 tail = shard->list[kind][q].tail;
	u64 oldest = HM_NO_OLDEST;

	if (q == HM_Q_USE_ONCE)
		return;
	if (tail != HM_NO_FRAME_ID)
		oldest = (u64)tail << 32 | hm_desc_of(cache, tail)->stamp;
	assert_int_equal(hm_atomic_read(&shard->oldest[kind][q - HM_Q_PROBATION]), oldest);
}

/* Check the queues of a shard: links in both directions, counts, and @where of each frame. */
static u64 audit_queues(struct hm_cache *cache, struct hm_shard *shard)
{
	u64 queued = 0;
	u32 kind, q;

	for (kind = 0; kind < HM_KINDS; kind++) {
		for (q = HM_Q_PROBATION; q < HM_QUEUES; q++) {
			struct hm_list *list = &shard->list[kind][q];
			u32 frame = list->head, prev = HM_NO_FRAME_ID, n = 0;

			for (; frame != HM_NO_FRAME_ID; frame = hm_desc_of(cache, frame)->next) {
				struct hm_desc *desc = hm_desc_of(cache, frame);

				assert_int_equal(desc->prev, prev);
				assert_int_equal(hm_atomic_read(&desc->where),
						 hm_where(cache, shard, (enum hm_queue)q));
				assert_int_equal(hm_frame_is_base(cache, frame), kind == HM_BASE);
				assert_non_null(hm_ptr_read(&desc->word));
				prev = frame;
				n++;
			}
			assert_int_equal(list->tail, prev);
			assert_int_equal(hm_list_count(list), n);
			audit_oldest(cache, shard, kind, q);
			queued += n;
		}
	}
	return queued;
}

/* Check the free lists of a shard: they hold only its own frames, and each frame once. */
static void audit_pool(struct hm_cache *cache, u32 nr, struct sums *sums)
{
	struct hm_shard *shard = &cache->shards[nr];
	u64 huge = 0, base = 0;
	u32 frame, i;

	for (i = 0; i < HM_KINDS; i++) {
		for (frame = (u32)hm_atomic_read(&shard->free[i]); frame != HM_NO_FRAME_ID;
		     frame = cache->desc[frame].next) {
			assert_int_equal(frame % cache->nshards, nr);
			assert_int_equal(sums->used[frame], 0);
			sums->used[frame] = 2;
			assert_null(hm_ptr_read(&cache->desc[frame].word));
			assert_false(hm_queued(&cache->desc[frame]));
			assert_false(cache->container[frame].split);
			assert_int_equal(cache->container[frame].base_backed, i == HM_BASE);
			huge++;
		}
	}
	assert_int_equal(hm_atomic_read(&shard->nfree[HM_HUGE]), huge);
	for (frame = shard->partial; frame != HM_NO_FRAME_ID;
	     frame = cache->container[frame].next) {
		assert_int_equal(frame % cache->nshards, nr);
		assert_true(cache->container[frame].split && !cache->container[frame].isolated);
		assert_true(cache->container[frame].nfree > 0);
		base += cache->container[frame].nfree;
	}
	assert_int_equal(hm_atomic_read(&shard->nfree[HM_BASE]), base);
	for (frame = nr; frame < cache->nframes; frame += cache->nshards) {
		struct hm_container *container = &cache->container[frame];
		u32 nfree = 0;

		for (i = 0; i < HM_BLOCK_PAGES; i++) {
			u32 page = cache->nframes + (frame << HM_BLOCK_ORDER) + i;
			bool free =
				container->free[i / HM_BITS_PER_LONG] >> (i % HM_BITS_PER_LONG) & 1;

			nfree += free;
			assert_true(!free || i / HM_BITS_PER_LONG >= container->low);
			/* Each page of a split frame is free or used by a unit. */
			assert_int_equal(sums->used[page], container->split && !free);
		}
		assert_int_equal(container->nfree, nfree);
		/* A frame that is not split is used by a unit or on a free list. */
		assert_int_equal(sums->used[frame] != 0, !container->split);
	}
}

void audit(struct env *env)
{
	struct hm_cache *cache = env->cache;
	struct sums sums = { 0 };
	u64 queued = 0;
	u32 i;

	sums.used = calloc(cache->nframes, HM_BLOCK_PAGES + 1);
	for (i = 0; i < env->nfiles; i++)
		audit_file(env->all[i], &sums);
	for (i = 0; i < cache->nshards; i++) {
		queued += audit_queues(cache, &cache->shards[i]);
		audit_pool(cache, i, &sums);
	}
	assert_int_equal(queued, sums.queued);
	assert_int_equal(hm_cache_dirty_pages(cache), sums.dirty);
	free(sums.used);
}
