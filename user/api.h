/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What the files that have the calls of hugemap.h share (api.c, api_range.c, api_file.c).
 *
 * Owns: the caller's errno, signals and structures during a call.
 * Locks: takes pools_lock and maps_lock to find what is mapped; none while it waits.
 */
#ifndef HM_API_H
#define HM_API_H

#include "objects.h"
#include "reason.h"
#include "signals.h"

#include <errno.h>
#include <pthread.h>

#define PAGE_MASK ((uintptr_t)HM_PAGE_SIZE - 1)

struct call {
	int saved_errno, cancel_state;
	sigset_t signals;
};

static inline struct call call_begin(void)
{
	struct call call = { .saved_errno = errno };

	signals_hold(&call.signals);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &call.cancel_state);
	reason_clear();
	return call;
}

static inline void call_end(const struct call *call)
{
	pthread_setcancelstate(call->cancel_state, NULL);
	signals_release(&call->signals);
	errno = call->saved_errno;
}

/*
 * The beginning of every call. errno is the program's; there is no reason yet; and no
 * handler of a signal may touch a mapping while this thread holds a lock that a fault
 * needs. pthread_cancel() waits: a handler may have a request that lies on our stack.
 */
#define CALL_BEGINS()                                                        \
	__attribute__((cleanup(call_end))) struct call call_ = call_begin(); \
	(void)call_

/**
 * take_struct() - a structure of the program's, as this library knows it
 * @to: ours, all of it is set
 * @ours: its size
 * @from: the program's; begins with a size_t, its size
 *
 * As clone3(2): what an older program does not know is 0, and what a newer one asks
 * for beyond our knowledge must be 0.
 *
 * Return: 0, -EINVAL: the size was not set, or -E2BIG.
 */
int take_struct(void *to, size_t ours, const void *from);

/* The reverse, for results: as much as the program has room for. */
int give_struct(void *to, const void *from, size_t ours);

/* A range as the calls take it; page: the address must be a multiple of 4096. */
int check_range(void *addr, size_t length, bool page, char **start, char **end);
int not_mapped(void);

/*
 * The pool with the first mapping in a range, which starts at *at; or NULL. pools_lock is
 * held, until the pool is not needed any more: it may be destroyed then.
 */
struct pool *find_first(char *start, const char *end, char **at);
/* The same for the pool that has an address mapped. */
struct pool *find_pool(const char *addr);

/* The first part of a range: of one mapping of a pool, or what comes before there is one. */
struct part {
	struct store *store; /* with a reference, which keeps its pool; NULL: no pool has it */
	u64 map_id;
	u64 pgoff, end_pgoff;
	char *end;
};

void first_part(char *start, char *end, struct part *part);
/* It is not needed any more. Return: @err, or what giving the store back says. */
int put_part(const struct part *part, int err);

static inline void *error_pointer(int err)
{
	return (void *)(intptr_t)err;
}

#endif /* HM_API_H */
