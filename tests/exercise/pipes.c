// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Pipes that hold pages of the file, by vmsplice() of a mapping or by splice(), while
 * other things are done to it. Linux promises little of what is read from them: a page
 * that is still the file's has what the file has, and one that was taken out of it, by
 * truncation say, what it had then. So of each pipe all that its part of the file has held
 * since is remembered, and each page that comes out is one of these, whole.
 */
#include "ops.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#define MOST_PAGES 8 /* of one pipe, which has room for 16 */

/* What the file holds there now: past its end there may be what op_pollute() stores. */
static void snapshot(const struct worker *w, const struct held *held, unsigned char *bytes)
{
	uint64_t size = w->model->size, end = round_up(size, PAGE);

	memcpy(bytes, w->model->bytes + held->off, held->len);
	if (w->model->polluted != size || held->off >= end || held->off + held->len <= size)
		return;
	if (size < held->off)
		size = held->off;
	if (end > held->off + held->len)
		end = held->off + held->len;
	memset(bytes + (size - held->off), POLLUTION, end - size);
}

static void remember(struct worker *w, struct held *held)
{
	unsigned char bytes[MOST_PAGES * PAGE];

	snapshot(w, held, bytes);
	if (held->nversions && !memcmp(held->version[held->nversions - 1], bytes, held->len))
		return;
	held->version[held->nversions] = malloc(held->len);
	if (!held->version[held->nversions])
		fail(w, "out of memory");
	memcpy(held->version[held->nversions++], bytes, held->len);
}

static void let_go(struct held *held)
{
	close(held->fds[0]);
	close(held->fds[1]);
	while (held->nversions)
		free(held->version[--held->nversions]);
	held->len = 0;
}

/* The first bytes that came out of a pipe, page by page. */
static void check_held(struct worker *w, const char *how, const struct held *held,
		       const unsigned char *found, uint64_t len)
{
	uint64_t at, n;
	unsigned int i;

	for (at = 0; at < len; at += n) {
		n = PAGE - (held->off + at) % PAGE;
		if (n > len - at)
			n = len - at;
		for (i = 0; i < held->nversions; i++)
			if (!memcmp(held->version[i] + at, found + at, n))
				break;
		if (i < held->nversions)
			continue;
		for (i = 0; i < n && held->version[held->nversions - 1][at + i] == found[at + i];)
			i++;
		fail(w,
		     "%s of %#llx + %#llx: page %llu holds, from %#llx on, what was not there since operation %llu: %02x, now there is %02x (%u versions)",
		     how, (unsigned long long)held->off, (unsigned long long)held->len,
		     (unsigned long long)((held->off + at) / PAGE),
		     (unsigned long long)(held->off + at + i), (unsigned long long)held->since,
		     found[at + i], held->version[held->nversions - 1][at + i], held->nversions);
	}
}

static uint64_t from_pipe(struct worker *w, const struct held *held, unsigned char *buf)
{
	uint64_t done = 0;
	ssize_t n;

	for (done = 0; done < held->len; done += (uint64_t)n) {
		n = read(held->fds[0], buf + done, held->len - done);
		if (n <= 0)
			fail(w, "read from a pipe that holds pages: %s",
			     n ? strerror(errno) : "too little");
	}
	return done;
}

/* The pages go into a file: another one, or this one at another place. */
static void splice_out(struct worker *w, struct held *held, int fd, uint64_t to, uint64_t len)
{
	loff_t at = (loff_t)to;
	uint64_t done;
	ssize_t n;

	for (done = 0; done < len; done += (uint64_t)n) {
		n = splice(held->fds[0], NULL, fd, &at, len - done, 0);
		if (n <= 0)
			fail(w, "splice out of a pipe that holds pages: %s",
			     n ? strerror(errno) : "nothing");
	}
	if (pread(fd, w->buf, len, (off_t)to) != (ssize_t)len)
		fail(w, "read of what came out of a pipe: %s", strerror(errno));
	check_held(w, "what was spliced out", held, w->buf, len);
}

static void take(struct worker *w, struct held *held, uint64_t kind)
{
	uint64_t to, len;
	int other;

	if (kind < 10) {
		note(w, "pipe-drop", held->off, held->len, held->since);
	} else if (kind < 55) {
		note(w, "pipe-read", held->off, held->len, held->since);
		check_held(w, "what a pipe held", held, w->buf, from_pipe(w, held, w->buf));
	} else if (kind < 75) {
		note(w, "pipe-to-other", held->off, held->len, held->since);
		other = open(w->other, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
		if (other < 0)
			fail(w, "open %s: %s", w->other, strerror(errno));
		splice_out(w, held, other, 0, held->len);
		close(other);
	} else if (pick_range(w, true, &to, &len)) {
		if (len > held->len)
			len = held->len;
		if (to >= held->off + held->len || to + len <= held->off) {
			note(w, "pipe-to-self", to, len, held->off);
			splice_out(w, held, w->fd, to, len);
			wrote(w, to, w->buf, len);
		}
	}
	let_go(held);
}

void pipes_watch(struct worker *w)
{
	unsigned int i;

	for (i = 0; i < HELD; i++) {
		struct held *held = &w->held[i];

		if (held->len)
			remember(w, held);
		if (held->nversions == VERSIONS)
			take(w, held, 50);
	}
}

void pipes_end(struct worker *w)
{
	unsigned int i;

	for (i = 0; i < HELD; i++)
		if (w->held[i].len)
			take(w, &w->held[i], 50);
}

/* More would keep too much of a small pool. */
static struct held *free_pipe(struct worker *w)
{
	unsigned int i;

	for (i = 0; i < (w->opts->threads > 1 ? 1 : HELD); i++)
		if (!w->held[i].len)
			return &w->held[i];
	return NULL;
}

static void begin(struct worker *w, struct held *held, uint64_t off)
{
	held->off = off;
	held->since = w->op;
	if (pipe2(held->fds, O_CLOEXEC))
		fail(w, "pipe: %s", strerror(errno));
}

/* The same pages in a second pipe. */
static void copy_pipe(struct worker *w, const struct held *held)
{
	struct held *copy = free_pipe(w);
	ssize_t n;

	if (!copy)
		return;
	begin(w, copy, held->off);
	n = tee(held->fds[0], copy->fds[1], held->len, 0);
	if (n != (ssize_t)held->len)
		fail(w, "tee of %llu bytes gave %zd: %s", (unsigned long long)held->len, n,
		     n < 0 ? strerror(errno) : "short");
	copy->len = held->len;
	remember(w, copy);
}

/* Has this worker the page of its own, and no other? */
static uint64_t own_part(struct worker *w, uint64_t off, uint64_t len)
{
	if (len > MOST_PAGES * PAGE - off % PAGE)
		len = MOST_PAGES * PAGE - off % PAGE;
	len = available(w, off, len);
	if (w->opts->threads == 1)
		return len;
	if (!owns(w, off))
		return 0;
	return len < PAGE - off % PAGE ? len : PAGE - off % PAGE;
}

void op_pipe_hold(struct worker *w)
{
	bool mapped = random_chance(w, 70);
	struct held *held = free_pipe(w);
	uint64_t there, off, len = pick_length(w);
	struct kept *kept = NULL;
	loff_t at;
	ssize_t n;

	if (!held)
		return;
	if (mapped) {
		kept = pick_kept(w, false, &there);
		if (!kept)
			return;
		off = kept->off + random_below(w, there);
		if (len > kept->off + there - off)
			len = kept->off + there - off;
	} else {
		off = pick_offset(w, w->opts->size);
	}
	len = own_part(w, off, len);
	if (!len)
		return;
	note(w, mapped ? "vmsplice" : "splice-hold", off, len, 0);
	begin(w, held, off);
	at = (loff_t)off;
	if (mapped) {
		struct iovec iov = { kept->addr + (off - kept->off), len };

		n = vmsplice(held->fds[1], &iov, 1, 0);
	} else {
		n = splice(w->fd, &at, held->fds[1], NULL, len, 0);
	}
	if (n <= 0)
		fail(w, "%s: %s", mapped ? "vmsplice" : "splice", n ? strerror(errno) : "nothing");
	held->len = (uint64_t)n;
	remember(w, held);
	if (random_chance(w, 30))
		copy_pipe(w, held);
}

void op_pipe_take(struct worker *w)
{
	struct held *held = &w->held[random_below(w, HELD)];

	if (held->len)
		take(w, held, random_below(w, 100));
}
