/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * No handler of a signal may run while this thread has a lock of ours: it may touch a
 * mapping, or call the library.
 *
 * Owns: nothing. Locks: none.
 */
#ifndef HM_SIGNALS_H
#define HM_SIGNALS_H

#include <pthread.h>
#include <signal.h>

/* But those that tell of what the thread itself does wrong. @old: for signals_release() */
static inline void signals_hold(sigset_t *old)
{
	static const int own_fault[] = {
		SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS
	};
	sigset_t all;
	size_t i;

	sigfillset(&all);
	for (i = 0; i < sizeof(own_fault) / sizeof(own_fault[0]); i++)
		sigdelset(&all, own_fault[i]);
	pthread_sigmask(SIG_BLOCK, &all, old);
}

static inline void signals_release(const sigset_t *old)
{
	pthread_sigmask(SIG_SETMASK, old, NULL);
}

#endif /* HM_SIGNALS_H */
