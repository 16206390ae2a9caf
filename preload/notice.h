/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Lines for -v and --summary about programs that are not steered. */
#ifndef PRELOAD_NOTICE_H
#define PRELOAD_NOTICE_H

/*
 * Writes "hugemap run: PID: NAME WHY" to standard error, if -v or --summary is set. It may be
 * called in a child of vfork(). @name may be NULL: the program itself.
 */
void notice(const char *name, const char *why);

#endif /* PRELOAD_NOTICE_H */
