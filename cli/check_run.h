/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* hugemap check: one run of the program, plain or steered. */
#ifndef CLI_CHECK_RUN_H
#define CLI_CHECK_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "page.h"

/**
 * struct check_files - the large files that the program maps
 * @paths: their paths
 * @count: number of @paths
 * @room: number of paths that fit
 * @dev: device number of the file system of the first file
 * @hints: HINT_* of their mappings: advice of the program, or of steering
 */
struct check_files {
	char **paths;
	size_t count, room;
	uint64_t dev;
	unsigned int hints;
};

/**
 * struct check_result - the numbers of a run, with all processes that it started and waited for
 * @seconds: elapsed time
 * @cpu_seconds: CPU time
 * @major: page faults that waited for the device
 * @read_bytes: bytes read from devices
 * @used_bytes: steered: bytes of files that were mapped, by faults and by advice
 * @maps: steered: number of mappings
 * @hinted: steered: the program gave advice for one of them itself
 * @count, @amount: steered: calls and bytes of each kind of advice
 * @why: steered: the last decision about the mapping of which most was used
 * @missed: steered: `hugemap run` could neither steer the program nor help it from outside
 * @status: as waitpid() returns it
 */
struct check_result {
	double seconds, cpu_seconds;
	uint64_t major, read_bytes;
	uint64_t used_bytes;
	unsigned int maps;
	bool hinted;
	uint64_t count[STEER_ACTS], amount[STEER_ACTS];
	char why[120];
	bool missed;
	int status;
};

/**
 * check_run() - run a program once
 * @argv: its arguments
 * @steered: by `hugemap run`
 * @files: files that it maps are added; NULL = they are known
 * @result: filled in
 *
 * Return: 0, or -errno if no process could be made.
 */
int check_run(char **argv, bool steered, struct check_files *files, struct check_result *result);

/* Drop the files from the page cache; returns the share of their pages that stays there. */
double check_drop(const struct check_files *files);
void check_files_free(struct check_files *files);

#endif /* CLI_CHECK_RUN_H */
