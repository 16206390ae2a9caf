// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "engine.h"

#include "sched.h"

#define ROUNDS 256u /* most rounds of one eviction, as in kernel/data/evict.c */

struct costs costs = {
	.fault = 600,
	.map = 400,
	.unmap = 1000,
	.protect = 50,
	.latency = 10,
	.stream = 7000,
	.depth = 1024,
	.copy = 10000,
	.readahead = 1,
};

/* --- names of lines and locks ---------------------------------------------------------------- */

#define AT(type, member, words) { offsetof(struct type, member), words, 0, 0 }
#define END { 0, NULL, 0, 0 }

static struct machine_member cache_names[] = {
	AT(hm_cache, opts, "cache->opts, clocks"),
	AT(hm_cache, evict_cursor, "cache->evict_cursor"),
	AT(hm_cache, files_lock, "cache->files"),
	END,
};
static struct machine_member shard_names[] = {
	AT(hm_shard, pool_lock, "shard->pool_lock"),
	AT(hm_shard, free, "shard->free, partial"),
	AT(hm_shard, nfree, "shard->nfree"),
	AT(hm_shard, queue_lock, "shard->queue_lock"),
	AT(hm_shard, list, "shard->list"),
	AT(hm_shard, oldest, "shard->oldest"),
	AT(hm_shard, note, "shard->note"),
	AT(hm_shard, count, "shard->count"),
	END,
};
static struct machine_member desc_names[] = { AT(hm_desc, word, "desc"), END };
static struct machine_member container_names[] = { AT(hm_container, free, "container"), END };
static struct machine_member ghost_names[] = { { 0, "ghosts", 0, 0 }, END };
static struct machine_member file_names[] = {
	AT(hm_file, cache, "file->cache, size, head, first_dir"),
	AT(hm_file, dirty_counter, "file->dirty_counter"),
	AT(hm_file, dirty_since, "file->dirty_since"),
	AT(hm_file, dirty_lock, "file->dirty_lock"),
	AT(hm_file, span, "file->span"),
	AT(hm_file, stream_lock, "file->stream_lock"),
	AT(hm_file, stream_hand, "file->stream_hand"),
	AT(hm_file, stream, "file->stream"),
	AT(hm_file, node_lock, "file->node_lock"),
	AT(hm_file, dirty, "file->dirty"),
	END,
};
static struct machine_member dir_names[] = {
	AT(hm_dir, dirty, "dir->dirty"),
	AT(hm_dir, leaf, "dir->leaf"),
	END,
};
static struct machine_member leaf_names[] = {
	AT(hm_leaf, dirty, "leaf->dirty"),
	AT(hm_leaf, zero_fill, "leaf->zero_fill"),
	AT(hm_leaf, block, "leaf->block"),
	END,
};
static struct machine_member base_names[] = {
	AT(hm_base, resident, "base->resident"),
	AT(hm_base, dirty, "base->dirty"),
	AT(hm_base, zero_fill, "base->zero_fill"),
	AT(hm_base, word, "base->word"),
	END,
};
static struct machine_member rest_names[] = { AT(hm_rest, word, "rest->word"), END };
static struct machine_member one_lock_names[] = { { 0, "the one lock", 0, 0 }, END };

/* Waits for other reasons than lines and locks. */
struct machine_member engine_waits[] = {
	{ 0, "(the device's queue)", 0, 0 },
	{ 0, "(fills by other processors)", 0, 0 },
	{ 0, "(no free frame)", 0, 0 },
	END,
};
enum {
	DEVICE,
	OTHERS,
	NO_FRAME
};

struct machine_member *const engine_members[] = {
	cache_names, shard_names, desc_names, container_names, ghost_names,    file_names,
	dir_names,   leaf_names,  base_names, engine_waits,    one_lock_names,
};
const size_t engine_nmembers = sizeof(engine_members) / sizeof(engine_members[0]);

/* --- a run ----------------------------------------------------------------------------------- */

const struct workload *workload;
struct cpu cpus[MACHINE_CPUS];
struct hm_cache *cache;
bool one_locked, reclaim_wanted;
u64 clock_ms, core_ns;
u8 mapped[(HM_BLOCK_PAGES + 1) * MOST_FRAMES];
static hm_spinlock_t *one_lock;
static u64 called_at[MACHINE_CPUS];
static u64 device_free, device_done[4096], device_ios;

void engine_new_cache(const struct hm_options *opts)
{
	size_t i, j;

	for (i = 0; i < engine_nmembers; i++)
		for (j = 0; j == 0 || engine_members[i][j].name; j++)
			engine_members[i][j].line_ns = engine_members[i][j].lock_ns = 0;
	cache = machine_alloc(hm_cache_bytes(opts), sizeof(*cache), cache_names);
	hm_cache_init(cache, opts);
	machine_name(cache->shards, sizeof(struct hm_shard), shard_names);
	machine_name(cache->desc, sizeof(struct hm_desc), desc_names);
	machine_name(cache->container, sizeof(struct hm_container), container_names);
	machine_name(cache->ghosts, sizeof(hm_atomic_t), ghost_names);
	one_lock = machine_alloc(sizeof(*one_lock), sizeof(*one_lock), one_lock_names);
	core_ns = 0;
	reclaim_wanted = false;
	device_ios = 0;
	device_free = 0;
	memset(device_done, 0, sizeof(device_done));
}

struct hm_file *engine_open_file(u64 blocks)
{
	struct hm_file *file = machine_alloc(hm_file_bytes(), sizeof(*file), file_names);

	/* The last block is incomplete, so all others can be cached as 2 MB units. */
	file = hm_file_init(cache, file, (blocks + 1) << HM_BLOCK_SHIFT);
	sim_check(file, "no file");
	return file;
}

void engine_enter(void)
{
	called_at[hm_cpu()] = machine_now();
	if (one_locked)
		hm_spin_lock(one_lock);
}

void engine_leave(void)
{
	if (one_locked)
		hm_spin_unlock(one_lock);
	core_ns += machine_now() - called_at[hm_cpu()];
}

struct hm_access engine_access(void)
{
	return HM_ACCESS(.size = workload->size);
}

u64 engine_unit_pages(void)
{
	return workload->size == HM_SIZE_HUGE ? PAGES : 1;
}

u64 engine_random(struct cpu *cpu, u64 n)
{
	cpu->random ^= cpu->random << 13;
	cpu->random ^= cpu->random >> 7;
	cpu->random ^= cpu->random << 17;
	return (cpu->random * 0x2545f4914f6cdd1dull >> 11) % n;
}

void engine_wait_until(u64 time)
{
	if (time > machine_now())
		machine_work(time - machine_now());
}

static void engine_add_wait(u32 why, u64 ns)
{
	engine_waits[why].line_ns += ns;
}

u64 engine_submit(u64 pages)
{
	u64 bytes = pages << HM_PAGE_SHIFT, *slot, start, done, alone;

	machine_wait_turn();
	slot = &device_done[device_ios++ % costs.depth];
	start = *slot > machine_now() ? *slot : machine_now();
	alone = costs.latency * 1000 + bytes * 1000 / costs.stream;
	done = start + alone;
	if (costs.bandwidth) {
		device_free = (start > device_free ? start : device_free) +
			      bytes * 1000 / costs.bandwidth;
		if (done < device_free + costs.latency * 1000)
			done = device_free + costs.latency * 1000;
	}
	*slot = done;
	engine_add_wait(DEVICE, done - machine_now() - alone);
	return done;
}

/* --- an engine ------------------------------------------------------------------------------- */

static const u64 node_stride[] = {
	sizeof(struct hm_root), sizeof(struct hm_dir),
	sizeof(struct hm_leaf), offsetof(struct hm_leaf, block[HM_HEAD_BLOCKS]),
	sizeof(struct hm_base), offsetof(struct hm_base, word[HM_FIRST_PAGES]),
	sizeof(struct hm_rest)
};
static struct machine_member *const node_names[] = { dir_names,	 dir_names,  leaf_names, leaf_names,
						     base_names, base_names, rest_names };

enum hm_outcome engine_get_unit(struct hm_file *file, u64 pgoff, struct hm_access access,
				struct hm_unit *unit)
{
	enum hm_outcome outcome;
	bool charged;

	for (;;) {
		outcome = CORE(hm_fault(file, pgoff, access, unit));
		if (outcome != HM_NO_NODE)
			return outcome;
		charged = machine_charge(false);
		hm_file_add_node(file, pgoff, (enum hm_node_kind)unit->err,
				 machine_alloc(hm_node_bytes((enum hm_node_kind)unit->err),
					       node_stride[unit->err], node_names[unit->err]),
				 hm_file_size(file), NULL, NULL);
		machine_charge(charged);
	}
}

void engine_finish_jobs(struct cpu *cpu, bool wait)
{
	if (wait) {
		u64 until = machine_now() + POLL_NS;

		if (cpu->njobs && cpu->job[cpu->first_job].done < until)
			until = cpu->job[cpu->first_job].done;
		if (until > machine_now())
			engine_add_wait(OTHERS, until - machine_now());
		engine_wait_until(until);
	}
	while (cpu->njobs && cpu->job[cpu->first_job].done <= machine_now()) {
		const struct job *job = &cpu->job[cpu->first_job];
		u64 pgoff = job->pgoff;
		struct hm_unit unit;

		for (; pgoff < job->pgoff + job->npages; pgoff = unit.pgoff + unit.npages) {
			CORE(hm_peek(cpu->file, pgoff, &unit));
			CORE(hm_fill_done(&unit, 0, false));
		}
		cpu->first_job = (cpu->first_job + 1) % JOBS;
		cpu->njobs--;
	}
}

static void engine_submit_job(struct cpu *cpu, struct job *job)
{
	if (!job->npages)
		return;
	sim_check(cpu->njobs < JOBS, "too many reads ahead");
	job->done = engine_submit(job->npages);
	cpu->job[(cpu->first_job + cpu->njobs++) % JOBS] = *job;
	job->npages = 0;
}

void engine_read_ahead(struct cpu *cpu, u64 pgoff, struct hm_access access)
{
	struct job job = { .npages = 0 };
	struct hm_plan plan;
	u64 next;

	if (!costs.readahead || !CORE(hm_readahead(cpu->file, pgoff, access, &plan)))
		return;
	access = plan.access;
	access.write = false;
	access.ahead = true;
	for (next = plan.start; next < plan.end;) {
		struct hm_unit unit;
		enum hm_outcome outcome;

		access.mark = next == plan.mark;
		outcome = engine_get_unit(cpu->file, next, access, &unit);

		if (outcome == HM_FILL) {
			if (job.npages && (unit.npages > 1 || job.npages == IO_PAGES ||
					   job.pgoff + job.npages != unit.pgoff))
				engine_submit_job(cpu, &job);
			if (!job.npages)
				job.pgoff = unit.pgoff;
			job.npages += unit.npages;
		} else if (outcome != HM_HIT && outcome != HM_BUSY) {
			break;
		}
		next = unit.pgoff + unit.npages;
	}
	engine_submit_job(cpu, &job);
	if (next < plan.end) {
		engine_enter();
		hm_readahead_stopped(cpu->file, &plan, next);
		engine_leave();
		reclaim_wanted = true;
	}
}

/* Adjacent victims share one unmap. */
static u32 engine_evict_round(enum hm_kind kind, u32 *chosen)
{
	struct hm_victim victims[VICTIMS];
	u32 batch = hm_cache_options(cache)->evict_batch, freed = 0, i;
	u32 n = CORE(hm_reclaim(cache, kind, batch, victims, VICTIMS));
	const struct hm_unit *before = NULL;
	bool unmapped = false;

	for (i = 0; i < n; i++) {
		const struct hm_unit *unit = &victims[i].unit;
		struct hm_unit now;

		if (!before || before->file != unit->file ||
		    before->pgoff + before->npages != unit->pgoff)
			unmapped = false;
		before = unit;
		if (!victims[i].evict) {
			CORE(hm_peek(unit->file, unit->pgoff, &now));
			if (CORE(hm_referenced(unit->file, unit->pgoff)))
				continue;
		}
		if (mapped[unit->frame]) {
			machine_work(unmapped ? costs.protect : costs.protect + costs.unmap);
			mapped[unit->frame] = false;
			unmapped = true;
		}
		if (victims[i].to != HM_NO_FRAME_ID) {
			machine_work(HM_PAGE_SIZE * 1000 / costs.copy);
			CORE(hm_move_done(unit, victims[i].to, true));
		} else if (victims[i].evict) {
			CORE(hm_evict_done(unit, HM_EVICTED));
			freed++;
		}
	}
	*chosen = n;
	return freed;
}

/* Units become inactive in one round and leave in the next. */
static bool engine_evict(enum hm_kind kind)
{
	u32 round, chosen;

	for (round = 0; round < ROUNDS; round++) {
		if (engine_evict_round(kind, &chosen))
			return true;
		if (!chosen)
			return false;
	}
	return false;
}

void engine_reclaim(struct cpu *cpu, u64 end)
{
	while (machine_now() < end) {
		bool some = true;
		u32 kind;

		machine_wait_turn();
		if (!reclaim_wanted) {
			machine_work(POLL_NS);
			continue;
		}
		reclaim_wanted = false;
		hm_cache_tick(cache, 1 + clock_ms + machine_now() / 1000000);
		while (some && machine_now() < end) {
			some = false;
			for (kind = 0; kind < HM_KINDS; kind++)
				some |= CORE(hm_reclaim_want(cache, (enum hm_kind)kind)) &&
					engine_evict((enum hm_kind)kind);
		}
	}
}

/* Fill the page, like hugemap_fill_page(). */
static void engine_fill(struct cpu *cpu, u64 pgoff, struct hm_access access)
{
	struct hm_unit unit;
	u64 done;

	for (;;) {
		enum hm_outcome outcome = engine_get_unit(cpu->file, pgoff, access, &unit);

		if (outcome == HM_FILL)
			done = engine_submit(unit.npages);
		if (outcome != HM_NO_FRAME && unit.hints & HM_HINT_READAHEAD)
			engine_read_ahead(cpu, pgoff, access);
		switch (outcome) {
		case HM_HIT:
			return;
		case HM_FILL:
			if (unit.hints & HM_HINT_RECLAIM)
				reclaim_wanted = true;
			engine_wait_until(done);
			CORE(hm_fill_done(&unit, 0, false));
			break;
		case HM_BUSY:
			engine_finish_jobs(cpu, true);
			break;
		case HM_NO_FRAME:
			engine_finish_jobs(cpu, false);
			reclaim_wanted = true;
			if (engine_evict(unit.npages > 1 ? HM_HUGE : HM_BASE))
				break;
			if (unit.npages > 1 && access.size == HM_SIZE_AUTO &&
			    CORE(hm_cache_free_pages(cache))) {
				access = hm_access_to_base(access);
				break;
			}
			engine_add_wait(NO_FRAME, POLL_NS);
			machine_work(POLL_NS);
			break;
		default:
			sim_check(0, "outcome %d", outcome);
		}
		access.again = true;
	}
}

void engine_fault(struct cpu *cpu, u64 pgoff, struct hm_unit *unit)
{
	struct hm_access access = engine_access();
	struct hm_access cached = access;

	cached.cached_only = true;
	machine_work(costs.fault);
	while (engine_get_unit(cpu->file, pgoff, cached, unit) != HM_HIT) {
		engine_fill(cpu, pgoff, access);
		machine_work(costs.fault);
		access.again = true;
		cached.again = true;
	}
	if (unit->hints & HM_HINT_READAHEAD)
		engine_read_ahead(cpu, pgoff, access);
	machine_work(costs.map);
	mapped[unit->frame] = true;
}
