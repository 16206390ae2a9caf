// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The steered page cache: the operations of engine_mmap.c, without any advice by the program. The
 * engine reports the mapping to the monitor, as the library and `hugemap run` do.
 */
#include "engine.h"
#include "steer.h"

#include <stdio.h>
#include <sys/mman.h>

static void steer_open(struct run *run)
{
	struct file_map *map = file_map_open(run, -1, NULL);
	struct run_file file;

	run_file(run, run->file, &file);
	steer_configure(&(struct steer_settings){});
	steer_mapped(map->at + file.start, file.end - file.start,
		     run->scenario->writes ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, 0);
}

/* The longest mapping is that of the file. No other mapping should be steered. */
static void steer_count(struct run *run)
{
	const struct steer_page *page = steer_own_page();
	struct steered *steered = &run->result->steered;
	uint64_t most = 0;
	unsigned int i, act;

	if (!page)
		return;
	steered->scans = page->looks;
	steered->scan_ns = page->look_ns;
	steered->advice_ns = page->act_ns;
	for (i = 0; i < STEER_PAGE_MAPS; i++) {
		const struct steer_map *map = &page->maps[i];

		if (!map->id)
			continue;
		for (act = 0; act < STEER_ACTS; act++) {
			steered->count[act] += map->count[act];
			steered->bytes[act] += map->amount[act];
		}
		if (map->bytes < most)
			continue;
		most = map->bytes;
		steered->pattern = map->pattern < STEER_PATTERNS ? map->pattern : STEER_UNKNOWN;
		snprintf(steered->reason, sizeof(steered->reason), "%.119s", map->why);
	}
}

static void steer_close(struct run *run)
{
	struct file_map *map = run->private;

	steer_unmapping(map->at, run->bytes);
	file_map_close(run);
}

const struct engine engine_steer = {
	.name = "hugemap-steer",
	.apart = true,
	.open = steer_open,
	.load = file_map_load,
	.store = file_map_store,
	.sync = file_map_sync,
	.count = steer_count,
	.close = steer_close,
};
