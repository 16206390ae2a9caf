// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The size of the file and its holes: punched, allocated, moved and searched.
 */
#include "ops.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <string.h>
#include <unistd.h>

static bool supported(struct worker *w, const char *what, int result)
{
	if (!result)
		return true;
	/* EINVAL: the block size of the file system is larger than a page. */
	if (errno != EOPNOTSUPP && errno != EINVAL)
		fail(w, "fallocate, %s: %s", what, strerror(errno));
	return false;
}

void op_fallocate(struct worker *w)
{
	bool keep = random_chance(w, 50);
	uint64_t off, len;

	pick_range(w, true, &off, &len);
	if (w->opts->threads > 1)
		return;
	log_operation(w, "fallocate", off, len, keep);
	if (!supported(w, "allocate",
		       fallocate(w->fd, keep ? FALLOC_FL_KEEP_SIZE : 0, (off_t)off, (off_t)len)))
		return;
	if (!keep && off + len > w->model->size)
		model_resize(w, off + len);
}

void op_punch(struct worker *w)
{
	uint64_t off, len;

	if (!pick_range(w, true, &off, &len))
		return;
	log_operation(w, "punch", off, len, 0);
	if (supported(w, "punch",
		      fallocate(w->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)off,
				(off_t)len)))
		model_zero(w, off, model_available(w, off, len));
}

void op_zero_range(struct worker *w)
{
	bool keep = random_chance(w, 50);
	uint64_t off, len;

	if (!pick_range(w, true, &off, &len))
		return;
	log_operation(w, "zero-range", off, len, keep);
	if (!supported(w, "zero range",
		       fallocate(w->fd, FALLOC_FL_ZERO_RANGE | (keep ? FALLOC_FL_KEEP_SIZE : 0),
				 (off_t)off, (off_t)len)))
		return;
	model_zero(w, off, model_available(w, off, len));
	if (!keep && off + len > w->model->size)
		model_resize(w, off + len);
}

void op_collapse(struct worker *w)
{
	uint64_t size = w->model->size, off, len;

	pick_range(w, true, &off, &len);
	off = round_down(off, PAGE);
	len = round_up(len, PAGE);
	if (w->opts->threads > 1 || off + len >= size)
		return;
	log_operation(w, "collapse", off, len, 0);
	if (!supported(w, "collapse",
		       fallocate(w->fd, FALLOC_FL_COLLAPSE_RANGE, (off_t)off, (off_t)len)))
		return;
	memmove(w->model->bytes + off, w->model->bytes + off + len, size - off - len);
	model_resize(w, size - len);
}

void op_insert(struct worker *w)
{
	uint64_t size = w->model->size, off, len;

	pick_range(w, true, &off, &len);
	off = round_down(off, PAGE);
	len = round_up(len, PAGE);
	if (w->opts->threads > 1 || off >= size || size + len > w->opts->size)
		return;
	log_operation(w, "insert", off, len, 0);
	if (!supported(w, "insert",
		       fallocate(w->fd, FALLOC_FL_INSERT_RANGE, (off_t)off, (off_t)len)))
		return;
	memmove(w->model->bytes + off + len, w->model->bytes + off, size - off);
	model_resize(w, size + len);
	model_zero(w, off, len);
}

/* A range that SEEK_HOLE reports must read as zeros, even after stores in a mapping. */
void op_seek(struct worker *w)
{
	off_t hole, data, size = (off_t)w->model->size;
	uint64_t off = pick_offset(w, w->opts->size);

	if (off >= w->model->size || w->opts->threads > 1)
		return;
	log_operation(w, "seek-hole", off, 0, 0);
	hole = lseek(w->fd, (off_t)off, SEEK_HOLE);
	if (hole < 0 && errno == EINVAL)
		return;
	if (hole < (off_t)off || hole > size)
		fail(w, "SEEK_HOLE from %#llx gave %#llx: %s", (unsigned long long)off,
		     (unsigned long long)hole, hole < 0 ? strerror(errno) : "out of range");
	if (hole == size)
		return;
	data = lseek(w->fd, hole, SEEK_DATA);
	if (data < 0 && errno == ENXIO)
		data = size;
	if (data <= hole || data > size)
		fail(w, "SEEK_DATA from the hole at %#llx gave %#llx", (unsigned long long)hole,
		     (unsigned long long)data);
	if (data - hole > (off_t)LARGEST)
		data = hole + (off_t)LARGEST;
	memset(w->buf, 0, (size_t)(data - hole));
	model_check(w, "a hole by SEEK_HOLE", (uint64_t)hole, w->buf, (uint64_t)(data - hole));
}
