// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* What changes the shape of things: mappings, files and pools that come and go. */
#include "world.h"

#include <errno.h>
#include <sys/mman.h>

#include "linux.h"

/* --- pools -------------------------------------------------------------------------------- */

void pool_make(struct pool_of *pool)
{
	struct hugemap_pool_options options = {
		.size = sizeof(options),
		.bytes = (u64)(4 + sim_below(sim_chance(60) ? 6 : 20)) * HM_BLOCK_SIZE,
		.dirty_ratio = 10 + sim_below(85),
		.dirty_expire_ms = 1 + sim_below(5000),
		.evict_batch = 1 + sim_below(6),
		.readahead_kb = sim_below(5),
		.no_readahead = sim_chance(20),
		.queue_depth = 4 + sim_below(4),
		.handlers = sim_chance(60) ? 1 : 2,
		.io = sim_chance(70) ? HUGEMAP_IO_URING : HUGEMAP_IO_THREADS,
		.prefault = sim_chance(20),
	};
	int err;

	err = hugemap_pool_create(&options, &pool->pool);
	sim_check(!err || machine.refuse_percent, "a pool cannot be made: %d, %s", err,
		  hugemap_reason());
	if (err)
		pool->pool = NULL;
}

/* Beside others that may still be in a call with a file of it. */
static void pool_end(struct pool_of *pool)
{
	int err;

	pool->busy = true;
	if (pool->pool) {
		err = hugemap_pool_destroy(pool->pool);
		sim_check(!err || err == -EBUSY, "a pool cannot be destroyed: %d", err);
		if (!err)
			pool->pool = NULL;
	}
	if (!pool->pool)
		pool_make(pool);
	pool->busy = false;
}

/* --- mappings ----------------------------------------------------------------------------- */

static void map_new(struct mapped *map)
{
	u32 file = sim_below(w.s.nfiles), pool = sim_below(w.s.npools);
	struct hugemap_options options = { .size = sizeof(options) };
	u32 blocks = (u32)(os_files[file].size / HM_BLOCK_SIZE);
	u64 pgoff = sim_chance(70) ? 0 : (u64)sim_below(blocks + 1) * HM_BLOCK_PAGES;
	u64 n = sim_chance(70) ? 0 : (1 + sim_below(blocks + 1)) * HM_BLOCK_PAGES;
	bool writable = sim_chance(75);
	struct hugemap_map_stat stat = { .size = sizeof(stat) };
	u64 told = model_files[file].failures;
	char *addr;
	u32 i;

	if (w.pool[pool].busy || !w.pool[pool].pool || pgoff + n > MAX_PAGES)
		return;
	map->used = true; /* mine, with no page that is live */
	map->n = 1;
	memset(map->live, 0, sizeof(map->live));
	w.pool[pool].users++;
	options.pool = w.pool[pool].pool;
	options.priority = (enum hugemap_priority)sim_below(3);
	if (!n && pgoff >= file_pages(&os_files[file]))
		n = HM_BLOCK_PAGES;
	addr = hugemap_map(w.fd[file][writable ? 0 : sim_below(2)], (off_t)(pgoff << HM_PAGE_SHIFT),
			   (size_t)(n << HM_PAGE_SHIFT),
			   writable ? PROT_READ | PROT_WRITE : PROT_READ, 0, &options);
	if (hugemap_error(addr)) {
		w.pool[pool].users--;
		map->used = false;
		return;
	}
	sim_check(!hugemap_map_stat(addr, &stat), "a new mapping is not known");
	*map = (struct mapped){
		.used = true,
		.writable = writable,
		.addr = addr,
		.file = file,
		.pool = pool,
		.n = (u32)(stat.bytes >> HM_PAGE_SHIFT),
		.pgoff = pgoff,
		.told = told,
		.told_step = sched_steps(),
		.known = model_files[file].failures,
	};
	sim_note("pages %llu+%u of file %u are mapped at %p", (unsigned long long)pgoff, map->n,
		 file, (void *)addr);
	for (i = 0; i < map->n; i++)
		map->live[i] = true;
	counts[C_MAPS]++;
}

/* Wait until nobody touches pages that are live no more. */
static void wait_for_users(struct mapped *map, u32 page, u32 n)
{
	struct long_wait wait = { 0 };
	u32 i;

	for (i = page; i < page + n; i++)
		while (map->users[i])
			wait_more(&wait, "others, to unmap");
}

static void set_live(struct mapped *map, u32 page, u32 n, bool live)
{
	u32 i;

	for (i = page; i < page + n; i++)
		map->live[i] = live;
}

static void unmap_some(struct mapped *map)
{
	u32 blocks = (map->n + HM_BLOCK_PAGES - 1) / HM_BLOCK_PAGES;
	u32 first = 0, n = map->n, i;
	struct begun begun = call_begun();
	int err;

	if (map->spoiled)
		return;
	/* The whole, or some blocks; of what somebody else unmaps nothing. */
	if (sim_chance(50)) {
		first = sim_below(blocks) * HM_BLOCK_PAGES;
		n = (1 + sim_below(blocks)) * HM_BLOCK_PAGES;
		if (first + n > map->n)
			n = map->n - first;
	}
	for (i = first; i < first + n && map->live[i]; i++)
		;
	n = i - first;
	if (!n || (n % HM_BLOCK_PAGES && first + n != map->n))
		return;
	set_live(map, first, n, false);
	wait_for_users(map, first, n);
	if (n != map->n)
		map->cut = true;
	sim_note("unmapping pages %u+%u at %p", first, n, (void *)map->addr);
	err = hugemap_unmap(map->addr + ((size_t)first << HM_PAGE_SHIFT),
			    (size_t)n << HM_PAGE_SHIFT);
	sim_note("unmapped pages %u+%u at %p: %d", first, n, (void *)map->addr, err);
	check_busy(err, begun, "unmap()");
	if (err == -EBUSY || err == -EINVAL || err == -ENOMEM) {
		sim_check(err != -EINVAL, "a mapping cannot be unmapped: %s", hugemap_reason());
		set_live(map, first, n, true);
		return;
	}
	check_told(map, err);
	if (err)
		model_lost(map->file);
	map->gone += n;
	if (map->gone == map->n) {
		w.pool[map->pool].users--;
		map->used = false;
	}
}

static void remap(struct mapped *map)
{
	u64 n = 1 + sim_below(MAX_PAGES + 1 - (u32)map->pgoff);
	u64 limit = os_files[map->file].size / HM_BLOCK_SIZE * HM_BLOCK_PAGES;
	char *addr;
	u32 i;

	if (map->pgoff + n > MAX_PAGES)
		return;
	if (map->pgoff + n < limit)
		n = (n + HM_BLOCK_PAGES - 1) / HM_BLOCK_PAGES * HM_BLOCK_PAGES;
	for (i = 0; i < map->n; i++)
		if (!map->live[i] || map->spoiled)
			return;
	set_live(map, 0, map->n, false);
	wait_for_users(map, 0, map->n);
	map->cut = true;
	addr = hugemap_remap(map->addr, (size_t)map->n << HM_PAGE_SHIFT, n << HM_PAGE_SHIFT);
	sim_note("remapped %u pages at %p to %llu: %p", map->n, (void *)map->addr,
		 (unsigned long long)n, (void *)addr);
	if (!hugemap_error(addr)) {
		map->addr = addr;
		map->n = (u32)n;
	}
	if (hugemap_error(addr))
		model_lost(map->file);
	set_live(map, 0, map->n, true);
}

void map_some(void)
{
	struct mapped *map = &w.map[sim_below(MAX_MAPS)];
	struct pool_of *pool = &w.pool[sim_below(w.s.npools)];

	if (!map->used)
		map_new(map);
	else if (sim_chance(15))
		remap(map);
	else if (sim_chance(70))
		unmap_some(map);
	if (!pool->users && !pool->busy && sim_chance(60))
		pool_end(pool);
}

/* --- files --------------------------------------------------------------------------------- */

/* Zeros from a page on, if a call says that it has done it. */
static void change_to_zeros(u32 file, u64 from, u64 to, int fd, bool truncate, u64 size)
{
	struct change change[MAX_PAGES];
	struct begun begun = call_begun();
	u32 done = os_files[file].truncations;
	u64 failures = model_files[file].failures;
	u64 i;
	int err;

	if (model_is_owned(file, from, to))
		return;
	for (i = from; i < to; i++)
		model_begin(file, i, 0, &change[i]);
	os_files[file].truncating++;
	if (truncate)
		err = hugemap_truncate(w.fd[file][fd], (off_t)size);
	else
		err = hugemap_punch(w.fd[file][fd], (off_t)(from << HM_PAGE_SHIFT),
				    (off_t)((to - from) << HM_PAGE_SHIFT));
	os_files[file].truncating--;
	sim_note("%s: %d", truncate ? "truncated" : "punched", err);
	sim_check(fd != 1 || err, "a file is changed by a descriptor that is for reading");
	check_busy(err, begun, truncate ? "truncate()" : "punch()");
	/*
	 * Mapped by others meanwhile, it is done once more: only if that fails has a call that
	 * fails changed something.
	 */
	for (i = from; i < to; i++)
		model_end(file, i, &change[i],
			  !err				     ? CHANGE_DONE :
			  done == os_files[file].truncations ? CHANGE_NOT :
							       CHANGE_PERHAPS);
	if (err && model_files[file].failures != failures)
		model_lost(file); /* it was the last one to have the file */
	counts[C_RESIZES]++;
}

void resize_some(void)
{
	u32 file = sim_below(w.s.nfiles);
	u64 size = (u64)sim_below(MAX_PAGES * HM_PAGE_SIZE / 8) * 8; /* a version is whole */

	sim_note("file %u: %llu to %llu bytes", file, (unsigned long long)os_files[file].size,
		 (unsigned long long)size);
	change_to_zeros(file, (size + HM_PAGE_SIZE - 1) >> HM_PAGE_SHIFT, MAX_PAGES, sim_chance(20),
			true, size);
}

void punch_some(void)
{
	u32 file = sim_below(w.s.nfiles);
	u64 from = sim_below(MAX_PAGES), to = from + 1 + sim_below(30);

	if (to > MAX_PAGES)
		to = MAX_PAGES;
	sim_note("punching pages %llu to %llu of file %u", (unsigned long long)from,
		 (unsigned long long)to, file);
	change_to_zeros(file, from, to, sim_chance(20), false, 0);
}

/* --- what nobody should do -------------------------------------------------------------------- */

/*
 * A block of a mapping is unmapped with munmap(2), and something else comes to be there,
 * which nobody may touch.
 */
static void take_place(struct mapped *map, u32 page, u32 n)
{
	char *at = map->addr + ((size_t)page << HM_PAGE_SHIFT);
	u32 i;

	for (i = 0; i < MAX_STRANGERS && w.stranger[i].addr; i++)
		;
	set_live(map, page, n, false);
	map_release(map, page, n);
	wait_for_users(map, page, n);
	map->spoiled = true;
	if (i == MAX_STRANGERS || sys_munmap(at, HM_BLOCK_SIZE))
		return;
	sim_check(sys_mmap(at, HM_BLOCK_SIZE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == at,
		  "no memory");
	at += (size_t)sim_below(HM_BLOCK_PAGES) << HM_PAGE_SHIFT;
	sim_check(memory_touch(at, true) == TOUCHED, "memory that cannot be touched");
	w.stranger[i] = (struct stranger){ at, model_new_value(map->file, MAX_PAGES - 1) };
	memory_set_value(at, w.stranger[i].value);
}

/*
 * A file that somebody else cuts off, whatever its lock says; pages that the program zaps
 * itself. Nothing is known of that file then, but all goes on, and others are right.
 */
void break_rules(void)
{
	u32 page, n = 1 + sim_below(20);
	struct mapped *map = map_hold(&page, &n, false);

	if (!map)
		return;
	model_forget(map->file);
	/* Not where a truncation maps the rest of a file over what is there. */
	if (!w.s.resizes && n >= HM_BLOCK_PAGES && !(page % HM_BLOCK_PAGES) &&
	    memory_page(map->addr + ((size_t)(page + HM_BLOCK_PAGES - 1) << HM_PAGE_SHIFT))->kind ==
		    PAGE_ANON) {
		take_place(map, page, n);
		return;
	}
	if (sim_chance(50))
		file_resize(&os_files[map->file],
			    (u64)sim_below((u32)os_files[map->file].size / 8 + 1) * 8);
	else
		sys_madvise(map->addr + ((size_t)page << HM_PAGE_SHIFT), (size_t)n << HM_PAGE_SHIFT,
			    MADV_DONTNEED);
	map_release(map, page, n);
}
