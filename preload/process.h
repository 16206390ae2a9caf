/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The process becomes one in which the monitor thread could do harm. */
#ifndef PRELOAD_PROCESS_H
#define PRELOAD_PROCESS_H

/*
 * A seccomp filter may be installed on all threads. It allows the system calls that the program
 * makes, and may kill the process for one that only this library makes. So the monitor thread ends
 * for good.
 */
void process_begin_filter(void);

#endif /* PRELOAD_PROCESS_H */
