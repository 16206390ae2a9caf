/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A handler thread: what it has to do, and how others ask it to (request.c). What it does
 * then is above: fault.h, write.h, evict.h.
 *
 * Owns: the requests, from when they are made until a handler takes them.
 * Locks: takes handler->lock, and that of a sync for who waits for it.
 */
#ifndef HM_HANDLER_H
#define HM_HANDLER_H

#include "io.h"
#include "objects.h"

#define MAX_HANDLERS 16u
#define MAX_PLANS 64u
#define MAX_PENDING 1024u
#define MAX_POISONED 256u

/* A fault that could not be served yet: no frame, or the file is changing. */
struct pending {
	uintptr_t addr;
	bool write;
	bool missing; /* not only protected */
	u64 arrived_ns;
	u32 looks; /* at it since then: we may have been stopped ourselves */
	bool counted; /* as a hit, which could not be served */
};

/* Blocks to bring in, or to write, as operations become free. */
struct job {
	enum job_type {
		JOB_AHEAD, /* a stream's plan */
		JOB_PREFETCH, /* asked for; waits for frames, not for a reader */
		JOB_BEHIND, /* write a range */
	} type;
	struct store *store;
	u64 map_id;
	struct hm_plan plan;
	u64 pos, end;
};

/* A sync, or a flush before something else, asked of a handler. */
struct sync_request {
	struct store *store;
	u64 proved; /* up to here it is known what is dirty */
	u64 pos, end; /* base pages */
	u32 ops; /* under way */
	int err;
	bool walked, done;
	pthread_mutex_t lock;
	pthread_cond_t cond;
	struct sync_request *next;
};

struct handler {
	struct pool *pool;
	pthread_t thread;
	u32 index;
	struct io io;
	int event_fd;
	int started; /* 0, 1 = works, or a negative errno; under lock */

	pthread_mutex_t lock;
	pthread_cond_t cond;
	struct sync_request *new_syncs;
	struct job new_jobs[MAX_PLANS];
	u32 nnew_jobs;

	/* this thread's own */
	struct sync_request *syncs;
	struct job jobs[MAX_PLANS];
	u32 njobs;
	struct pending pending[MAX_PENDING];
	u32 npending;
	struct poisoned {
		uintptr_t addr, end; /* end: protected, not poisoned */
		u64 until_ms;
	} poisoned[MAX_POISONED]; /* to be undone; see trap.c */
	u32 npoisoned;
	u32 wb_ops; /* background write-back under way */
	u32 wb_passes; /* that ended, of what it is at */
	bool wb_goes_on; /* in the next round */
	u32 at_once; /* blocks whose write-back ended without I/O, in this round */
	bool reclaim; /* free frames are few */
	bool again; /* there is more to do: do not wait */
	u32 short_waits; /* how many of the last waits were short */
	size_t zeroed; /* bytes, in this round */
	bool faults_left; /* the last read did not get them all */
	u64 now_ms, published_ms;
};

/* Of who looks again and again whether others are done; zeros at first. */
struct patience {
	u64 since_ns, pinned_since_ns;
	u32 looks; /* since then */
};

void handler_kick(struct handler *h);
void handlers_kick(struct pool *pool);
void handler_news(struct pool *pool);
struct handler *handler_any(struct pool *pool);
bool handler_job(struct handler *h, const struct job *job);
void handlers_forget(struct pool *pool, const struct store *store);
void job_give_up(const struct job *job);
int sync_range(struct store *store, u64 pos, u64 end);
bool look_again(struct patience *patience, bool pinned);
bool look_again_unsure(struct patience *patience);

#endif /* HM_HANDLER_H */
