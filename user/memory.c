// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The memory of a pool: the slots, and what is known of each frame. All of it
 * is taken when the pool is made; none of it is passed on to children, since a
 * page that fork() shares could never be moved again.
 */
#include "engine.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>

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

static u64 read_number(const char *path, const char *after)
{
	FILE *file = fopen(path, "re");
	char line[256];
	u64 value = ~0ull;

	if (!file)
		return value;
	while (fgets(line, sizeof(line), file)) {
		if (strncmp(line, after, strlen(after)))
			continue;
		if (sscanf(line + strlen(after), "%" SCNu64, &value) != 1)
			value = ~0ull; /* "max" */
		break;
	}
	fclose(file);
	return value;
}

/* What the control group of this process may still use; both versions. */
static u64 group_room(const char *controller, const char *root, const char *limit_name,
		      const char *usage_name)
{
	FILE *file = fopen("/proc/self/cgroup", "re");
	char line[512], path[1024];
	u64 room = ~0ull;

	if (!file)
		return room;
	while (fgets(line, sizeof(line), file)) {
		char *names = strchr(line, ':');
		char *group = names ? strchr(names + 1, ':') : NULL;
		u64 limit, usage;

		if (!group)
			continue;
		*group++ = '\0';
		group[strcspn(group, "\n")] = '\0';
		if (strcmp(names + 1, controller))
			continue;
		snprintf(path, sizeof(path), "%s%s/%s", root, group, limit_name);
		limit = read_number(path, "");
		snprintf(path, sizeof(path), "%s%s/%s", root, group, usage_name);
		usage = read_number(path, "");
		if (limit != ~0ull && usage != ~0ull)
			room = limit > usage ? limit - usage : 0;
	}
	fclose(file);
	return room;
}

/* Bytes that this process can still take without harm to others. */
u64 memory_available(void)
{
	u64 available = read_number("/proc/meminfo", "MemAvailable:");
	u64 room;

	available = available == ~0ull ? 1ull << 30 : available * 1024;
	room = group_room("", "/sys/fs/cgroup", "memory.max", "memory.current");
	if (room < available)
		available = room;
	room = group_room("memory", "/sys/fs/cgroup/memory", "memory.limit_in_bytes",
			  "memory.usage_in_bytes");
	return room < available ? room : available;
}

static void *take(struct memory *memory, u32 piece, size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (at == MAP_FAILED)
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
			munmap(memory->at[i], memory->bytes[i]);
	free(memory);
	pool->memory = NULL;
}

static int take_all(struct pool *pool, struct memory *memory, const struct hm_options *opts)
{
	size_t frames = opts->pool_frames;
	void *cache;
	char *slots;

	pool->slots_bytes = frames << HM_BLOCK_SHIFT;
	slots = take(memory, MEM_SLOTS, pool->slots_bytes + HM_BLOCK_SIZE);
	cache = take(memory, MEM_CACHE, hm_cache_bytes(opts));
	pool->places = take(memory, MEM_PLACES, frames * sizeof(struct place));
	pool->hashes = take(memory, MEM_HASHES, frames * sizeof(struct frame_hash));
	pool->populated = take(memory, MEM_POPULATED, frames);
	if (!slots || !cache || !pool->places || !pool->hashes || !pool->populated)
		return fail(-ENOMEM, "no address space is left for a pool of %zu MB",
			    pool->slots_bytes >> 20);
	pool->slots =
		(char *)(((uintptr_t)slots + HM_BLOCK_SIZE - 1) & ~(uintptr_t)(HM_BLOCK_SIZE - 1));
	pool->cache = hm_cache_init(cache, opts);
	madvise(pool->slots, pool->slots_bytes, MADV_HUGEPAGE);
	madvise(pool->slots, pool->slots_bytes, MADV_DONTDUMP);
	if (madvise(pool->slots, pool->slots_bytes, MADV_DONTFORK) < 0)
		return fail(-errno, "the pool's memory could not be kept from children");
	return 0;
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

bool memory_has_swap(void)
{
	struct sysinfo info;

	return !sysinfo(&info) && info.totalswap;
}
