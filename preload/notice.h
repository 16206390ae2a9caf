/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Lines for -v and --summary about programs that are not steered. */
#ifndef PRELOAD_NOTICE_H
#define PRELOAD_NOTICE_H

/*
 * Writes "hugemap run: PID: NAME WHY" to standard error, if -v or --summary is set, and counts the
 * program by tally_add(). It may be called in a child of vfork(). @name may be NULL: the program
 * itself.
 */
void notice(const char *name, const char *why, unsigned char byte);

#endif /* PRELOAD_NOTICE_H */
