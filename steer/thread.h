/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The monitor thread, made by clone(2) alone. The C library does not know it, so a program of one
 * thread stays one for the C library: its malloc() takes no locks. The thread keeps no process
 * from ending. It must not call a function that needs a thread of the C library.
 */
#ifndef HM_STEER_THREAD_H
#define HM_STEER_THREAD_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Memory for a thread: its stack, and zeros in place of thread-local data. */
#define THREAD_BYTES (128u << 10)

/**
 * struct thread - one thread at a time
 * @id: its number; the kernel makes it 0 when the thread has left its stack
 * @last: its number, until thread_wait_gone() has returned
 */
struct thread {
	int32_t id;
	int32_t last;
};

/*
 * clone(2) by its instruction: sanitizers replace the C library's function, and run code of their
 * own in the new thread, for which it has no thread-local data. The new stack ends at @stack. The
 * task ends with the result of @run. Returns the number of the task, or -errno.
 */
long thread_clone(long flags, void *stack, int32_t *id, void *tls, int (*run)(void *arg));

/*
 * Signals of the instruction or the system call itself. The kernel ends the process if it must send
 * a blocked one. A filter of the program may answer a call by SIGSYS.
 */
#define THREAD_OWN_SIGNALS                                                     \
	(1ull << (SIGILL - 1) | 1ull << (SIGTRAP - 1) | 1ull << (SIGBUS - 1) | \
	 1ull << (SIGFPE - 1) | 1ull << (SIGSEGV - 1) | 1ull << (SIGSYS - 1))

/* For call sites that a signal handler must not interrupt. Return the signals blocked before. */
uint64_t thread_block_signals(uint64_t except);
void thread_restore_signals(uint64_t before);

/*
 * Run a function in a new thread, as soon as the last one has left the memory. The caller has
 * blocked all signals; the thread inherits that. Returns 0 or -errno.
 */
int thread_begin(struct thread *thread, void *memory, int (*run)(void *arg));

/* Returns whether the thread has not left its stack. */
bool thread_is_there(const struct thread *thread);

/*
 * Wait until the kernel does not count the thread any more. Returns false if the thread has not
 * left its stack within 10 ms.
 */
bool thread_wait_gone(struct thread *thread);

#endif /* HM_STEER_THREAD_H */
