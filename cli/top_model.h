/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* hugemap top: the numbers of all mounts and of all processes whose mappings are steered. */
#ifndef CLI_TOP_MODEL_H
#define CLI_TOP_MODEL_H

#include <stddef.h>
#include <sys/types.h>

#include "mount_sample.h"
#include "page.h"
#include "top_strip.h"
#include "users.h"

#define TOP_MAPS 8 /* files of a process that are shown: those of which most is used */

/* Counters of a process: page faults, faults that waited, bytes read and bytes that were mapped. */
enum top_count {
	TOP_FAULTS,
	TOP_WAITS,
	TOP_READ_BYTES,
	TOP_USED_BYTES,
	TOP_COUNTS,
};

/**
 * struct top_steered - the numbers of a process whose mappings are steered
 * @now: see enum top_count; as read last
 * @before: as read the time before that
 * @seconds: between @before and @now; 0 = there are no rates
 * @mappings: number of steered mappings
 * @mapped_bytes: their length
 * @huge_bytes: bytes of them that are mapped by huge pages
 * @map: some of them; those of which most was touched come first
 * @nmaps: number of @map
 */
struct top_steered {
	uint64_t now[TOP_COUNTS], before[TOP_COUNTS];
	double seconds;
	uint64_t mappings, mapped_bytes, huge_bytes;
	struct steer_map map[TOP_MAPS];
	unsigned int nmaps;
};

/* Growth of a counter per second. */
double top_rate(const struct top_steered *steered, enum top_count count);

/**
 * struct top_row - a mount, or a process whose mappings are steered
 * @key: identifies the row from one sample to the next
 * @name: the mount point, or number and name of the process
 * @pid: the process; 0 for a mount
 * @dev: the mount
 * @page: of a mount: "2M", "4K" or "auto"
 * @taken: when the numbers were read; seconds
 * @sample: the numbers of a mount
 * @steered: the numbers of a process
 */
struct top_row {
	char key[64];
	char name[256];
	pid_t pid;
	dev_t dev;
	char page[16];
	double taken;
	struct mount_sample sample;
	struct top_steered steered;
};

/**
 * struct top_model - all numbers at one time
 * @rows: see struct top_row
 * @count: number of @rows
 * @room: number of rows that fit into @rows
 * @users: the processes that map files of mounts
 * @strips: of these files and of those on the command line, unless it is not permitted
 * @denied: number of processes that may not be inspected
 */
struct top_model {
	struct top_row *rows;
	size_t count;
	size_t room;
	struct users users;
	struct top_strips strips;
	unsigned int denied;
};

/* Read all numbers. Rates are over the time since @before; NULL = there are no rates. */
void top_model_read(struct top_model *model, const struct top_model *before);
void top_model_free(struct top_model *model);
struct json_t;
struct json_t *top_model_json(const struct top_model *model, double seconds);

#endif /* CLI_TOP_MODEL_H */
