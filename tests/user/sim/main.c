// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* hugemap-sim-user: the pool engine, tortured by a seed. See README.md. */
#include "world.h"

#include <fcntl.h>

#include "objects.h"
#include "../../sim/sim.h"

/* --- the world of a seed -------------------------------------------------------------- */

static void choose_machine(struct machine *m)
{
	static const u32 rates[] = { 0, 0, 0, 1, 5, 25 };

	*m = (struct machine){
		.read_error_percent = rates[sim_below(5)],
		.write_error_percent = rates[sim_below(6)],
		.short_percent = rates[sim_below(6)],
		.flush_error_percent = rates[sim_below(6)],
		.refuse_percent = rates[sim_below(5)],
		.busy_percent = rates[sim_below(5)],
		.split_percent = sim_chance(40) ? 0 : sim_below(101),
		.tick_ms = 1u << sim_below(9),
		.io_steps = 1u << sim_below(sim_chance(80) ? 7 : 11),
		.swap = sim_chance(30),
		.lock_future = sim_chance(10),
		.no_punch = sim_chance(10),
		.no_reserve = sim_chance(20),
		.hangs = sim_chance(40),
		.room = sim_chance(80) ? 1u << 20 : sim_below(200),
	};
}

static void choose_scenario(struct scenario *s)
{
	*s = (struct scenario){
		.switch_every = 1u << sim_below(6),
		.stall_every = sim_chance(30) ? 0 : 100u << sim_below(8),
		.cpus = 1 + sim_below(4),
		.nfiles = 1 + sim_below(MAX_FILES),
		.npages = 8 + sim_below(MAX_PAGES - 8),
		.npools = 1 + sim_chance(20),
		.programs = 1 + sim_below(4),
		.disturbers = 1 + sim_below(3),
		.write_percent = 10 + sim_below(80),
		.sequential_percent = sim_below(101),
		.hot_percent = sim_below(60),
		.syncs = 1 + sim_below(10),
		.maps = 1 + sim_below(6),
		.resizes = sim_chance(40) ? sim_below(6) : 0,
		.punches = sim_chance(40) ? sim_below(6) : 0,
		.calls = sim_chance(70) ? sim_below(10) : 0,
		.dmas = sim_chance(60) ? sim_below(10) : 0,
		.advices = sim_below(4),
		.audits = 1 + sim_below(3),
		.breaks_rules = sim_chance(8) && sim_break_rules,
	};
}

/* A new process over the files, as after a boot; all of them new, if fresh. */
void world_new(bool fresh)
{
	u32 f, p;

	memset(&w, 0, sizeof(w));
	choose_machine(&machine);
	choose_scenario(&w.s);
	process_new();
	memory_new();
	userfault_new();
	descriptors_new();
	pools = NULL;
	device_was_full = false;
	memset(&pools_lock, 0, sizeof(pools_lock));
	for (f = 0; f < MAX_FILES; f++) {
		struct os_file *file = &os_files[f];

		if (fresh || !file->size || sim_chance(10)) {
			memset(file, 0, sizeof(*file));
			file->size =
				(u64)w.s.npages * HM_PAGE_SIZE - sim_below(HM_PAGE_SIZE / 8) * 8;
			for (p = 0; p < MAX_PAGES; p++)
				file->page[p].hole = true;
		}
		file->align = sim_chance(10) ? 0 : HM_PAGE_SIZE;
		file->bad_read = MAX_PAGES;
		file->broken = file->locked = false;
		file->truncating = 0;
		memset(file->bad_block, 0, sizeof(file->bad_block));
	}
	model_start(fresh);
}

/* --- who acts ---------------------------------------------------------------------------- */

static void disturb(void)
{
	const struct scenario *s = &w.s;
	const struct {
		u32 weight;
		void (*act)(void);
	} choices[] = {
		{ s->syncs, sync_some },	  { s->maps, map_some },
		{ s->resizes, resize_some },	  { s->punches, punch_some },
		{ s->calls, call_some },	  { s->dmas, dma_some },
		{ s->advices, advise_some },	  { s->audits, audit },
		{ s->breaks_rules, break_rules },
	};
	u32 all = 0, dice, i;

	for (i = 0; i < sizeof(choices) / sizeof(choices[0]); i++)
		all += choices[i].weight;
	dice = sim_below(all);
	for (i = 0; dice >= choices[i].weight; i++)
		dice -= choices[i].weight;
	choices[i].act();
}

static void disturber_main(void *arg)
{
	struct long_wait *call = arg;

	w.acting++;
	for (;;) {
		u32 pause = sim_below(100), file = sim_below(MAX_FILES);

		w.acting--;
		while (w.pausing)
			sim_yield();
		while (pause--)
			sim_yield();
		while (w.pausing)
			sim_yield();
		w.acting++;
		wait_check(call, "a call");
		disturb();
		*call = (struct long_wait){ 0 };
		if (machine.read_error_percent && sim_chance(5))
			os_files[file].bad_read = sim_chance(50) ? sim_below(MAX_PAGES) : MAX_PAGES;
		if (sim_chance(2) && machine.room < 1000)
			machine.room += sim_below(200);
		sim_progress();
	}
}

/* Every call ends. */
static void watchdog_main(void *arg)
{
	u32 i;

	(void)arg;
	for (;;) {
		for (i = 0; i < 1000; i++)
			sim_yield();
		for (i = 0; i < MAX_CALLERS; i++)
			if (w.calls[i].since_steps)
				wait_check(&w.calls[i], "the end of a call");
	}
}

static void first_main(void *arg)
{
	u32 i;

	(void)arg;
	for (i = 0; i < MAX_FILES; i++) {
		w.fd[i][0] = file_open(i, O_RDWR);
		w.fd[i][1] = file_open(i, O_RDONLY);
		w.fd[i][2] = file_open(i, O_RDWR | O_DSYNC);
	}
	for (i = 0; i < w.s.npools; i++)
		pool_make(&w.pool[i]);
	for (i = 0; i < w.s.programs; i++)
		sched_spawn("program", program_main, NULL);
	for (i = 0; i < w.s.disturbers; i++)
		sched_spawn("caller", disturber_main, &w.calls[i]);
	sim_progress();
}

void world_spawn(void)
{
	sched_start(w.s.switch_every, w.s.stall_every, w.s.cpus);
	sched_spawn("first", first_main, NULL);
	sched_spawn("clock", clock_main, NULL);
	sched_spawn("swapper", swapper_main, NULL);
	sched_spawn("passer-by", passer_by_main, NULL);
	sched_spawn("watchdog", watchdog_main, NULL);
}

/* --- seeds --------------------------------------------------------------------------------- */

/* The power fails now: what the device has left must be what was promised. */
static void cut_power(void)
{
	u32 i;

	for (i = 0; i < MAX_FILES; i++)
		device_lose_power(&os_files[i]);
	model_after_power_cut();
	counts[C_CUTS]++;
	world_new(false);
}

static void run(u64 steps)
{
	memset(counts, 0, sizeof(counts));
	world_new(true);
	while (sched_steps() < steps) {
		u64 left = steps - sched_steps();

		world_spawn();
		sched_run(left < 2000 ? left : 2000 + sim_below(sim_chance(25) ? 1000000 : 100000));
		cut_power();
	}
}

static const struct sim_count told[] = {
	{ "stores", &counts[C_STORES] },   { "loads", &counts[C_LOADS] },
	{ "syncs", &counts[C_SYNCS] },	   { "calls", &counts[C_CALLS] },
	{ "resizes", &counts[C_RESIZES] }, { "DMAs", &counts[C_DMAS] },
	{ "maps", &counts[C_MAPS] },	   { "errors", &counts[C_ERRORS] },
	{ "SIGBUS", &counts[C_BUSES] },	   { "power cuts", &counts[C_CUTS] },
	{ "audits", &counts[C_AUDITS] },   { 0 },
};

const struct sim_program sim_program = {
	.name = "hugemap-sim-user",
	.what = "the pool engine",
	.run = run,
	.counts = told,
	.has_rules = true,
	.apart = true,
};
