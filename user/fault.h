/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The way of a fault. handler.c: a handler thread waits for one, among other work;
 * fault.c: reads it and asks the core; hit.c: maps a block that is cached; fill.c: reads
 * one that is not, or fills it with zeros; room.c: has the file system make room for
 * stores to a hole; stream.c: brings in what will be wanted next;
 * trap.c: SIGBUS and SIGSEGV.
 *
 * Owns: the threads; faults that wait; units that are being filled; poisoned pages.
 * Locks: takes maps_lock for reading, block_lock(), and handler->lock to take requests.
 */
#ifndef HM_FAULT_H
#define HM_FAULT_H

#include "handler.h"

/* --- handler.c ------------------------------------------------------------------ */
int handlers_start(struct pool *pool, u32 n);
void handlers_stop(struct pool *pool);

/* --- fault.c -------------------------------------------------------------------- */
void fault_read_all(struct handler *h);
void fault_retry_pending(struct handler *h);

/* --- hit.c ---------------------------------------------------------------------- */
/* What became of a fault. */
enum served {
	SERVED,
	SERVE_LATER, /* try again */
	SERVE_NO_FRAME, /* try again if a frame can be freed now */
	SERVE_REFUSED, /* try again, but not for ever: the program is in the way */
	SERVE_GONE, /* the program has unmapped the block itself, or a part of it */
};

enum served hit_serve(struct mapping *map, const struct hm_unit *unit, bool write, bool missing);

/* --- fill.c: the block lock is held but for fill_complete() ---------------------- */
int fill_start(struct handler *h, struct mapping *map, const struct hm_unit *unit,
	       const struct pending *fault);
void fill_complete(struct handler *h, struct io_op *op);
bool fill_is_hollow(struct store *store, const struct hm_unit *unit);
void fill_zero(struct mapping *map, const struct hm_unit *unit);

/* --- room.c: the same ------------------------------------------------------------- */
int room_start(struct handler *h, struct mapping *map, u64 pgoff, const struct pending *fault);
void room_complete(struct handler *h, struct io_op *op);

/* --- stream.c ------------------------------------------------------------------- */
void stream_hint(struct handler *h, struct mapping *map, u64 pgoff, u32 access);
void stream_add_job(struct handler *h, const struct job *job);
void stream_run_jobs(struct handler *h);

/* --- trap.c: signals for faults that cannot be served ----------------------------- */
void trap_bus(struct handler *h, uintptr_t addr);
void trap_segv(struct handler *h, struct mapping *map, uintptr_t addr);
void trap_heal(struct handler *h);

#endif /* HM_FAULT_H */
