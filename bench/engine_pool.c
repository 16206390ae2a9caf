// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The pool engine, by the library's interface, without any hint. The pool is made
 * before the clock starts, since the page cache of Linux is there, too; how long that
 * took is told apart.
 */
#include "bench.h"
#include "guard.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct mapped {
	struct hugemap_pool *pool;
	char *at;
};

static const char *words_for(int err)
{
	return *hugemap_reason() ? hugemap_reason() : hugemap_strerror(err);
}

static void pool_open(struct run *run)
{
	struct hugemap_pool_options pool_options = {
		.size = sizeof(pool_options),
		.bytes = run->pool_bytes,
		.prefault = true,
	};
	struct hugemap_options options = { .size = sizeof(options) };
	bool writes = run->scenario->writes;
	struct mapped *map = calloc(1, sizeof(*map));
	double start = cli_now();
	int fd, err;

	if (!map)
		die(run, "too little memory");
	err = hugemap_pool_create(&pool_options, &map->pool);
	if (err)
		die(run, "no pool could be made: %s", words_for(err));
	run->result->pool_s = cli_now() - start;
	options.pool = map->pool;
	fd = open(run->path, (writes ? O_RDWR : O_RDONLY) | O_CLOEXEC);
	if (fd < 0)
		die(run, "%s: %s", run->path, strerror(errno));
	map->at = hugemap_map(fd, 0, run->bytes, writes ? PROT_READ | PROT_WRITE : PROT_READ, 0,
			      &options);
	err = hugemap_error(map->at);
	if (err)
		die(run, "hugemap_map: %s", words_for(err));
	close(fd);
	run->private = map;
}

static const void *pool_load(struct worker *worker, uint64_t offset, size_t length)
{
	struct mapped *map = worker->run->private;

	return map->at + offset;
}

static void *pool_store(struct worker *worker, uint64_t offset, size_t length, bool whole)
{
	struct mapped *map = worker->run->private;

	return map->at + offset;
}

static void pool_sync(struct run *run, uint64_t offset, uint64_t length)
{
	struct mapped *map = run->private;
	int err = hugemap_sync(map->at + offset, length, MS_SYNC);

	if (err)
		die(run, "hugemap_sync: %s", words_for(err));
}

static void pool_count(struct run *run)
{
	struct hugemap_stat stat = { .size = sizeof(stat) };
	struct mapped *map = run->private;
	struct result *result = run->result;

	if (hugemap_stat(map->at, &stat))
		die(run, "hugemap_stat: %s", hugemap_reason());
	result->faults = stat.faults;
	result->hits = stat.hits;
	result->ahead = stat.ahead;
	result->ahead_used = stat.ahead_used;
}

static void pool_close(struct run *run)
{
	struct mapped *map = run->private;
	int err = hugemap_unmap(map->at, run->bytes);

	if (err)
		die(run, "hugemap_unmap: %s", words_for(err));
	err = hugemap_pool_destroy(map->pool);
	if (err)
		die(run, "hugemap_pool_destroy: %s", words_for(err));
}

/* Tried in a child: this process is to stay as it is. */
const char *pool_works_not(struct result *shared)
{
	struct hugemap_pool_options options = { .size = sizeof(options), .bytes = 32 * MB };
	struct hugemap_pool *pool;
	static char why[256];
	int status = 0, err;
	pid_t pid;

	*shared = (struct result){};
	pid = fork();
	if (!pid) {
		guard_release();
		err = hugemap_pool_create(&options, &pool);
		if (err)
			snprintf(shared->error, sizeof(shared->error), "%s", words_for(err));
		_exit(0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0 || status)
		return "it died when it was tried";
	snprintf(why, sizeof(why), "%s", shared->error);
	return why[0] ? why : NULL;
}

const struct engine engine_pool = {
	.name = "hugemap-pool",
	.apart = true,
	.open = pool_open,
	.load = pool_load,
	.store = pool_store,
	.sync = pool_sync,
	.count = pool_count,
	.close = pool_close,
};
