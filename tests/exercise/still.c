// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Operations that change no byte: closing and opening files, write-back, advice.
 */
#include "ops.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

void open_files(struct worker *w)
{
	/* Without O_CLOEXEC, children of exec.c can use the inherited descriptor. */
	int more = random_chance(w, 60) ? O_CLOEXEC : 0;

	w->fd = open(w->path, O_RDWR | O_CREAT | more, 0644);
	if (w->fd < 0)
		fail(w, "open %s: %s", w->path, strerror(errno));
	w->append = open(w->path, O_WRONLY | O_APPEND | more);
	if (w->append < 0)
		fail(w, "open for appending: %s", strerror(errno));
	/* A file system without direct I/O returns EINVAL. */
	w->direct = open(w->path, O_RDWR | O_DIRECT | more);
	if (w->direct < 0 && errno != EINVAL)
		fail(w, "open for direct I/O: %s", strerror(errno));
	w->lower_fd = -1;
}

void close_files(struct worker *w)
{
	unmap_all(w);
	if (close(w->fd) || close(w->append) || (w->direct >= 0 && close(w->direct)))
		fail(w, "close: %s", strerror(errno));
	if (w->lower_fd >= 0)
		close(w->lower_fd);
	w->fd = w->append = w->direct = w->lower_fd = -1;
}

void op_reopen(struct worker *w)
{
	log_operation(w, "reopen", 0, 0, 0);
	close_files(w);
	open_files(w);
}

void op_fsync(struct worker *w)
{
	bool data = random_chance(w, 50);
	uint64_t off = 0, len = w->model->size;

	log_operation(w, data ? "fdatasync" : "fsync", 0, len, 0);
	if (data ? fdatasync(w->fd) : fsync(w->fd))
		fail(w, "%s: %s", data ? "fdatasync" : "fsync", strerror(errno));
	/* Compare a part of the file, and sometimes all of it. */
	if (!random_chance(w, 10))
		pick_range(w, false, &off, &len);
	check_lower(w, data ? "after fdatasync, lower file" : "after fsync, lower file", off, len);
}

/* sync_file_range() guarantees no write-back, so the lower file cannot be compared. */
void op_sync_range(struct worker *w)
{
	uint64_t off, len;

	pick_range(w, false, &off, &len);
	log_operation(w, "sync-range", off, len, 0);
	if (sync_file_range(w->fd, (off_t)off, (off_t)len, (unsigned int)random_below(w, 8)) &&
	    errno != ESPIPE)
		fail(w, "sync_file_range: %s", strerror(errno));
}

void op_fadvise(struct worker *w)
{
	static const int all[] = {
		POSIX_FADV_DONTNEED, POSIX_FADV_DONTNEED,   POSIX_FADV_WILLNEED,
		POSIX_FADV_RANDOM,   POSIX_FADV_SEQUENTIAL, POSIX_FADV_NORMAL,
	};
	int advice = all[random_below(w, sizeof(all) / sizeof(all[0]))];
	uint64_t off, len;
	int error;

	pick_range(w, false, &off, &len);
	if (random_chance(w, 20))
		off = len = 0;
	log_operation(w, "fadvise", off, len, (uint64_t)advice);
	error = posix_fadvise(w->fd, (off_t)off, (off_t)len, advice);
	if (error)
		fail(w, "posix_fadvise(%d): %s", advice, strerror(error));
}

void after_operation(struct worker *w)
{
	pipes_watch(w);
	check_size(w);
}

void after_all(struct worker *w)
{
	pipes_end(w);
	verify(w);
	if (fsync(w->fd))
		fail(w, "fsync at the end: %s", strerror(errno));
	check_lower(w, "after the last fsync, lower file", 0, w->model->size);
}
