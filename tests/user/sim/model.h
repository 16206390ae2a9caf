/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What must hold. A page has a value; while something that changes it is under way (a
 * pwrite(), a truncation, a device that stores into a mapping) it has one of several.
 */
#ifndef SIM_MODEL_H
#define SIM_MODEL_H

#include "os.h"

#define CANDIDATES 6u

struct model_page {
	u64 value[CANDIDATES]; /* one of these */
	u32 n;
	u64 flight[CANDIDATES]; /* may come at any moment */
	u32 nflight;
	u64 changes; /* counted */
	u64 settled; /* loads that found which one it is, counted */
	u64 zeroed; /* changes when zeros, or an older version, began to be written last */
	u64 floor; /* the version that a sync promised */
	bool any; /* not known: too much at a time, or somebody broke a rule */
	bool owned; /* by one caller, as a buffer */
};

struct model_file {
	struct model_page page[MAX_PAGES];
	bool failing[MAX_BLOCKS]; /* the last write of the block has failed */
	bool failed_before[MAX_BLOCKS]; /* who is told again, and when, is the core's to know */
	u64 failed_at[MAX_BLOCKS]; /* the count when it began to */
	u64 failures; /* writes and flushes, counted */
	u64 failed_step; /* when the last one came */
	bool flush_failed; /* once */
};

extern struct model_file model_files[MAX_FILES];

/* What something that is under way found. */
struct change {
	u64 value;
	u64 changes;
	bool was_there;
};

enum ended {
	CHANGE_DONE,
	CHANGE_NOT, /* nothing has changed */
	CHANGE_PERHAPS,
};

u64 model_new_value(u32 file, u64 page);
void model_loaded(u32 file, u64 page, u64 value);
void model_stored(u32 file, u64 page, u64 value);
void model_begin(u32 file, u64 page, u64 value, struct change *change);
void model_end(u32 file, u64 page, const struct change *change, enum ended ended);
void model_forget(u32 file); /* somebody broke a rule */
bool model_is_owned(u32 file, u64 from, u64 to); /* any page */
void model_lost(u32 file);
u64 model_least(u32 file, u64 page); /* the oldest version that it may hold */
void model_synced(u32 file, u64 page, u64 least, u64 changes);
void model_check_file(u32 file, u64 page, u64 least, u64 changes);

/* audit.c: stores may have come without room: in the window of a move, or where pins are */
bool stores_slipped(void);

void model_start(bool fresh); /* the files are what the process finds */
void model_after_power_cut(void);

#endif /* SIM_MODEL_H */
