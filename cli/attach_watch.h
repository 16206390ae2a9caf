/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* hugemap attach: scanning the page tables of another process. */
#ifndef CLI_ATTACH_WATCH_H
#define CLI_ATTACH_WATCH_H

#include <stdint.h>
#include <sys/types.h>

struct attach;
struct attach_settings;

/* Returns 0, or -errno with the reason in a sentence. Undo with attach_close(). */
int attach_open(pid_t pid, const struct attach_settings *settings, struct attach *attach,
		char why[256]);
/* Scan and advise if it is time; returns the time to wait for the next call, in ns. */
uint64_t attach_step(struct attach *attach);
/* Scan for the last time, before the summary. */
void attach_finish(struct attach *attach);
void attach_close(struct attach *attach);

#endif /* CLI_ATTACH_WATCH_H */
