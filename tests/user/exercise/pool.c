// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * hugemap-exercise-pool: see pool.h.
 */
#include "pool.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct hugemap_pool *pool;

/* A small pool, and everything in it early and soon. */
void pool_begin(uint64_t seed)
{
	struct hugemap_pool_options options = { .size = sizeof(options) };
	uint64_t random = seed * 0x9e3779b97f4a7c15ull;
	int err;

	signal(SIGXFSZ, SIG_IGN);
	options.bytes = BLOCK * (4 + (random >> 60) % 8);
	options.dirty_ratio = random >> 58 & 1 ? 0 : 10;
	options.dirty_expire_ms = 1 + (uint32_t)(random >> 40) % 50;
	options.evict_batch = random >> 57 & 1 ? 0 : 1;
	options.no_readahead = !(random >> 55 & 3);
	options.handlers = 1 + (uint32_t)(random >> 53 & 3) % 3;
	options.io = random >> 51 & 3 ? HUGEMAP_IO_AUTO : HUGEMAP_IO_THREADS;
	options.queue_depth = random >> 50 & 1 ? 0 : 4;
	err = hugemap_pool_create(&options, &pool);
	if (err) {
		fprintf(stderr, "no pool: %s (%s)\n", strerror(-err), hugemap_reason());
		exit(err == -EPERM || err == -ENOSYS || err == -EOPNOTSUPP ? 77 : 2);
	}
}

void pool_end(void)
{
	int err = hugemap_pool_destroy(pool);

	if (err) {
		fprintf(stderr, "FAILED: the pool stays: %s\n", strerror(-err));
		_exit(1);
	}
}

static const struct operation all[] = {
	{ "pread", 60, op_pread },
	{ "pwrite", 60, op_pwrite },
	{ "read-self", 10, op_read_self },
	{ "write-self", 10, op_write_self },
	{ "keep", 20, op_keep },
	{ "kept-read", 150, op_kept_read },
	{ "kept-write", 250, op_kept_write },
	{ "map-read", 20, op_map_read },
	{ "map-write", 30, op_map_write },
	{ "stream", 10, op_stream },
	{ "unmap", 6, op_unmap },
	{ "remap", 6, op_remap },
	{ "sync", 25, op_sync },
	{ "flush", 6, op_flush },
	{ "advise", 25, op_advise },
	{ "prefetch", 8, op_prefetch },
	{ "truncate", 12, op_truncate },
	{ "punch", 12, op_punch },
	{ "direct-into", 25, op_direct_into },
	{ "direct-from", 15, op_direct_from },
	{ "pin", 8, op_pin },
	{ "limit", 3, op_limit },
	{ "verify", 1, op_verify },
	{ "anew", 2, op_anew },
};

const struct program program = {
	.name = "hugemap-exercise-pool",
	.operations = all,
	.noperations = sizeof(all) / sizeof(all[0]),
	.unit = BLOCK,
	.begin = pool_begin,
	.end = pool_end,
	.lower_is_file = true,
};
