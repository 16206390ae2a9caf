// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* hugemap-sim-kernel: kernel/, tortured by a seed. See README.md. */
#include "world.h"

#include "sim.h"

#define UNMOUNT_STEPS 20000000u /* though there is progress all the time */

/* The power fails now: what the disk has left must be what was promised. */
static void cut_power(void)
{
	u32 i;

	for (i = 0; i < w.s.nfiles; i++) {
		below_lose_power(&w.disk[i]);
		model_after_power_cut(&w.file[i]);
	}
	world_count();
	w.counts[C_CUTS]++;
}

static void run(u64 steps)
{
	u64 unmounts;

	world_new(true);
	while (sched_steps() < steps) {
		sched_run(2000 + sim_below(sim_chance(10) ? 500000 : 100000));
		if (sim_chance(30)) {
			unmounts = w.counts[C_UNMOUNTS];
			sched_spawn("unmount", world_unmount, NULL);
			sched_run(UNMOUNT_STEPS);
			sim_check(w.counts[C_UNMOUNTS] != unmounts,
				  "an unmount waits for I/O without end");
		} else {
			cut_power();
		}
		world_new(false);
	}
}

static const struct sim_count told[] = {
	{ "stores", &w.counts[C_STORES] },
	{ "loads", &w.counts[C_LOADS] },
	{ "reads", &w.counts[C_READS] },
	{ "writes", &w.counts[C_WRITES] },
	{ "syncs", &w.counts[C_SYNCS] },
	{ "transfers of devices", &w.counts[C_DMAS] },
	{ "private copies", &w.counts[C_COPIES] },
	{ "inodes", &w.counts[C_INODES] },
	{ "resizes", &w.counts[C_RESIZES] },
	{ "errors", &w.counts[C_ERRORS] },
	{ "power cuts", &w.counts[C_CUTS] },
	{ "unmounts", &w.counts[C_UNMOUNTS] },
	{ "promotions", &w.counts[C_PROMOTIONS] },
	{ "refused ones", &w.counts[C_REFUSED] },
	{ "units written in parts", &w.counts[C_PARTS] },
	{ 0 },
};

const struct sim_program sim_program = {
	.name = "hugemap-sim-kernel",
	.what = "the kernel engine",
	.run = run,
	.counts = told,
	.apart = true,
};
