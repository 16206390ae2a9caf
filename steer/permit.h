/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Whether the monitor thread may be started in this process, now. */
#ifndef HM_STEER_PERMIT_H
#define HM_STEER_PERMIT_H

#include <stdbool.h>

/* Pages have 4 KB. Other sizes need other tables and other advice. */
bool permit_page_size(void);

/*
 * Filters of system calls (seccomp) allow the monitor's calls. The answer is found out once
 * per process. @stack is the end of memory for a stack.
 */
bool permit_calls(void *stack);

/*
 * Closing a copy of a descriptor of the program does nothing. The kernel gives the monitor a
 * table of its own only as a copy: see permit.c.
 */
bool permit_descriptors(void);

#endif /* HM_STEER_PERMIT_H */
