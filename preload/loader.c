// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "loader.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>

#include "call.h"
#include "next.h"
#include "thread.h"

#define LOADER_TRIES 8
/* Pauses of 20 us, together 20 ms. */
#define LOADER_PAUSES 1000

#pragma weak dlsym

/* The list at the last scan; its first @done objects were visited. The linker locks it. */
static struct loader_state {
	unsigned long long adds, subs;
	size_t done;
} loader_state;

/* --- fork --- */

/*
 * A child of fork() inherits the linker's lock as it is, and glibc does not reset it there: if
 * another thread held it, the child would wait for ever. So fork() waits until no thread is in
 * loader_each(), and a thread that comes then waits until fork() has returned. Both waits have an
 * end, as the thread that calls fork() may hold a lock that the other one needs.
 */
static int loader_users;
/*
 * A thread of the parent may have held the lock in dlopen(). Then no dlopen() of the child succeeds
 * either. So a child uses the lock only when an object stands behind this one, which was the last
 * one at fork(). NULL: the lock may be used.
 */
static const struct link_map *loader_last;
static bool loader_forks;

static void loader_pause(void)
{
	const struct timespec pause = { .tv_nsec = 20000 };

	call(SYS_nanosleep, (long)&pause, 0, 0, 0, 0, 0);
}

static void loader_before_fork(void)
{
	int i;

	__atomic_store_n(&loader_forks, true, __ATOMIC_SEQ_CST);
	for (i = 0; i < LOADER_PAUSES && __atomic_load_n(&loader_users, __ATOMIC_SEQ_CST); i++)
		loader_pause();
}

static void loader_after_fork(void)
{
	__atomic_store_n(&loader_forks, false, __ATOMIC_SEQ_CST);
}

static void loader_in_child(void)
{
	const struct link_map *map = next_self();

	while (map->l_next)
		map = map->l_next;
	loader_last = map;
	__atomic_store_n(&loader_users, 0, __ATOMIC_SEQ_CST);
	loader_after_fork();
}

static void loader_enter(void)
{
	static bool watched;
	int i;

	if (!__atomic_exchange_n(&watched, true, __ATOMIC_SEQ_CST))
		pthread_atfork(loader_before_fork, loader_after_fork, loader_in_child);
	__atomic_add_fetch(&loader_users, 1, __ATOMIC_SEQ_CST);
	for (i = 0; i < LOADER_PAUSES && __atomic_load_n(&loader_forks, __ATOMIC_SEQ_CST); i++) {
		__atomic_sub_fetch(&loader_users, 1, __ATOMIC_SEQ_CST);
		loader_pause();
		__atomic_add_fetch(&loader_users, 1, __ATOMIC_SEQ_CST);
	}
}

int loader_each(int (*each)(struct dl_phdr_info *info, size_t size, void *arg), void *arg)
{
	int result;

	loader_enter();
	result = dl_iterate_phdr(each, arg);
	__atomic_sub_fetch(&loader_users, 1, __ATOMIC_SEQ_CST);
	return result;
}

/* --- scans --- */

/* Returns 1 or 2 at the first object. */
static int loader_compare(struct dl_phdr_info *info, size_t size, void *arg)
{
	return 1 + (info->dlpi_adds != loader_state.adds || info->dlpi_subs != loader_state.subs);
}

bool loader_has_changed(void)
{
	const struct link_map *last = __atomic_load_n(&loader_last, __ATOMIC_RELAXED);

	if (last && !last->l_next)
		return false;
	__atomic_store_n(&loader_last, NULL, __ATOMIC_RELAXED);
	return loader_each(loader_compare, NULL) == 2;
}

struct loader_pass {
	struct loader_state state;
	int (*visit)(const struct dl_phdr_info *info);
	bool all;
	size_t at;
	int result;
};

static int loader_count(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct loader_state *state = &((struct loader_pass *)arg)->state;

	state->adds = info->dlpi_adds;
	state->subs = info->dlpi_subs;
	state->done++;
	return 0;
}

/* Returns 1 at the last object, and -1 if the positions in the list have changed. */
static int loader_visit(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct loader_pass *pass = arg;
	int result = 0;

	if (info->dlpi_subs != pass->state.subs)
		return -1;
	if (loader_state.subs != pass->state.subs)
		loader_state = (struct loader_state){ .subs = pass->state.subs };
	if (pass->at++ >= loader_state.done || pass->all)
		result = pass->visit(info);
	if (!pass->result)
		pass->result = result;
	if (pass->at < pass->state.done)
		return 0;
	loader_state = pass->state;
	return 1;
}

/*
 * dlopen() adds an object to the list, and sets its pointers after that. It holds another lock
 * meanwhile, which dlsym() takes. So the pointers of all objects that were in the list before
 * dlsym() are set after it, and only these objects are visited.
 *
 * Signals are blocked: the linker's lock lets a handler of the same thread pass, and its dlsym()
 * would scan the object that is being visited.
 */
int loader_scan(int (*visit)(const struct dl_phdr_info *info), bool all)
{
	uint64_t signals = thread_block_signals(0);
	struct loader_pass pass;
	int tries, end = -1;

	for (tries = 0; end < 0 && tries < LOADER_TRIES; tries++) {
		pass = (struct loader_pass){ .visit = visit, .all = all };
		loader_each(loader_count, &pass);
		dlsym(RTLD_DEFAULT, "dlsym");
		end = loader_each(loader_visit, &pass);
	}
	thread_restore_signals(signals);
	return pass.result;
}
