/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Calls that read the program's memory, where a system call may not fault in a
 * mapping of the engine (--user-mode); see gather.c.
 */
#ifndef SHIM_GATHER_H
#define SHIM_GATHER_H

#include "shim.h"

#include <sys/uio.h>

/* A call, and how to make it. */
struct gather {
	/* As the program's, for these bytes; @done of all are over. */
	ssize_t (*call)(const struct gather *gather, const struct iovec *iov, int n, size_t done);
	int fd; /* -1: it has none */
	int flags;
	off_t offset;
	const struct msghdr *message;
	const struct iovec *remote; /* of another process */
	unsigned long nremote;
	pid_t pid;
	bool keeps; /* the kernel keeps the memory after the call */
};

/* Can the kernel not fault in mappings of the engine? */
static inline bool gather_on(void)
{
	return unlikely(atomic_load_explicit(&shim_user_mode, memory_order_relaxed));
}

static inline bool gather_needed(const void *addr, size_t length)
{
	return gather_on() && shim_concerns(addr, length);
}

bool gather_concerns(const struct iovec *iov, int n);
bool gather_there(const void *addr, size_t length);
void gather_fetch(const void *addr, size_t length);
ssize_t gather_from(const struct gather *gather, const void *buffer, size_t count);
ssize_t gather_rest(const struct gather *gather, const struct iovec *iov, int n, ssize_t result);

/* --- calls_user.c: these calls, when gather_on() --- */
ssize_t user_write(int fd, const void *buffer, size_t count);
ssize_t user_pwrite(int fd, const void *buffer, size_t count, off_t offset);
ssize_t user_writev(int fd, const struct iovec *iov, int n);
ssize_t user_pwritev(int fd, const struct iovec *iov, int n, off_t offset);
ssize_t user_pwritev2(int fd, const struct iovec *iov, int n, off_t offset, int flags);
ssize_t user_sendmsg(int fd, const struct msghdr *message, int flags);
bool gather_by_number(long number, const long a[6], long *result);

#endif /* SHIM_GATHER_H */
