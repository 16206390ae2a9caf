// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The operations by name, how often each is done, and where in the file.
 */
#include "ops.h"

#include <stdio.h>
#include <string.h>

/* Borders of blocks, the end of the file, whole pages, and anywhere at all. */
uint64_t pick_offset(struct worker *w, uint64_t limit)
{
	uint64_t kind = random_below(w, 100), off;

	if (kind < 30) {
		off = BLOCK * random_below(w, limit / BLOCK + 1);
		off += random_below(w, 4 * PAGE);
		off = off > 2 * PAGE ? off - 2 * PAGE : off;
	} else if (kind < 45) {
		off = w->model->size + random_below(w, 2 * PAGE);
		off = off > 2 * PAGE ? off - 2 * PAGE : off;
	} else if (kind < 60) {
		off = PAGE * random_below(w, limit / PAGE + 1);
	} else {
		off = random_below(w, limit);
	}
	return off < limit ? off : limit - 1;
}

uint64_t pick_length(struct worker *w)
{
	uint64_t kind = random_below(w, 200);

	if (kind < 40)
		return 1 + random_below(w, 16);
	if (kind < 100)
		return 1 + random_below(w, PAGE);
	if (kind < 120)
		return PAGE * (1 + random_below(w, 8));
	if (kind < 180)
		return 1 + random_below(w, 64 << 10);
	if (kind < 197)
		return 1 + random_below(w, 256 << 10);
	if (kind < 198)
		return BLOCK;
	return 1 + random_below(w, LARGEST);
}

/*
 * A range to read or, if @change, to write: within the largest size, or within one
 * page of one's own if others work on the same file.
 */
bool pick_range(struct worker *w, bool change, uint64_t *off, uint64_t *len)
{
	*off = pick_offset(w, w->opts->size);
	*len = pick_length(w);
	if (w->opts->threads > 1 && change) {
		uint64_t page = round_down(*off, PAGE * w->opts->threads) + PAGE * w->thread;

		*off = page + *off % PAGE;
		if (*off >= w->model->size)
			return false;
		if (*len > PAGE - *off % PAGE)
			*len = PAGE - *off % PAGE;
		if (*len > w->model->size - *off)
			*len = w->model->size - *off;
		return true;
	}
	if (*len > w->opts->size - *off)
		*len = w->opts->size - *off;
	return true;
}

static const struct {
	const char *name;
	unsigned int often;
	void (*run)(struct worker *w);
} operations[] = {
	{ "read", 80, op_read },
	{ "pread", 80, op_pread },
	{ "preadv", 40, op_preadv },
	{ "write", 60, op_write },
	{ "pwrite", 80, op_pwrite },
	{ "pwritev", 40, op_pwritev },
	{ "append", 20, op_append },
	{ "stream-read", 6, op_stream_read },
	{ "stream-write", 4, op_stream_write },
	{ "direct-read", 25, op_direct_read },
	{ "direct-write", 25, op_direct_write },
	{ "map-read", 80, op_map_read },
	{ "map-write", 100, op_map_write },
	{ "map-private", 20, op_private },
	{ "keep", 10, op_keep },
	{ "keep-odd", 2, op_keep_odd },
	{ "kept-read", 100, op_kept_read },
	{ "kept-write", 150, op_kept_write },
	{ "msync", 12, op_msync },
	{ "madvise", 25, op_madvise },
	{ "madv-remove", 2, op_remove },
	{ "mremap", 3, op_mremap },
	{ "mremap-fixed", 3, op_mremap_fixed },
	{ "mprotect", 6, op_mprotect },
	{ "munmap", 4, op_munmap },
	{ "fork", 1, op_fork },
	{ "exec", 3, op_exec },
	{ "apart", 1, op_apart },
	{ "settled", 1, op_settled },
	{ "read-self", 4, op_read_self },
	{ "write-self", 4, op_write_self },
	{ "pollute", 6, op_pollute },
	{ "truncate", 8, op_truncate },
	{ "truncate-path", 7, op_truncate_path },
	{ "fallocate", 6, op_fallocate },
	{ "punch", 10, op_punch },
	{ "zero-range", 8, op_zero_range },
	{ "collapse", 3, op_collapse },
	{ "insert", 3, op_insert },
	{ "fsync", 6, op_fsync },
	{ "sync-range", 4, op_sync_range },
	{ "fadvise", 12, op_fadvise },
	{ "copy-range", 6, op_copy_range },
	{ "sendfile", 4, op_sendfile },
	{ "splice", 8, op_splice },
	{ "seek-hole", 8, op_seek },
	{ "reopen", 3, op_reopen },
	{ "verify", 1, op_verify },
};

#define RARELY 20
#define OPERATIONS (sizeof(operations) / sizeof(operations[0]))

void list_operations(void)
{
	unsigned int i;

	for (i = 0; i < OPERATIONS; i++)
		printf("%-14s %u\n", operations[i].name, operations[i].often);
}

static bool listed(const char *names, const char *name)
{
	size_t n = strlen(name);
	const char *at;

	for (at = names; at; at = strchr(at, ',')) {
		at += *at == ',';
		if (!strncmp(at, name, n) && (at[n] == ',' || !at[n]))
			return true;
	}
	return false;
}

/* A misspelt name would leave out nothing, unnoticed. */
bool known_operations(const char *names)
{
	unsigned int i, known = 0, given = 1;
	const char *at;

	for (at = names; *at; at++)
		given += *at == ',';
	for (i = 0; i < OPERATIONS; i++)
		known += listed(names, operations[i].name);
	return known == given;
}

void operate(struct worker *w)
{
	unsigned int i, sum = 0;
	uint64_t pick;

	for (i = 0; i < OPERATIONS; i++)
		sum += operations[i].often;
	pick = random_below(w, sum);
	for (i = 0; pick >= operations[i].often; i++)
		pick -= operations[i].often;
	if (listed(w->opts->without, operations[i].name))
		return;
	if (!listed(w->opts->rarely, operations[i].name) || !random_below(w, RARELY))
		operations[i].run(w);
	check_size(w);
}
