/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The keeper: a process that shares the memory of this one and outlives it, to
 * write what is dirty to its files when this one is killed, crashes, or calls
 * exec. So a store survives what it survives with mmap: anything but the
 * machine (or, unlike mmap, the container or control group) going down.
 */
#ifndef HM_KEEPER_H
#define HM_KEEPER_H

#include <pthread.h>
#include <sys/types.h>

struct pool;
struct keeper;

/* Prepare a keeper for a pool (unless it does without). 0 or -ENOMEM. */
int keeper_create(struct pool *pool);

/**
 * keeper_start() - start the keeper of a pool, if it has none
 *
 * Called when the first writable mapping is made. maps_lock is not held.
 *
 * Return: 0 or a negative errno: there is none then.
 */
int keeper_start(struct pool *pool);

/* No store will come any more, and handler 0 has ended: so does the keeper. */
void keeper_stop(struct pool *pool);

/*
 * The thread whose death the keeper watches holds this lock all its life. It is
 * a robust mutex: the kernel marks it when its owner dies, however that happens.
 */
void keeper_watch_me(struct pool *pool);
void keeper_forget_me(struct pool *pool);

#endif /* HM_KEEPER_H */
