/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The exerciser of the pool engine: random operations on a file that is mapped through
 * a pool, each byte of each answer compared with a copy in memory; after each sync the
 * file itself is, too. With what tests/exercise/ has for all exercisers: exercise.h says
 * who owns which pages where there are several threads.
 *
 *	main.c	options, the pool, threads
 *	maps.c	mappings that are kept over many operations, and fresh ones
 *	calls.c	the library's calls on the file, and the comparison of all of it
 *	dma.c	direct I/O into mappings and out of them; pages that a device keeps
 */
#ifndef EXERCISE_POOL_H
#define EXERCISE_POOL_H

#include "exercise.h"
#include "hugemap.h"

extern struct hugemap_pool *pool;

/* main.c */
void pool_begin(uint64_t seed);
void pool_end(void);

/* maps.c */
void *map_pool(struct worker *w, uint64_t off, uint64_t len, int prot);
struct kept *pick_kept(struct worker *w, bool writable, uint64_t *len);
void call(struct worker *w, const char *what, int err);
void op_keep(struct worker *w);
void op_kept_read(struct worker *w);
void op_kept_write(struct worker *w);
void op_fresh_read(struct worker *w);
void op_fresh_write(struct worker *w);
void op_stream(struct worker *w);
void op_unmap(struct worker *w);
void op_remap(struct worker *w);
void op_sync(struct worker *w);
void op_advise(struct worker *w);
void op_prefetch(struct worker *w);

/* calls.c */
void op_pread(struct worker *w);
void op_pwrite(struct worker *w);
void op_read_self(struct worker *w);
void op_write_self(struct worker *w);
void op_truncate(struct worker *w);
void op_punch(struct worker *w);
void op_flush(struct worker *w);
void op_limit(struct worker *w);
void op_verify(struct worker *w);
void op_anew(struct worker *w);

/* dma.c */
void op_direct_into(struct worker *w);
void op_direct_from(struct worker *w);
void op_pin(struct worker *w);

#endif /* EXERCISE_POOL_H */
