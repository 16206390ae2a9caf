// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* A thread by clone(2). */
#include "thread.h"

#include "call.h"

#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#define TLS_BYTES (16u << 10)
/* The last one is about to go when the next one is wanted. */
#define LEAVE_NS 100000000ull

/*
 * The compiler's stack protector, and a lazily bound call, look at what the thread
 * register points to: zeros, and itself where x86-64 has its own address.
 */
static void *make_tls(void *memory)
{
	char *at = (char *)memory + TLS_BYTES / 2;

	memset(memory, 0, TLS_BYTES);
	memcpy(at, &at, sizeof(at));
	memcpy(at + 16, &at, sizeof(at));
	return at;
}

static bool wait_left(struct thread *thread)
{
	uint64_t until = now_ns() + LEAVE_NS;
	struct timespec time = { .tv_nsec = 1000000 };
	int32_t id;

	while ((id = __atomic_load_n(&thread->id, __ATOMIC_ACQUIRE))) {
		if (now_ns() > until)
			return false;
		/* The kernel wakes by the shared kind of futex. */
		call(SYS_futex, (long)&thread->id, FUTEX_WAIT, id, (long)&time, 0, 0);
	}
	return true;
}

int thread_begin(struct thread *thread, void *memory, int (*run)(void *arg))
{
	const int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
			  CLONE_SYSVSEM | CLONE_SETTLS | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID;
	uint64_t all = ~0ull, before = 0;
	int saved = errno, id;

	if (!wait_left(thread))
		return -EAGAIN;
	/* It inherits that no signal may come to it. */
	call(SYS_rt_sigprocmask, SIG_SETMASK, (long)&all, (long)&before, sizeof(all), 0, 0);
	id = clone(run, (char *)memory + THREAD_BYTES, flags, NULL, &thread->id, make_tls(memory),
		   &thread->id);
	call(SYS_rt_sigprocmask, SIG_SETMASK, (long)&before, 0, sizeof(before), 0, 0);
	if (id < 0) {
		id = -errno;
		errno = saved;
		return id;
	}
	__atomic_store_n(&thread->last, id, __ATOMIC_RELEASE);
	return 0;
}

bool thread_wait_gone(const struct thread *thread, uint64_t ns)
{
	const struct timespec pause = { .tv_nsec = 50000 };
	uint64_t until = now_ns() + ns;
	long pid = call(SYS_getpid, 0, 0, 0, 0, 0, 0);
	int32_t last;

	do {
		last = __atomic_load_n(&thread->last, __ATOMIC_ACQUIRE);
		if (!last || call(SYS_tgkill, pid, last, 0, 0, 0, 0) == -ESRCH)
			return true;
		call(SYS_nanosleep, (long)&pause, 0, 0, 0, 0, 0);
	} while (now_ns() < until);
	return false;
}
