// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Simple calls on the file, and the comparison of the whole file.
 */
#include "ops.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void write_file(struct worker *w, const unsigned char *buf, uint64_t len, uint64_t off)
{
	ssize_t n = pwrite(w->fd, buf, len, (off_t)off);

	if (n != (ssize_t)len)
		fail(w, "write of %llu bytes at %#llx gave %zd: %s", (unsigned long long)len,
		     (unsigned long long)off, n, n < 0 ? strerror(errno) : "short");
}

void resize_file(struct worker *w, uint64_t size)
{
	bool by_path = random_chance(w, 50);

	if (by_path ? truncate(w->path, (off_t)size) : ftruncate(w->fd, (off_t)size))
		fail(w, "%s to %#llx: %s", by_path ? "truncate" : "ftruncate",
		     (unsigned long long)size, strerror(errno));
	model_resize(w, size);
}

void op_pread(struct worker *w)
{
	uint64_t off, len;

	pick_range(w, false, &off, &len);
	log_operation(w, "pread", off, len, 0);
	check_read(w, "pread", off, len, pread(w->fd, w->buf, len, (off_t)off));
}

void op_pwrite(struct worker *w)
{
	uint64_t off, len;

	if (!pick_range(w, true, &off, &len))
		return;
	log_operation(w, "pwrite", off, len, 0);
	fill_random(w, w->buf, len);
	write_file(w, w->buf, len, off);
	model_write(w, off, w->buf, len);
}

/*
 * Pick a buffer in a mapping of the same file, at @in, and a range @other of the file. The
 * system call faults on its own file.
 */
static struct map *pick_buffer(struct worker *w, bool change, uint64_t *in, uint64_t *other,
			       uint64_t *len)
{
	uint64_t limit = change ? w->model->size : w->opts->size, there;
	struct map *map = pick_map(w, change, &there);

	if (!map || w->opts->threads > 1)
		return NULL;
	*in = map->off + random_below(w, there);
	*other = pick_offset(w, limit);
	*len = pick_length(w);
	if (*len > map->off + there - *in)
		*len = map->off + there - *in;
	if (*len > limit - *other)
		*len = limit - *other;
	if (change)
		*len = model_available(w, *in, *len);
	/* If the ranges overlap, the result depends on the order of the copy. */
	if (!*len || (*other < *in + *len && *in < *other + *len))
		return NULL;
	return map;
}

void op_read_self(struct worker *w)
{
	uint64_t to, from, len;
	struct map *map = pick_buffer(w, true, &to, &from, &len);
	ssize_t n;

	if (!map)
		return;
	log_operation(w, "read-self", to, len, from);
	n = pread(w->fd, map_address(map, to), len, (off_t)from);
	if (n != (ssize_t)len)
		fail(w, "read into a mapping of the file gave %zd of %llu: %s", n,
		     (unsigned long long)len, n < 0 ? strerror(errno) : "short");
	model_write(w, to, w->model->bytes + from, len);
	model_check(w, "load after a read into the mapping", to, map_address(map, to), len);
}

void op_write_self(struct worker *w)
{
	uint64_t from, to, len;
	struct map *map = pick_buffer(w, false, &from, &to, &len);

	/* The buffer must not contain bytes that op_pollute() stored past the end. */
	if (!map || (w->model->polluted == w->model->size && from + len > w->model->size))
		return;
	log_operation(w, "write-self", to, len, from);
	write_file(w, map_address(map, from), len, to);
	model_write(w, to, w->model->bytes + from, len);
}

void op_truncate(struct worker *w)
{
	uint64_t size = pick_offset(w, w->opts->size + 1);

	if (w->opts->threads > 1)
		return;
	/* Mostly keep three quarters, or the file would be empty half of the time. */
	if (random_chance(w, 60))
		size = w->model->size - random_below(w, w->model->size / 4 + 1);
	log_operation(w, "truncate", size, 0, 0);
	resize_file(w, size);
}

/* The size must be that of the model after every operation. */
void check_size(struct worker *w)
{
	struct stat st;

	if (random_chance(w, 50) ? fstat(w->fd, &st) : stat(w->path, &st))
		fail(w, "stat: %s", strerror(errno));
	if ((uint64_t)st.st_size != w->model->size)
		fail(w, "the file has %#llx bytes, expected %#llx", (unsigned long long)st.st_size,
		     (unsigned long long)w->model->size);
}

/* Compare the whole file by loads, reads and direct reads. */
void verify(struct worker *w)
{
	uint64_t len = mapped_end(w), off;
	struct map all;

	check_size(w);
	if (!len)
		return;
	all = map_fresh(w, 0, len, false);
	model_check(w, "load, all of the file", 0, map_address(&all, 0), len);
	for (off = 0; off < w->model->size; off += LARGEST)
		check_read(w, "read, all of the file", off, LARGEST,
			   pread(w->fd, w->buf, LARGEST, (off_t)off));
	for (off = 0; off < w->model->size && w->direct >= 0; off += LARGEST)
		check_read(w, "direct read, all of the file", off, LARGEST,
			   read_direct(w, w->direct, LARGEST, off));
	model_check(w, "load again, all of the file", 0, map_address(&all, 0), len);
	unmap(w, &all);
}

void op_verify(struct worker *w)
{
	log_operation(w, "verify", 0, 0, 0);
	verify(w);
}
