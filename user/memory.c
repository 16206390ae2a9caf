// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The memory of a pool: the slots, and what is known of each frame. All of it
 * is taken when the pool is made; none of it is passed on to children, since a
 * page that fork() shares could never be moved again.
 */
#include "frames.h"
#include "linux.h"
#include "reason.h"
#include "uffd.h"

#include <errno.h>
#include <stdlib.h>

enum {
	MEM_SLOTS,
	MEM_CACHE,
	MEM_PLACES,
	MEM_HASHES,
	MEM_POPULATED,
	MEM_PIECES,
};

struct memory {
	void *at[MEM_PIECES];
	size_t bytes[MEM_PIECES];
};

/*
 * Address space; NULL if there is none. mlockall(2) with MCL_FUTURE would fill it, and
 * what is there already is not asked of us: it is never locked, and not accessible, so that
 * nothing is filled, until it is not. Nor may KSM have it (prctl(PR_SET_MEMORY_MERGE) is
 * inherited): it takes the protection away from a page, so that a store goes unseen.
 */
void *memory_reserve(size_t bytes)
{
	void *at = sys_mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
			    0);

	if (sys_error(at))
		return NULL;
	sys_madvise(at, bytes, MADV_UNMERGEABLE); /* a kernel without KSM refuses */
	if (!sys_munlock(at, bytes) && !sys_mprotect(at, bytes, PROT_READ | PROT_WRITE))
		return at;
	sys_munmap(at, bytes);
	return NULL;
}

static void *take(struct memory *memory, u32 piece, size_t bytes)
{
	void *at = memory_reserve(bytes);

	if (!at)
		return NULL;
	memory->at[piece] = at;
	memory->bytes[piece] = bytes;
	return at;
}

void memory_destroy(struct pool *pool)
{
	struct memory *memory = pool->memory;
	u32 i;

	if (!memory)
		return;
	for (i = 0; i < MEM_PIECES; i++)
		if (memory->at[i])
			sys_munmap(memory->at[i], memory->bytes[i]);
	free(memory);
	pool->memory = NULL;
}

static int take_all(struct pool *pool, struct memory *memory, const struct hm_options *opts)
{
	size_t frames = opts->pool_frames;
	void *cache;
	char *slots;
	int err;

	pool->slots_bytes = frames << HM_BLOCK_SHIFT;
	slots = take(memory, MEM_SLOTS, pool->slots_bytes + HM_BLOCK_SIZE);
	cache = take(memory, MEM_CACHE, hm_cache_bytes(opts));
	pool->places = take(memory, MEM_PLACES, frames * sizeof(struct place));
	pool->hashes = take(memory, MEM_HASHES, (frames + 1) * sizeof(struct frame_hash));
	pool->populated = take(memory, MEM_POPULATED, frames);
	if (!slots || !cache || !pool->places || !pool->hashes || !pool->populated)
		return fail(-ENOMEM, "no address space is left for a pool of %zu MB",
			    pool->slots_bytes >> 20);
	pool->slots =
		(char *)(((uintptr_t)slots + HM_BLOCK_SIZE - 1) & ~(uintptr_t)(HM_BLOCK_SIZE - 1));
	pool->cache = hm_cache_init(cache, opts);
	page_init(pool);
	sys_madvise(pool->slots, pool->slots_bytes, MADV_HUGEPAGE);
	sys_madvise(pool->slots, pool->slots_bytes, MADV_DONTDUMP);
	err = sys_madvise(pool->slots, pool->slots_bytes, MADV_DONTFORK);
	return err ? fail(err, "the pool's memory could not be kept from children") : 0;
}

int memory_create(struct pool *pool, const struct hm_options *opts)
{
	struct memory *memory = calloc(1, sizeof(*memory));
	int err;

	if (!memory)
		return -ENOMEM;
	pool->memory = memory;
	err = take_all(pool, memory, opts);
	if (!err)
		err = uffd_register_quiet(pool->uffd, pool->slots, pool->slots_bytes);
	if (err)
		memory_destroy(pool);
	return err;
}
