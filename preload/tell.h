/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The statistics of steering as text, for `hugemap run --summary` and `hugemap stat`. */
#ifndef PRELOAD_TELL_H
#define PRELOAD_TELL_H

#include "page.h"

/**
 * tell_page() - print the statistics
 * @page: see steer/page.h
 * @ended: include mappings that have ended
 * @put: called with each line, without a newline
 * @arg: passed to @put
 */
void tell_page(const struct steer_page *page, bool ended, void (*put)(const char *line, void *arg),
	       void *arg);

/* The number of bytes that were mapped, by faults of the program and by advice. */
uint64_t tell_mapped(const struct steer_page *page);

#endif /* PRELOAD_TELL_H */
