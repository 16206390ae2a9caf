/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Who acts in the simulated world: programs that call the library, and others. */
#ifndef SIM_WORLD_H
#define SIM_WORLD_H

#include "hugemap.h"
#include "model.h"

#define MAX_POOLS 2u
#define MAX_MAPS 6u
#define MAX_CALLERS 4u
#define MAX_STRANGERS 4u

struct scenario {
	u32 switch_every, stall_every, cpus;
	u32 nfiles, npages, npools;
	u32 programs, disturbers;
	u32 write_percent, sequential_percent, hot_percent;
	u32 syncs, maps, resizes, punches, calls, dmas, advices, audits; /* weights */
	bool breaks_rules; /* truncates and zaps behind the library's back */
};

struct pool_of {
	struct hugemap_pool *pool;
	u32 users; /* mappings, and who is about to make one */
	bool busy; /* being made, or destroyed */
};

struct mapped {
	bool used, writable;
	char *addr;
	u32 file, pool, n; /* pages */
	u32 gone; /* pages that are unmapped already */
	u64 pgoff;
	bool live[MAX_PAGES]; /* nobody is unmapping it */
	u32 users[MAX_PAGES]; /* who touches it now */
	u32 syncing; /* calls that may have been told, and will say so */
	bool spoiled; /* the program has unmapped a part of it itself */
	bool cut; /* its parts are told of errors each for itself */
	u64 told, told_step; /* failures of the file when it was told last */
	u64 known; /* failures of the file when it was there */
	u64 must[MAX_BLOCKS]; /* by block of the file: failures that it knows of */
};

struct world {
	struct scenario s;
	struct pool_of pool[MAX_POOLS];
	struct mapped map[MAX_MAPS];
	int fd[MAX_FILES][3]; /* for both, for reading, O_DIRECT */
	struct stranger {
		char *addr; /* memory of the program's, where a mapping was */
		u64 value;
	} stranger[MAX_STRANGERS];
	bool pausing; /* everybody stops for an audit */
	u32 acting;
	struct long_wait calls[MAX_CALLERS]; /* that are under way */
};

enum {
	C_STORES,
	C_LOADS,
	C_SYNCS,
	C_CALLS,
	C_RESIZES,
	C_DMAS,
	C_MAPS,
	C_ERRORS,
	C_BUSES,
	C_CUTS,
	C_AUDITS,
	COUNTS,
};

extern struct world w;
extern u64 counts[COUNTS];

/* callers.c */
void program_main(void *arg);
struct mapped *map_hold(u32 *page, u32 *n, bool writable);
void map_release(struct mapped *map, u32 page, u32 n);
void check_told(struct mapped *map, int err);
void check_errors(struct mapped *map, const u64 *must, u64 from, u64 to, int err);
struct begun {
	u64 pins, ms;
};
struct begun call_begun(void);
void check_busy(int err, struct begun begun, const char *what);
void flush_map(struct mapped *map, u32 page, u32 n);
void sync_some(void);
void advise_some(void);

/* accesses.c */
void call_some(void);
void dma_some(void);
void wait_for_page(const char *at);

/* shapes.c: what changes mappings, files and pools */
void map_some(void);
void resize_some(void);
void punch_some(void);
void break_rules(void);
void pool_make(struct pool_of *pool);

/* audit.c */
void audit(void);

void world_new(bool fresh);
void world_spawn(void);

#endif /* SIM_WORLD_H */
