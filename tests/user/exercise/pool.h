/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The exerciser of the pool engine: random operations on a file that is mapped through
 * a pool, each byte of each answer compared with a copy in memory; after each sync the
 * file itself is, too. What tests/exercise/ has for all exercisers, and:
 *
 *	pool.c	the pool, the operations by name
 *	maps.c	mappings by the library's calls, and what only these can do
 *	calls.c	the library's calls on the file
 *	pin.c	pages that a device keeps
 */
#ifndef EXERCISE_POOL_H
#define EXERCISE_POOL_H

#include "hugemap.h"
#include "ops.h"

extern struct hugemap_pool *pool;

/* pool.c */
void pool_begin(uint64_t seed);
void pool_end(void);

/* maps.c */
void call(struct worker *w, const char *what, int err);
void op_stream(struct worker *w);
void op_remap(struct worker *w);
void op_advise(struct worker *w);
void op_prefetch(struct worker *w);

/* calls.c */
void op_flush(struct worker *w);
void op_limit(struct worker *w);
void op_anew(struct worker *w);

/* pin.c */
void op_pin(struct worker *w);

#endif /* EXERCISE_POOL_H */
