/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What a program under `hugemap run` tells of its mappings, in a memfd that
 * `hugemap stat` finds in /proc/PID/fd.
 */
#ifndef HUGEMAP_RUN_H
#define HUGEMAP_RUN_H

#include <stdint.h>

#define RUN_MEMFD_NAME "hugemap-run"
#define RUN_MAGIC 0x48554d52u
#define RUN_VERSION 1u
#define RUN_MAPS 256u

/* The ladder. */
enum run_rung {
	RUN_NONE, /* the entry was never used */
	RUN_MOUNT, /* on a mount of the kernel engine */
	RUN_ENGINE, /* the user-space engine */
	RUN_ADVISED, /* the kernel's mmap, aligned, with advice */
	RUN_PLAIN, /* the kernel's mmap as the program asked for it */
	RUN_RUNGS,
};

static const char *const __attribute__((unused)) run_rung_names[RUN_RUNGS] = {
	[RUN_NONE] = "none",	   [RUN_MOUNT] = "mount", [RUN_ENGINE] = "engine",
	[RUN_ADVISED] = "advised", [RUN_PLAIN] = "plain",
};

struct run_map {
	uint32_t rung; /* enum run_rung */
	uint16_t heap; /* anonymous memory in the heap file */
	uint16_t ended; /* unmapped; the entry is used again when there is no other */
	uint64_t start, bytes, offset;
	uint64_t faults, hits, wait_ns; /* while the engine served it */
	char path[160]; /* the end of it, if it is longer */
	char why[120]; /* "" = it is as good as can be */
};

struct run_page {
	uint32_t magic, version;
	uint32_t pid;
	uint32_t missed; /* mappings that had no room here */
	struct run_map maps[RUN_MAPS];
};

#endif /* HUGEMAP_RUN_H */
