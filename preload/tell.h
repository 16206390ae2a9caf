/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What the watcher tells, in words: for `hugemap run --summary` and `hugemap stat`. */
#ifndef SHIM_TELL_H
#define SHIM_TELL_H

#include "page.h"

/**
 * tell_page() - print it, line by line
 * @page: see steer/page.h
 * @ended: mappings that are gone, too
 * @put: called with each line, without its end
 * @arg: for @put
 */
void tell_page(const struct steer_page *page, bool ended, void (*put)(const char *line, void *arg),
	       void *arg);

/* Bytes that were mapped: by the program's own faults, and ahead of them. */
uint64_t tell_mapped(const struct steer_page *page);

#endif /* SHIM_TELL_H */
