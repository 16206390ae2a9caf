/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Whether the monitor thread may be started in this process, now. */
#ifndef HM_STEER_PERMIT_H
#define HM_STEER_PERMIT_H

#include <stdbool.h>

/* Returns whether pages have 4 KB. Other sizes need other tables and other advice. */
bool permit_page_size(void);

/*
 * Returns whether the kernel has close_range(2), and no filter refuses it. Without this call the
 * monitor cannot have descriptors of its own.
 */
bool permit_close_range(void);

/*
 * Returns whether filters of system calls (seccomp) allow the monitor's calls. This is tested once
 * per process. Of the calls that the program does not make itself, the test needs getpid(2),
 * rt_sigprocmask(2), prctl(2), clone(2) and wait4(2).
 */
bool permit_calls(void);

/*
 * Returns whether closing a copy of a descriptor of the program has no effect outside. The kernel
 * gives the monitor a table of its own only as a copy: see permit.c.
 */
bool permit_descriptors(void);

#endif /* HM_STEER_PERMIT_H */
