// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * A process with RLIMIT_FSIZE. Its writes beyond the limit fail with EFBIG, and no other
 * process gets an error. Its stores in a mapping may be anywhere in the file, and its syncs
 * write the dirty pages of all processes.
 */
#include "ops.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

struct plan {
	uint64_t limit;
	uint64_t off, len; /* range of the write */
	uint64_t written; /* bytes of it below the limit */
	struct map *map; /* mapping of the store */
	uint64_t store_off, store_len;
	uint64_t seed;
	bool by_msync;
};

static void expect_too_big(struct worker *w, const char *what, bool failed)
{
	if (!failed || errno != EFBIG)
		fail(w, "%s beyond RLIMIT_FSIZE: %s", what, failed ? strerror(errno) : "done");
}

static void child(struct worker *w, const struct plan *p)
{
	struct rlimit limit = { p->limit, p->limit };
	ssize_t n;

	signal(SIGXFSZ, SIG_IGN);
	if (setrlimit(RLIMIT_FSIZE, &limit))
		fail(w, "setrlimit: %s", strerror(errno));
	fill_from(p->seed, w->buf, p->len);
	n = pwrite(w->fd, w->buf, p->len, (off_t)p->off);
	if (!p->written)
		expect_too_big(w, "a write", n < 0);
	else if (n != (ssize_t)p->written)
		fail(w, "write up to RLIMIT_FSIZE gave %zd of %llu: %s", n,
		     (unsigned long long)p->written, n < 0 ? strerror(errno) : "short");
	expect_too_big(w, "an append", write(w->append, "x", 1) < 0);
	if (w->opts->threads == 1)
		expect_too_big(w, "ftruncate",
			       ftruncate(w->fd, (off_t)(w->model->size + PAGE)) < 0);
	if (p->store_len)
		fill_from(p->seed + 1, p->map->addr + (p->store_off - p->map->off), p->store_len);
	if (p->by_msync && p->store_len ? msync(p->map->addr, p->map->len, MS_SYNC) :
					  fdatasync(w->fd))
		fail(w, "sync with RLIMIT_FSIZE %llu: %s", (unsigned long long)p->limit,
		     strerror(errno));
	_exit(0);
}

void op_limit(struct worker *w)
{
	struct plan p = { .seed = random_next(w), .by_msync = random_chance(w, 50) };
	uint64_t there;
	pid_t pid;

	if (!pick_range(w, true, &p.off, &p.len))
		return;
	p.limit = random_chance(w, 30) ? 0 : p.off + random_below(w, p.len + 1);
	if (p.limit > w->model->size)
		p.limit = w->model->size;
	if (p.limit > p.off)
		p.written = p.len < p.limit - p.off ? p.len : p.limit - p.off;
	p.map = pick_map(w, true, &there);
	if (p.map && pick_range(w, true, &p.store_off, &p.store_len) && p.store_off >= p.map->off &&
	    p.store_off < p.map->off + there) {
		if (p.store_len > p.map->off + there - p.store_off)
			p.store_len = p.map->off + there - p.store_off;
		p.store_len = model_available(w, p.store_off, p.store_len);
	} else {
		p.store_len = 0;
	}
	log_operation(w, "limit", p.off, p.written, p.limit);
	pid = fork();
	if (pid < 0)
		fail(w, "fork: %s", strerror(errno));
	if (!pid)
		child(w, &p);
	await_child(w, "a child with RLIMIT_FSIZE", pid, 0);
	fill_from(p.seed, w->buf, p.len);
	if (p.written)
		model_write(w, p.off, w->buf, p.written);
	if (p.store_len) {
		fill_from(p.seed + 1, w->buf, p.store_len);
		model_write(w, p.store_off, w->buf, p.store_len);
		check_lower(w, "after a limited child's sync, lower file", p.store_off,
			    p.store_len);
	}
	check_read(w, "read after a limited child", p.off, p.written,
		   pread(w->fd, w->buf, p.written, (off_t)p.off));
	/* The errors of the child must not be reported to this process. */
	if (fsync(w->fd))
		fail(w, "fsync after a limited child: %s", strerror(errno));
	check_lower(w, "after a limited child, lower file", p.off, p.written);
}
