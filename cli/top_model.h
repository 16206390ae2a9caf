/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* hugemap top: the numbers of all mounts and of all processes whose mappings are steered. */
#ifndef CLI_TOP_MODEL_H
#define CLI_TOP_MODEL_H

#include <stddef.h>
#include <sys/types.h>

#include "mount_sample.h"
#include "top_strip.h"
#include "users.h"

/**
 * struct top_row - a mount, or a process whose mappings are steered
 * @key: identifies the row from one sample to the next
 * @name: the mount point, or number and name of the process
 * @pid: the process; 0 for a mount
 * @dev: the mount
 * @page: of a mount: "2M", "4K" or "auto"
 * @taken: when the numbers were read; seconds
 * @sample: the numbers; of a process only @mappings, @mapped_bytes, @huge_pages, faults, hits
 *	and bytes read
 */
struct top_row {
	char key[64];
	char name[256];
	pid_t pid;
	dev_t dev;
	char page[16];
	double taken;
	struct mount_sample sample;
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
