/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The watcher's thread, made by the kernel alone. The C library does not know it: so it
 * goes on taking the program for what it was (a program of one thread has a malloc()
 * without locks), making it calls no allocator, and it does not keep a process from
 * ending. It must not call anything that needs a thread of the C library's.
 */
#ifndef HM_STEER_THREAD_H
#define HM_STEER_THREAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of memory for a thread: its stack, and what stands where thread-local data would. */
#define THREAD_BYTES (128u << 10)

/**
 * struct thread - one thread at a time
 * @id: its number; the kernel makes it 0 when it has left its stack
 * @last: its number; stays
 */
struct thread {
	int32_t id;
	int32_t last;
};

/*
 * Run a function in a new thread that takes no signals, as soon as the last one has left
 * the memory. Returns 0 or -errno.
 */
int thread_begin(struct thread *thread, void *memory, int (*run)(void *arg));

/* The kernel counts it no more; false: not within that time. */
bool thread_wait_gone(const struct thread *thread, uint64_t ns);

#endif /* HM_STEER_THREAD_H */
