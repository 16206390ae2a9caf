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

/*
 * clone(2) by its instruction: sanitizers replace the C library's function, and run code of
 * their own in the new thread, for which it has no thread-local data. The new stack holds @run.
 */
static long thread_clone(long flags, void *stack, int32_t *id, void *tls, int (*run)(void *arg))
{
	void **top = (void **)stack - 2;
#if defined(__x86_64__)
	register int32_t *r10 __asm__("r10") = id;
	register void *r8 __asm__("r8") = tls;
	long result;

	*top = (void *)run;
	__asm__ volatile("syscall\n\t"
			 "test %%rax, %%rax\n\t"
			 "jnz 1f\n\t"
			 "xor %%ebp, %%ebp\n\t"
			 "xor %%edi, %%edi\n\t"
			 "call *(%%rsp)\n\t"
			 "mov %%eax, %%edi\n\t"
			 "mov %[exit], %%eax\n\t"
			 "syscall\n\t"
			 "1:"
			 : "=a"(result)
			 : "a"(SYS_clone), "D"(flags), "S"(top), "d"(id), "r"(r10),
			   "r"(r8), [exit] "i"(SYS_exit)
			 : "rcx", "r11", "memory");
	return result;
#elif defined(__aarch64__)
	register long x8 __asm__("x8") = SYS_clone;
	register long x0 __asm__("x0") = flags;
	register void *x1 __asm__("x1") = top;
	register int32_t *x2 __asm__("x2") = id;
	register void *x3 __asm__("x3") = tls;
	register int32_t *x4 __asm__("x4") = id;

	*top = (void *)run;
	__asm__ volatile("svc 0\n\t"
			 "cbnz x0, 1f\n\t"
			 "mov x29, xzr\n\t"
			 "ldr x1, [sp]\n\t"
			 "blr x1\n\t"
			 "mov x8, %[exit]\n\t"
			 "svc 0\n\t"
			 "1:"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), [exit] "i"(SYS_exit)
			 : "memory");
	return x0;
#endif
}

int thread_begin(struct thread *thread, void *memory, int (*run)(void *arg))
{
	const int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
			  CLONE_SYSVSEM | CLONE_SETTLS | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID;
	uint64_t all = ~0ull, before = 0;
	long id;

	if (!wait_left(thread))
		return -EAGAIN;
	/* It inherits that no signal may come to it. */
	call(SYS_rt_sigprocmask, SIG_SETMASK, (long)&all, (long)&before, sizeof(all), 0, 0);
	id = thread_clone(flags, (char *)memory + THREAD_BYTES, &thread->id, make_tls(memory), run);
	call(SYS_rt_sigprocmask, SIG_SETMASK, (long)&before, 0, sizeof(before), 0, 0);
	if (id < 0)
		return (int)id;
	__atomic_store_n(&thread->last, (int32_t)id, __ATOMIC_RELEASE);
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
