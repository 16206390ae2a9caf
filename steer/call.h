/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * System calls by their instruction. They return a negative errno and touch no data of the C
 * library: not errno, and no other data of a thread. The program's threads run this code in
 * their own calls, and the C library does not know the monitor thread.
 */
#ifndef HM_STEER_CALL_H
#define HM_STEER_CALL_H

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>

#if defined(__x86_64__)
static inline long call(long number, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return result;
}
#elif defined(__aarch64__)
static inline long call(long number, long a, long b, long c, long d, long e, long f)
{
	register long x8 __asm__("x8") = number;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;
	register long x5 __asm__("x5") = f;

	__asm__ volatile("svc 0"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
			 : "memory");
	return x0;
}
#else
#error "steering knows the system calls of x86-64 and arm64"
#endif

static inline bool call_failed(long result)
{
	return result < 0 && result > -4096;
}

static inline uint64_t clock_ns(clockid_t clock)
{
	struct timespec time = {};

	call(SYS_clock_gettime, clock, (long)&time, 0, 0, 0, 0);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static inline uint64_t now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

/* Read a small file as text that ends with a zero. Returns the length; 0 if that fails. */
static inline long call_read_text(const char *path, char *text, long size)
{
	long fd = call(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC, 0, 0, 0), n;

	text[0] = '\0';
	if (fd < 0)
		return 0;
	n = call(SYS_read, fd, (long)text, size - 1, 0, 0, 0);
	call(SYS_close, fd, 0, 0, 0, 0, 0);
	n = n < 0 ? 0 : n;
	text[n] = '\0';
	return n;
}

#endif /* HM_STEER_CALL_H */
