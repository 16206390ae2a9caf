/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * System calls as the kernel has them: a negative errno, and the C library's errno left
 * as it is. Others' calls come by here, so nothing else of the C library is used.
 */
#ifndef HM_STEER_CALL_H
#define HM_STEER_CALL_H

#include <errno.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static inline long call(long number, long a, long b, long c, long d, long e, long f)
{
	int saved = errno;
	long result = syscall(number, a, b, c, d, e, f);

	if (result == -1) {
		result = -errno;
		errno = saved;
	}
	return result;
}

static inline uint64_t clock_ns(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static inline uint64_t now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

#endif /* HM_STEER_CALL_H */
