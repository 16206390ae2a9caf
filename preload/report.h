/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The summary on standard error when the program ends. */
#ifndef PRELOAD_REPORT_H
#define PRELOAD_REPORT_H

/* Without this call, there is no summary. */
void report_open(char *const *environment);

#endif /* PRELOAD_REPORT_H */
