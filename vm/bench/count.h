/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* For the programs that count their own instructions in a guest: see count-insns.c. */
#ifndef COUNT_H
#define COUNT_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* The number of instructions of the guest so far. */
static inline uint64_t now(void)
{
	uint32_t low, high;

	__asm__ volatile("lfence; rdtsc; lfence" : "=a"(low), "=d"(high)::"memory");
	return (uint64_t)high << 32 | low;
}

/* Print the error of a call, and exit. */
static inline void fail(const char *what)
{
	perror(what);
	exit(1);
}

#endif /* COUNT_H */
