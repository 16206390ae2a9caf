/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The settings that `hugemap run` passes in the environment. */
#ifndef PRELOAD_SETTINGS_H
#define PRELOAD_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "tally.h"

/**
 * struct settings - HUGEMAP_RUN_*, read once
 * @on: the settings were read, and HUGEMAP_RUN_OFF is not set
 * @summary: print a summary when the program ends
 * @verbose: print each decision
 * @override_hints: replace advice of the program that makes it slower
 * @least: in bytes; smaller mappings are not reported
 * @include: globs, separated by colons; NULL = all files
 * @exclude: globs, separated by colons; NULL = no files
 * @users: number of callers that have new mappings steered; 1 under `hugemap run`
 * @rank: of the process in an MPI program; "" = none
 * @tally: for tally_add(); "" = programs are not counted
 */
struct settings {
	bool on;
	bool summary;
	bool verbose;
	bool override_hints;
	uint64_t least;
	const char *include;
	const char *exclude;
	int users;
	char rank[12];
	char tally[TALLY_PIPE];
};

extern struct settings settings;

void settings_read(char *const *environment);
/* Returns whether --include and --exclude select the file of @fd, and there is a user. */
bool settings_select(int fd);
bool settings_select_path(const char *path);

#endif /* PRELOAD_SETTINGS_H */
