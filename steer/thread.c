// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "thread.h"

#include "call.h"

#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#define THREAD_TLS_BYTES (16u << 10)
/* Pauses of 50 us, together a second, for the end of a thread that has left its stack. */
#define THREAD_PAUSES 20000u

/*
 * The thread register points to this memory, because the compiler's stack protector and lazily
 * bound calls read there. It holds zeros, and on x86-64 its own address in two places.
 */
static void *thread_make_tls(void *memory)
{
	char *at = (char *)memory + THREAD_TLS_BYTES / 2;

	memset(memory, 0, THREAD_TLS_BYTES);
	memcpy(at, &at, sizeof(at));
	memcpy(at + 16, &at, sizeof(at));
	return at;
}

static bool thread_exists(int32_t id)
{
	return call(SYS_tgkill, call(SYS_getpid, 0, 0, 0, 0, 0, 0), id, 0, 0, 0, 0) != -ESRCH;
}

bool thread_is_there(const struct thread *thread)
{
	int32_t id = __atomic_load_n(&thread->id, __ATOMIC_ACQUIRE);

	/* In a child of a raw fork, @id may be the number of a thread of the parent. */
	return id && thread_exists(id);
}

/* Returns false if the thread has not left its stack within 10 ms. */
static bool thread_wait_left(struct thread *thread)
{
	const struct timespec time = { .tv_nsec = 10000000 };
	int32_t id = __atomic_load_n(&thread->id, __ATOMIC_ACQUIRE);

	/* At the end of a thread, the kernel wakes the waiters of a shared futex. */
	if (thread_is_there(thread))
		call(SYS_futex, (long)&thread->id, FUTEX_WAIT, id, (long)&time, 0, 0);
	return !thread_is_there(thread);
}

uint64_t thread_block_signals(uint64_t except)
{
	uint64_t all = ~except, before = 0;

	call(SYS_rt_sigprocmask, SIG_BLOCK, (long)&all, (long)&before, sizeof(all), 0, 0);
	return before;
}

void thread_restore_signals(uint64_t before)
{
	call(SYS_rt_sigprocmask, SIG_SETMASK, (long)&before, 0, sizeof(before), 0, 0);
}

long thread_clone(long flags, void *stack, int32_t *id, void *tls, int (*run)(void *arg))
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
	long id;

	while (!thread_wait_left(thread))
		;
	id = thread_clone(flags, (char *)memory + THREAD_BYTES, &thread->id,
			  thread_make_tls(memory), run);
	if (id < 0)
		return (int)id;
	__atomic_store_n(&thread->last, (int32_t)id, __ATOMIC_RELEASE);
	return 0;
}

bool thread_wait_gone(struct thread *thread)
{
	const struct timespec pause = { .tv_nsec = 50000 };
	int32_t last = __atomic_load_n(&thread->id, __ATOMIC_ACQUIRE);
	unsigned int i;

	/* @id is set before the thread runs, @last only after that. */
	if (!last)
		last = __atomic_load_n(&thread->last, __ATOMIC_ACQUIRE);
	if (!thread_wait_left(thread))
		return false;
	/*
	 * A thread that has left its stack waits for nothing any more, but the kernel counts it
	 * a moment longer. If its number is in use after a second, another thread has got it.
	 */
	for (i = 0; last && i < THREAD_PAUSES && thread_exists(last); i++)
		call(SYS_nanosleep, (long)&pause, 0, 0, 0, 0, 0);
	__atomic_compare_exchange_n(&thread->last, &last, 0, false, __ATOMIC_ACQ_REL,
				    __ATOMIC_RELAXED);
	return true;
}
