/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The options --include and --exclude of `hugemap run`. */
#ifndef PRELOAD_GLOBS_H
#define PRELOAD_GLOBS_H

#include <stdbool.h>

/*
 * Returns whether a file is steered. @include and @exclude are globs, separated by colons, or
 * NULL. If @include has no glob, it selects all files. A glob with a slash must match the whole
 * path, and a glob without a slash only the last part.
 */
bool globs_select(const char *include, const char *exclude, const char *path);

#endif /* PRELOAD_GLOBS_H */
