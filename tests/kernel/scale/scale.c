// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * How the cache scales, as far as cache lines and locks limit it: the unchanged cache runs on
 * the virtual machine of machine.c, called by an engine like kernel/data. README.md has the
 * assumptions and the limits of the model.
 */
#include <stdio.h>
#include <stdlib.h>

#include "engine.h"
#include "sched.h"

static const struct option {
	const char *name;
	u64 *value;
	const char *unit, *what;
} settings[] = {
	{ "own", &machine_prices.own, "ns", "a line in the processor's own cache" },
	{ "locked", &machine_prices.locked, "ns", "a locked instruction on such a line" },
	{ "near", &machine_prices.near, "ns", "a line in another cache of the node" },
	{ "far", &machine_prices.far, "ns", "a line in a cache of another node" },
	{ "memory", &machine_prices.memory, "ns", "a line in no cache" },
	{ "overlap", &machine_prices.overlap, "", "independent reads in flight at a time" },
	{ "fault", &costs.fault, "ns", "entry and exit of a fault, and the work of mm" },
	{ "map", &costs.map, "ns", "to map a page" },
	{ "unmap", &costs.unmap, "ns", "to unmap a run of victims, TLB flush included" },
	{ "protect", &costs.protect, "ns", "to write-protect or free a page's mapping" },
	{ "latency", &costs.latency, "us", "an I/O, whatever its size" },
	{ "stream", &costs.stream, "MB/s", "speed of one I/O" },
	{ "bandwidth", &costs.bandwidth, "MB/s", "bandwidth of the device; 0: unlimited" },
	{ "depth", &costs.depth, "", "I/Os in flight at a time" },
	{ "readahead", &costs.readahead, "", "faults detect streams; 0: as after MADV_RANDOM" },
	{ "copy", &costs.copy, "MB/s", "speed at which a stream reads its mapping" },
};

#define BASE HM_SIZE_BASE
#define HUGE HM_SIZE_HUGE
#define AUTO HM_SIZE_AUTO

/* Random misses that take as long as one step of a stream. */
#define MISSES_PER_STEP 8u
/* With page=auto the huge units are younger than the base pages by at least this. */
#define FILL_MS 30000u

static u32 nworkers;
static u64 written; /* pages written back after the warm-up */

/* --- workloads ------------------------------------------------------------------------------- */

static enum hm_state peek(struct cpu *cpu, u64 pgoff)
{
	struct hm_unit unit;
	enum hm_state state;

	machine_wait_turn();
	machine_charge(false);
	state = hm_peek(cpu->file, pgoff, &unit);
	machine_charge(true);
	return state;
}

static void resident_fault(struct cpu *cpu)
{
	struct hm_unit unit;

	engine_fault(cpu, cpu->first + engine_random(cpu, cpu->pages), &unit);
	cpu->ops++;
}

static void random_miss(struct cpu *cpu)
{
	struct hm_unit unit;
	u64 pgoff;

	do {
		pgoff = cpu->first + engine_random(cpu, cpu->pages);
	} while (peek(cpu, pgoff) != HM_ABSENT);
	engine_fault(cpu, pgoff, &unit);
	cpu->ops++;
}

static void stream(struct cpu *cpu)
{
	u64 pgoff = cpu->first + cpu->at % cpu->pages, last = pgoff + IO_PAGES - 1, first = pgoff;
	u64 n;
	struct hm_unit unit;

	engine_finish_jobs(cpu, false);
	engine_fault(cpu, pgoff, &unit);
	if (last >= cpu->first + cpu->pages)
		last = cpu->first + cpu->pages - 1;
	if (unit.npages == 1 && !CORE(hm_fault_around(cpu->file, pgoff, &first, &last, &unit)))
		last = pgoff;
	n = unit.npages > 1 ? unit.npages : last - pgoff + 1;
	cpu->at += n;
	machine_work((n << HM_PAGE_SHIFT) * 1000 / costs.copy);
	cpu->ops += n / engine_unit_pages();
}

/* Half of the time a stream through the processor's own part, half random misses elsewhere. */
static void mixed(struct cpu *cpu)
{
	u64 first = cpu->first, pages = cpu->pages, ops = cpu->ops;

	if (cpu->turn++ % (MISSES_PER_STEP + 1) == 0) {
		stream(cpu);
		cpu->ops = ops + 1;
		return;
	}
	cpu->first = 0;
	cpu->pages = nworkers * pages;
	random_miss(cpu);
	cpu->first = first;
	cpu->pages = pages;
}

/*
 * Store once to each page of the processor's own part, in a scattered order. All pages are mapped
 * read-only.
 */
static void first_store(struct cpu *cpu)
{
	u64 units = cpu->pages / engine_unit_pages();
	u64 pgoff = cpu->first + cpu->at++ * 1031 % units * engine_unit_pages();
	struct hm_access access = HM_ACCESS(.write = true, .cached_only = true, .again = true,
					    .allocated_only = true);
	struct hm_unit unit;
	enum hm_outcome outcome;

	sim_check(cpu->at <= units, "too few pages to store to");
	machine_work(costs.fault);
	outcome = engine_get_unit(cpu->file, pgoff, access, &unit);
	sim_check(outcome == HM_HIT, "outcome %d of a store", outcome);
	if (unit.hints & HM_HINT_READAHEAD) {
		access = engine_access();
		access.write = true;
		engine_read_ahead(cpu, pgoff, access);
	}
	machine_work(costs.map);
	cpu->ops++;
}

/* One processor writes back the pages that the others dirty, like kernel/data/writeback.c. */
static void write_back(struct cpu *cpu, u64 end)
{
	struct hm_run run[WRITE_DEPTH];
	u64 done[WRITE_DEPTH], pos = 0;
	u32 first = 0, n = 0;

	while (machine_now() < end) {
		u32 i = (first + n) % WRITE_DEPTH;
		enum hm_wb got = HM_WB_BUSY;
		struct hm_unit unit;
		u64 pgoff;

		if (n < WRITE_DEPTH)
			got = CORE(hm_writeback(cpu->file, &pos, cpu->pages, IO_PAGES, false,
						&run[i]));
		if (got == HM_WB_RUN) {
			machine_work(costs.unmap);
			for (pgoff = run[i].pgoff; pgoff < run[i].pgoff + run[i].npages;
			     pgoff = unit.pgoff + unit.npages) {
				CORE(hm_peek(cpu->file, pgoff, &unit));
				machine_work(costs.protect);
			}
			done[i] = engine_submit(run[i].npages);
			n++;
			continue;
		}
		if (got == HM_WB_DONE)
			pos = 0;
		if (!n) {
			machine_work(POLL_NS);
			continue;
		}
		engine_wait_until(done[first]);
		engine_enter();
		hm_writeback_done(cpu->file, run[first].pgoff, run[first].npages, 0);
		engine_leave();
		if (machine_now() >= workload->warm_us * 1000)
			written += run[first].npages;
		first = (first + 1) % WRITE_DEPTH;
		n--;
	}
}

static const struct workload workloads[] = {
	{ "resident faults, one file", false, BASE, NULL, 256, 8, 1500, 1500, resident_fault },
	{ "resident faults, one file, 2 MB", false, HUGE, NULL, 256, 32, 300, 1000,
	  resident_fault },
	{ "resident faults, a file each", true, BASE, NULL, 512, 0, 1500, 1500, resident_fault },
	{ "random misses, one file", false, BASE, engine_reclaim, 1024, 2048, 1000, 3000,
	  random_miss },
	{ "random misses, one file, 2 MB", false, HUGE, engine_reclaim, 4096, 8192, 4000, 20000,
	  random_miss },
	{ "random misses, a file each", true, BASE, engine_reclaim, 1024, 2048, 1000, 3000,
	  random_miss },
	{ "streams, one file", false, BASE, engine_reclaim, 1024, 2048, 1000, 2000, stream },
	{ "streams, a file each", true, BASE, engine_reclaim, 1024, 2048, 1000, 2000, stream },
	{ "streams, a file each, 2 MB", true, HUGE, engine_reclaim, 4096, 8192, 4000, 20000,
	  stream },
	{ "first stores, one file", false, BASE, NULL, 1024, 0, 300, 1500, first_store },
	{ "first stores, a file each", true, BASE, NULL, 1024, 0, 300, 1500, first_store },
	{ "first stores beside a writer", false, BASE, write_back, 1024, 0, 300, 1500,
	  first_store },
	{ "resident faults, one file, auto", false, AUTO, NULL, 256, 32, 300, 1500,
	  resident_fault },
	{ "random misses, one file, auto", false, AUTO, engine_reclaim, 1024, 2048, 1000, 3000,
	  random_miss },
	{ "random misses, a file each, auto", true, AUTO, engine_reclaim, 1024, 2048, 1000, 3000,
	  random_miss },
	{ "streams, a file each, auto", true, AUTO, engine_reclaim, 4096, 8192, 4000, 20000,
	  stream },
	{ "streams and random misses, one file, auto", false, AUTO, engine_reclaim, 1024, 2048,
	  1000, 3000, mixed },
	{ "first stores, one file, auto", false, AUTO, NULL, 1024, 0, 300, 1500, first_store },
};

/* Blocks of each processor in a workload whose file grows with their number. */
#define PART_BLOCKS 4u

/* Reclaim runs in bursts, so measure few processors for longer. */
static u64 measured_us(void)
{
	u32 times = workload->helper == engine_reclaim && nworkers < 16 ? 16 / nworkers : 1;

	return workload->us * times;
}

static void work(u32 number)
{
	u64 warm = workload->warm_us * 1000, end = warm + measured_us() * 1000;
	struct cpu *cpu = &cpus[number];

	if (number >= nworkers) {
		workload->helper(cpu, end);
		return;
	}
	/* Start each processor at another time, so that they do not run in step. */
	machine_work(engine_random(cpu, 1000));
	while (machine_now() < warm)
		workload->op(cpu);
	cpu->ops = 0;
	while (machine_now() < end)
		workload->op(cpu);
}

/* Before the measurement: evict some units, and return the number of newly inactive ones. */
static u32 evict_before_run(enum hm_kind kind)
{
	struct hm_victim victims[VICTIMS];
	u32 n = hm_reclaim(cache, kind, hm_cache_options(cache)->evict_batch, victims, VICTIMS);
	u32 stay = 0, i;

	for (i = 0; i < n; i++) {
		mapped[victims[i].unit.frame] = false;
		if (victims[i].to != HM_NO_FRAME_ID)
			hm_move_done(&victims[i].unit, victims[i].to, true);
		else if (victims[i].evict)
			hm_evict_done(&victims[i].unit, HM_EVICTED);
		else
			stay++;
	}
	return stay;
}

/* The pool is full: bring the queues into their steady state, and free some frames. */
static bool is_settled(void)
{
	if (evict_before_run(workload->size == HUGE ? HM_HUGE : HM_BASE) > VICTIMS / 2)
		return false;
	/* Streams start with a full reserve of free frames; random misses with few. */
	while (workload->op == stream && hm_reclaim_want(cache, HM_HUGE))
		evict_before_run(HM_HUGE);
	return true;
}

/*
 * The unit to fill next: anywhere for random misses; for streams, from the second quarter of
 * each processor's part on.
 */
static u64 nth_unit(u64 n, u64 units)
{
	u64 part = units / nworkers;

	if (workload->op == random_miss)
		return n * 1000003 % units;
	if (workload->op == stream)
		return n % nworkers * part + (part / 4 + n / nworkers) % part;
	return n;
}

/* Fill a unit, and map it. False: the pool is full and in its steady state. */
static bool fill_unit(u64 page, u64 per_file, struct hm_access access)
{
	struct hm_file *file = cpus[page / per_file].file;
	enum hm_outcome outcome;
	struct hm_unit unit;

	do {
		outcome = engine_get_unit(file, page % per_file, access, &unit);
	} while (outcome == HM_NO_FRAME && !is_settled());
	if (outcome == HM_NO_FRAME)
		return false;
	if (outcome == HM_HIT)
		return true;
	sim_check(outcome == HM_FILL, "outcome %d", outcome);
	hm_fill_done(&unit, 0, false);
	access.again = true;
	engine_get_unit(file, page % per_file, access, &unit);
	mapped[unit.frame] = true;
	return true;
}

/*
 * Fill units until all are cached, or until the pool is full and in its steady state. With
 * page=auto, half of the pool is filled with base pages of every other block, and later the other
 * half with huge units, so that reclaim has to compare their ages and finds that of base pages
 * higher.
 */
static void fill_pool(u64 blocks, u32 nfiles)
{
	u64 per_file = blocks / nfiles * PAGES, half = workload->pool / 2, unit, i;
	bool both = workload->size == AUTO;
	u64 units = blocks * PAGES / engine_unit_pages() / (both ? 2 : 1);
	struct hm_access access = both ? hm_access_to_base(engine_access()) : engine_access();

	clock_ms = 0;
	for (i = 0; i < units && !(both && i >= half * PAGES); i++) {
		machine_set_cpu((u32)(i % nworkers));
		unit = nth_unit(i, units);
		if (both)
			unit += unit / PAGES * PAGES;
		if (!fill_unit(unit * engine_unit_pages(), per_file, access))
			break;
	}
	access = HM_ACCESS(.size = HUGE);
	for (i = 0; both && i < blocks / 2 && i < half; i++) {
		clock_ms = FILL_MS * (half + i) / half;
		hm_cache_tick(cache, 1 + clock_ms);
		machine_set_cpu((u32)(i % nworkers));
		unit = nth_unit(i, blocks / 2) * 2 + 1;
		if (!fill_unit(unit * PAGES, per_file, access))
			break;
	}
}

static void set_up(u32 processors, u32 nodes)
{
	struct hm_options opts;
	u64 blocks = workload->file;
	u32 nfiles = workload->own_files ? processors : 1, i;

	nworkers = processors;
	machine_reset(processors + !!workload->helper, nodes);
	hm_options_init(&opts);
	opts.pool_frames = workload->pool;
	opts.cpus = processors;
	opts.promote_util = 0; /* no processor promotes */
	sim_check(!hm_options_check(&opts), "options");
	engine_new_cache(&opts);

	if (!blocks)
		blocks = processors * PART_BLOCKS;
	blocks -= blocks % nfiles;
	memset(cpus, 0, sizeof(cpus));
	for (i = 0; i < processors + !!workload->helper; i++) {
		struct cpu *cpu = &cpus[i];
		u64 part = blocks * PAGES / processors;

		cpu->random = 0x9e3779b97f4a7c15ull * (i + 1);
		cpu->file = i < nfiles ? engine_open_file(blocks / nfiles) : cpus[0].file;
		cpu->pages = workload->own_files ? blocks / nfiles * PAGES : blocks * PAGES;
		/* Each processor has its own part in streams and first stores. */
		if (!workload->own_files && i < processors &&
		    (workload->op == stream || workload->op == mixed ||
		     workload->op == first_store)) {
			cpu->pages = part - part % PAGES;
			cpu->first = i * cpu->pages;
		}
	}
	fill_pool(blocks, nfiles);
	written = 0;
}

/* --- results --------------------------------------------------------------------------------- */

struct result {
	double rate; /* operations a second */
	/* Percent of all time: in the cache, in waits for lines, in waits for locks. */
	double core, lines, locks;
	char limit[128]; /* the lock and the line with the longest waits */
	double written;
};

/* Find the line and the lock with the longest waits, as a share of the time of all processors. */
static void find_limit(struct result *result, double all_ns)
{
	const struct machine_member *line = NULL, *lock = NULL, *m;
	size_t i, n = 0;

	for (i = 0; i < engine_nmembers; i++) {
		for (m = engine_members[i]; m->name; m++) {
			if (engine_members[i] != engine_waits)
				result->lines += 100 * (double)m->line_ns / all_ns;
			result->locks += 100 * (double)m->lock_ns / all_ns;
			if (!line || m->line_ns > line->line_ns)
				line = m;
			if (!lock || m->lock_ns > lock->lock_ns)
				lock = m;
		}
	}
	result->core = 100 * (double)core_ns / all_ns;
	if ((double)lock->lock_ns > all_ns / 200)
		n = (size_t)snprintf(result->limit, sizeof(result->limit), "lock %s %.0f %%  ",
				     lock->name, 100 * (double)lock->lock_ns / all_ns);
	if ((double)line->line_ns > all_ns / 200)
		snprintf(result->limit + n, sizeof(result->limit) - n, "line %s %.0f %%",
			 line->name, 100 * (double)line->line_ns / all_ns);
}

static struct result run(u32 processors, u32 nodes, bool locked)
{
	struct result result = { .rate = 0 };
	u64 ops = 0, all_ns;
	u32 i;

	one_locked = false;
	set_up(processors, nodes);
	one_locked = locked;
	all_ns = machine_run(work);
	for (i = 0; i < processors; i++)
		ops += cpus[i].ops;
	result.rate = (double)ops * 1e6 / (double)measured_us();
	result.written = (double)written * 1e6 / (double)measured_us();
	find_limit(&result, (double)all_ns);
	return result;
}

static void print_table(const struct workload *w, u32 nodes, u32 most)
{
	double alone = 0, locked_alone = 0;
	u32 processors;

	workload = w;
	printf("\n%s, %u node%s\n%10s %10s %10s %10s %6s %6s %6s   %s\n", w->name, nodes,
	       nodes > 1 ? "s" : "", "processors", "1000 ops/s", "of linear", "one lock", "core",
	       "lines", "locks", "longest waits");
	for (processors = 1; processors <= most; processors *= 2) {
		struct result result, locked;

		result = run(processors, nodes, false);
		locked = run(processors, nodes, true);
		if (processors == 1) {
			alone = result.rate;
			locked_alone = locked.rate;
		}
		printf("%10u %10.1f %10.2f %10.2f %4.0f %% %4.0f %% %4.0f %%   %s", processors,
		       result.rate / 1000, result.rate / alone / processors,
		       locked.rate / locked_alone / processors, result.core, result.lines,
		       result.locks, result.limit);
		if (w->helper == write_back)
			printf("  (written: %.0f)", result.written / 1000);
		printf("\n");
		fflush(stdout);
	}
}

/* Check that the cache scales as promised, and that the model detects a single lock. */
static int check(void)
{
	double alone, locked_alone;
	u32 many;

	workload = &workloads[0];
	alone = run(1, 2, false).rate;
	locked_alone = run(1, 2, true).rate;
	for (many = 16; many <= 64; many *= 4) {
		double shared = run(many, 2, false).rate / alone / many;
		double locked = run(many, 2, true).rate / locked_alone / many;

		printf("%s, %u processors: %.2f of linear, with one lock %.2f\n", workload->name,
		       many, shared, locked);
		if (shared < 0.8 || locked > shared / 2) {
			printf("FAILED: expected >= 0.8, and <= half of it with one lock\n");
			return 1;
		}
	}
	return 0;
}

static int usage(void)
{
	size_t i;

	printf("hugemap-scale [--check] [--workload N]... [--nodes N]... [--processors MOST]\n"
	       "\t[--COST N]...\n\n");
	for (i = 0; i < sizeof(workloads) / sizeof(workloads[0]); i++)
		printf("  --workload %-8zu %s\n", i, workloads[i].name);
	for (i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
		printf("  --%-16s %s; default %llu %s\n", settings[i].name, settings[i].what,
		       (unsigned long long)*settings[i].value, settings[i].unit);
	return 2;
}

int main(int argc, char **argv)
{
	u32 nodes[3] = { 1, 2, 4 }, nnodes = 0, most = 128;
	u64 chosen = 0;
	size_t i, j;
	int arg;

	for (arg = 1; arg < argc; arg++) {
		const char *name = argv[arg];
		u64 value;

		if (!strcmp(name, "--check"))
			return check();
		if (strncmp(name, "--", 2) || arg + 1 == argc)
			return usage();
		value = strtoull(argv[++arg], NULL, 0);
		for (i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
			if (!strcmp(name + 2, settings[i].name))
				break;
		if (i < sizeof(settings) / sizeof(settings[0]))
			*settings[i].value = value;
		else if (!strcmp(name, "--workload") &&
			 value < sizeof(workloads) / sizeof(workloads[0]))
			chosen |= 1ull << value;
		else if (!strcmp(name, "--nodes") && nnodes < 3 && value)
			nodes[nnodes++] = (u32)value;
		else if (!strcmp(name, "--processors") && value && value <= 128)
			most = (u32)value;
		else
			return usage();
	}
	if (!costs.depth || costs.depth > 4096 || !costs.stream || !costs.copy ||
	    !machine_prices.overlap)
		return usage();
	printf("Assumed, not measured:\n");
	for (i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
		printf("%10llu %-5s %s\n", (unsigned long long)*settings[i].value, settings[i].unit,
		       settings[i].what);
	for (i = 0; i < sizeof(workloads) / sizeof(workloads[0]); i++)
		for (j = 0; j < (nnodes ? nnodes : 3); j++)
			if (!chosen || chosen >> i & 1)
				print_table(&workloads[i], nodes[j], most);
	return 0;
}
