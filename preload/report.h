/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The summary on standard error when the program ends. A program that limits its system calls has
 * it before, as the limit may not allow the calls that write it.
 */
#ifndef PRELOAD_REPORT_H
#define PRELOAD_REPORT_H

/* Without this call, there is no summary. */
void report_open(void);
/*
 * Print the summary now, once. A process without a steered mapping prints nothing, such as most
 * children of a shell.
 */
void report_print(void);

#endif /* PRELOAD_REPORT_H */
