// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Pipes that hold pages of the file, by vmsplice() of a mapping or by splice(), over several
 * operations. Linux promises little about their content: a page that is still in the page cache
 * shows the file as it is now, and a page that has left the cache, by truncation for example,
 * shows the file as it was then. So this file remembers all contents of the range since the pipe
 * was filled, and every page read from the pipe must equal one of them as a whole.
 */
#include "ops.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#define MOST_PAGES 8 /* pages in one pipe, which has room for 16 */

/* The present content of the range, with the bytes of op_pollute() past the end. */
static void pipe_snapshot(const struct worker *w, const struct pipe_pages *pages,
			  unsigned char *bytes)
{
	uint64_t size = w->model->size, end = round_up(size, PAGE);

	memcpy(bytes, w->model->bytes + pages->off, pages->len);
	if (w->model->polluted != size || pages->off >= end || pages->off + pages->len <= size)
		return;
	if (size < pages->off)
		size = pages->off;
	if (end > pages->off + pages->len)
		end = pages->off + pages->len;
	memset(bytes + (size - pages->off), POLLUTION, end - size);
}

static void pipe_remember(struct worker *w, struct pipe_pages *pages)
{
	unsigned char bytes[MOST_PAGES * PAGE];

	pipe_snapshot(w, pages, bytes);
	if (pages->nversions && !memcmp(pages->version[pages->nversions - 1], bytes, pages->len))
		return;
	pages->version[pages->nversions] = malloc(pages->len);
	if (!pages->version[pages->nversions])
		fail(w, "out of memory");
	memcpy(pages->version[pages->nversions++], bytes, pages->len);
}

static void pipe_close(struct pipe_pages *pages)
{
	close(pages->fds[0]);
	close(pages->fds[1]);
	while (pages->nversions)
		free(pages->version[--pages->nversions]);
	pages->len = 0;
}

/* Compare the first @len bytes out of a pipe with the versions, page by page. */
static void pipe_check(struct worker *w, const char *how, const struct pipe_pages *pages,
		       const unsigned char *found, uint64_t len)
{
	uint64_t at, n;
	unsigned int i;

	for (at = 0; at < len; at += n) {
		n = PAGE - (pages->off + at) % PAGE;
		if (n > len - at)
			n = len - at;
		for (i = 0; i < pages->nversions; i++)
			if (!memcmp(pages->version[i] + at, found + at, n))
				break;
		if (i < pages->nversions)
			continue;
		for (i = 0; i < n && pages->version[pages->nversions - 1][at + i] == found[at + i];)
			i++;
		fail(w,
		     "%s of %#llx + %#llx: page %llu at %#llx has %02x, which was not in the file since operation %llu; the file has %02x (%u versions)",
		     how, (unsigned long long)pages->off, (unsigned long long)pages->len,
		     (unsigned long long)((pages->off + at) / PAGE),
		     (unsigned long long)(pages->off + at + i), found[at + i],
		     (unsigned long long)pages->since, pages->version[pages->nversions - 1][at + i],
		     pages->nversions);
	}
}

static uint64_t pipe_read(struct worker *w, const struct pipe_pages *pages, unsigned char *buf)
{
	uint64_t done = 0;
	ssize_t n;

	for (done = 0; done < pages->len; done += (uint64_t)n) {
		n = read(pages->fds[0], buf + done, pages->len - done);
		if (n <= 0)
			fail(w, "read from a pipe that holds pages: %s",
			     n ? strerror(errno) : "too little");
	}
	return done;
}

/* Splice the pages into a file: another one, or another range of this one. */
static void pipe_splice(struct worker *w, struct pipe_pages *pages, int fd, uint64_t to,
			uint64_t len)
{
	loff_t at = (loff_t)to;
	uint64_t done;
	ssize_t n;

	for (done = 0; done < len; done += (uint64_t)n) {
		n = splice(pages->fds[0], NULL, fd, &at, len - done, 0);
		if (n <= 0)
			fail(w, "splice out of a pipe that holds pages: %s",
			     n ? strerror(errno) : "nothing");
	}
	if (pread(fd, w->buf, len, (off_t)to) != (ssize_t)len)
		fail(w, "read after splice out of a pipe: %s", strerror(errno));
	pipe_check(w, "splice out of a pipe", pages, w->buf, len);
}

static void pipe_take(struct worker *w, struct pipe_pages *pages, uint64_t kind)
{
	uint64_t to, len;
	int other;

	if (kind < 10) {
		log_operation(w, "pipe-drop", pages->off, pages->len, pages->since);
	} else if (kind < 55) {
		log_operation(w, "pipe-read", pages->off, pages->len, pages->since);
		pipe_check(w, "read of a pipe", pages, w->buf, pipe_read(w, pages, w->buf));
	} else if (kind < 75) {
		log_operation(w, "pipe-to-other", pages->off, pages->len, pages->since);
		other = open(w->other, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
		if (other < 0)
			fail(w, "open %s: %s", w->other, strerror(errno));
		pipe_splice(w, pages, other, 0, pages->len);
		close(other);
	} else if (pick_range(w, true, &to, &len)) {
		if (len > pages->len)
			len = pages->len;
		if (to >= pages->off + pages->len || to + len <= pages->off) {
			log_operation(w, "pipe-to-self", to, len, pages->off);
			pipe_splice(w, pages, w->fd, to, len);
			model_write(w, to, w->buf, len);
		}
	}
	pipe_close(pages);
}

void pipes_watch(struct worker *w)
{
	unsigned int i;

	for (i = 0; i < PIPES; i++) {
		struct pipe_pages *pages = &w->pipes[i];

		if (pages->len)
			pipe_remember(w, pages);
		if (pages->nversions == VERSIONS)
			pipe_take(w, pages, 50);
	}
}

void pipes_end(struct worker *w)
{
	unsigned int i;

	for (i = 0; i < PIPES; i++)
		if (w->pipes[i].len)
			pipe_take(w, &w->pipes[i], 50);
}

/* Several threads have one pipe each, since more pages would exhaust a small pool. */
static struct pipe_pages *pipe_find_free(struct worker *w)
{
	unsigned int i;

	for (i = 0; i < (w->opts->threads > 1 ? 1 : PIPES); i++)
		if (!w->pipes[i].len)
			return &w->pipes[i];
	return NULL;
}

static void pipe_begin(struct worker *w, struct pipe_pages *pages, uint64_t off)
{
	pages->off = off;
	pages->since = w->op;
	if (pipe2(pages->fds, O_CLOEXEC))
		fail(w, "pipe: %s", strerror(errno));
}

/* Put the same pages into a second pipe with tee(2). */
static void pipe_copy(struct worker *w, const struct pipe_pages *pages)
{
	struct pipe_pages *copy = pipe_find_free(w);
	ssize_t n;

	if (!copy)
		return;
	pipe_begin(w, copy, pages->off);
	n = tee(pages->fds[0], copy->fds[1], pages->len, 0);
	if (n != (ssize_t)pages->len)
		fail(w, "tee of %llu bytes gave %zd: %s", (unsigned long long)pages->len, n,
		     n < 0 ? strerror(errno) : "short");
	copy->len = pages->len;
	pipe_remember(w, copy);
}

/* Shorten @len to the file, to the pipe, and with threads to one page of this worker. */
static uint64_t pipe_limit(struct worker *w, uint64_t off, uint64_t len)
{
	if (len > MOST_PAGES * PAGE - off % PAGE)
		len = MOST_PAGES * PAGE - off % PAGE;
	len = model_available(w, off, len);
	if (w->opts->threads == 1)
		return len;
	if (!owns_page(w, off))
		return 0;
	return len < PAGE - off % PAGE ? len : PAGE - off % PAGE;
}

void op_pipe_hold(struct worker *w)
{
	bool by_mapping = random_chance(w, 70);
	struct pipe_pages *pages = pipe_find_free(w);
	uint64_t there, off, len = pick_length(w);
	struct map *map = NULL;
	loff_t at;
	ssize_t n;

	if (!pages)
		return;
	if (by_mapping) {
		map = pick_map(w, false, &there);
		if (!map)
			return;
		off = map->off + random_below(w, there);
		if (len > map->off + there - off)
			len = map->off + there - off;
	} else {
		off = pick_offset(w, w->opts->size);
	}
	len = pipe_limit(w, off, len);
	if (!len)
		return;
	log_operation(w, by_mapping ? "vmsplice" : "splice-hold", off, len, 0);
	pipe_begin(w, pages, off);
	at = (loff_t)off;
	if (by_mapping) {
		struct iovec iov = { map->addr + (off - map->off), len };

		n = vmsplice(pages->fds[1], &iov, 1, 0);
	} else {
		n = splice(w->fd, &at, pages->fds[1], NULL, len, 0);
	}
	if (n <= 0)
		fail(w, "%s: %s", by_mapping ? "vmsplice" : "splice",
		     n ? strerror(errno) : "nothing");
	pages->len = (uint64_t)n;
	pipe_remember(w, pages);
	if (random_chance(w, 30))
		pipe_copy(w, pages);
}

void op_pipe_take(struct worker *w)
{
	struct pipe_pages *pages = &w->pipes[random_below(w, PIPES)];

	if (pages->len)
		pipe_take(w, pages, random_below(w, 100));
}
