// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Create the files of the benchmark, drop them from the page cache, and check them. */
#include "bench.h"
#include "guard.h"
#include "uapi.h"
#include "undo.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIECE (4 * MB)
#define MEASURED (64 * MB)
#define SETTLE 100000 /* us; time for work that the deletion of a file leaves to the kernel */

/* --- the page cache --- */

static double files_share_in_core(int fd, uint64_t bytes)
{
	size_t pages = bytes / CONTENT_PAGE, i, in = 0;
	unsigned char *core = malloc(pages);
	void *at = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);

	if (core && at != MAP_FAILED && !mincore(at, bytes, core))
		for (i = 0; i < pages; i++)
			in += core[i] & 1;
	if (at != MAP_FAILED)
		munmap(at, bytes);
	free(core);
	return (double)in / (double)pages;
}

static double files_share_cached(int fd, uint64_t bytes)
{
	struct steer_cachestat_range range = { .len = bytes };
	struct steer_cachestat state;

	if (!syscall(SYS_cachestat, fd, &range, &state, 0))
		return (double)state.nr_cache * CONTENT_PAGE / (double)bytes;
	return files_share_in_core(fd, bytes);
}

/* Drop a file from the page cache; returns the share of it that stays there. */
double files_evict(const char *path, uint64_t bytes)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), tries;
	double share = 1;

	if (fd < 0)
		return share;
	for (tries = 0; tries < 5 && share > 0; tries++) {
		if (tries)
			usleep(20000);
		fsync(fd);
		posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
		share = files_share_cached(fd, bytes);
	}
	close(fd);
	return share;
}

/* Drop the files of a run from the page cache; returns the largest share that stays there. */
double files_evict_run(const struct run *run)
{
	double most = 0, share;
	struct run_file file;
	unsigned int i;

	for (i = 0; i < run_files(run); i++) {
		run_file(run, i, &file);
		share = files_evict(file.path, file.end - file.start);
		most = share > most ? share : most;
	}
	return most;
}

/* --- making them --- */

/* Use direct I/O if possible, which leaves nothing in the page cache. */
static int files_open(const char *path, int flags)
{
	int fd = open(path, flags | O_DIRECT | O_CLOEXEC, 0600);

	if (fd < 0 && errno == EINVAL)
		fd = open(path, flags | O_CLOEXEC, 0600);
	return fd;
}

static bool files_transfer(int fd, char *buffer, size_t length, uint64_t offset, bool write)
{
	size_t done = 0;

	while (done < length) {
		char *at = buffer + done;
		size_t left = length - done;
		off_t to = (off_t)(offset + done);
		ssize_t n = write ? pwrite(fd, at, left, to) : pread(fd, at, left, to);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		done += (size_t)n;
	}
	return true;
}

static size_t files_piece(uint64_t offset, uint64_t bytes)
{
	return bytes - offset < PIECE ? (size_t)(bytes - offset) : (size_t)PIECE;
}

/* Make a file with the data from @start to @end. */
static bool files_make_part(struct bench *bench, const char *path, struct content *content,
			    uint64_t start, uint64_t end)
{
	char *buffer = aligned_alloc(CONTENT_PAGE, PIECE);
	int fd = files_open(path, O_RDWR | O_CREAT | O_TRUNC);
	uint64_t at;
	bool ok = buffer && fd >= 0;

	if (ok) {
		/* Allocate the file in one piece, if the file system can. */
		if (fallocate(fd, 0, 0, (off_t)(end - start)) < 0)
			ok = ftruncate(fd, (off_t)(end - start)) == 0;
		content_fill(content, buffer, 0, PIECE, 0);
	}
	for (at = start; ok && at < end; at += PIECE) {
		content_restamp(buffer, at, PIECE, 0);
		ok = files_transfer(fd, buffer, files_piece(at, end), at - start, true) &&
		     bench_progress(bench, "making a file",
				    (double)(at - start) / (double)(end - start));
	}
	ok = ok && fsync(fd) == 0;
	if (!ok && !bench_interrupted())
		bench_error(bench, "%s could not be made: %s", path, strerror(errno));
	if (fd >= 0)
		close(fd);
	free(buffer);
	content_written(content, start, end - start, 0);
	return ok;
}

static bool files_make(struct bench *bench, const char *path, struct content *content,
		       uint64_t bytes)
{
	bool ok = files_make_part(bench, path, content, 0, bytes);

	content->known = ok && bytes == content->pages * CONTENT_PAGE;
	return ok;
}

/* Read a file of the user's and record the sums of its pages. */
static bool files_learn(struct bench *bench, const char *path, struct content *content)
{
	uint64_t bytes = content->pages * CONTENT_PAGE, at;
	char *buffer = aligned_alloc(CONTENT_PAGE, PIECE);
	int fd = files_open(path, O_RDONLY);
	bool ok = buffer && fd >= 0;

	for (at = 0; ok && at < bytes; at += PIECE) {
		size_t length = files_piece(at, bytes), i;

		ok = files_transfer(fd, buffer, length, at, false) &&
		     bench_progress(bench, "reading the file once", (double)at / (double)bytes);
		for (i = 0; ok && i < length; i += CONTENT_PAGE)
			content->sums[(at + i) / CONTENT_PAGE] =
				sum_words(buffer + i, CONTENT_PAGE);
	}
	if (!ok && !bench_interrupted())
		bench_error(bench, "%s could not be read: %s", path, strerror(errno));
	if (fd >= 0)
		close(fd);
	free(buffer);
	content->known = ok;
	return ok;
}

bool files_create_read(struct bench *bench)
{
	struct content *content = bench->read_content;

	if (!content) {
		content = content_create(bench->settings.size, bench->settings.file);
		bench->read_content = content;
	}
	if (!content)
		return false;
	if (content->known)
		return true;
	if (bench->settings.file)
		return files_learn(bench, bench->read_path, content);
	return files_make(bench, bench->read_path, content, bench->settings.size);
}

/* Create a new file without any data. */
static bool files_make_fresh(struct bench *bench, const char *path, uint64_t bytes)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	bool ok = fd >= 0 && !ftruncate(fd, (off_t)bytes);

	if (!ok)
		bench_error(bench, "%s could not be made: %s", path, strerror(errno));
	if (fd >= 0)
		close(fd);
	return ok;
}

/* The deletion of the old files must not slow the next run down. */
static void files_settle(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd >= 0) {
		syncfs(fd);
		close(fd);
	}
	usleep(SETTLE);
}

/*
 * Provide the file that a run writes. With @fresh, it is a new file without any data.
 * Otherwise keep the file if its content is known, or make it.
 */
bool files_create_write(struct bench *bench, uint64_t bytes, bool fresh)
{
	if (!bench->write_content)
		bench->write_content = content_create(bench->settings.size, false);
	if (!bench->write_content)
		return false;
	if (!fresh)
		return bench->write_content->known ||
		       files_make(bench, bench->write_path, bench->write_content, bytes);
	unlink(bench->write_path);
	bench->write_content->known = false;
	if (!files_make_fresh(bench, bench->write_path, bytes))
		return false;
	files_settle(bench->write_path);
	return true;
}

/* Provide the files of a run whose processes have a file each: new ones, or with their data. */
bool files_create_own(struct bench *bench, const struct run *run)
{
	struct content **content = run->scenario->writes ? &bench->write_content :
							   &bench->read_content;
	struct run_file file;
	unsigned int i;
	bool ok;

	if (!*content)
		*content = content_create(bench->settings.size, false);
	tree_remove(run->path);
	ok = *content && !mkdir(run->path, 0700);
	if (!ok)
		bench_error(bench, "%s could not be made: %s", run->path, strerror(errno));
	for (i = 0; ok && i < run_files(run); i++) {
		run_file(run, i, &file);
		ok = run->scenario->fresh ?
			     files_make_fresh(bench, file.path, file.end - file.start) :
			     files_make_part(bench, file.path, *content, file.start, file.end);
	}
	if (ok && run->scenario->fresh)
		files_settle(run->path);
	return ok;
}

/* Remove the data that earlier runs have written to the second half of the file. */
bool files_cut_tail(struct bench *bench, uint64_t bytes)
{
	uint64_t half = bytes / 2;
	bool ok = !truncate(bench->write_path, (off_t)half) &&
		  !truncate(bench->write_path, (off_t)bytes);

	if (!ok) {
		bench_error(bench, "%s could not be cut: %s", bench->write_path, strerror(errno));
		return false;
	}
	content_written(bench->write_content, half, bytes - half, CONTENT_HOLE);
	usleep(SETTLE);
	return true;
}

/* --- checking --- */

static bool files_verify_one(struct bench *bench, const struct run_file *file, char *what,
			     size_t size)
{
	const struct content *content = bench->write_content;
	uint64_t at, wrong;
	char *buffer = aligned_alloc(CONTENT_PAGE, PIECE);
	int fd = files_open(file->path, O_RDONLY);
	bool ok = buffer && fd >= 0;

	if (!ok)
		snprintf(what, size, "the file could not be opened to check it: %s",
			 strerror(errno));
	for (at = file->start; ok && at < file->end; at += PIECE) {
		size_t length = files_piece(at, file->end);

		if (!bench_progress(bench, "checking what was written",
				    (double)(at - file->start) / (double)(file->end - file->start)))
			break;
		ok = files_transfer(fd, buffer, length, at - file->start, false);
		if (!ok) {
			snprintf(what, size, "reading it back failed: %s", strerror(errno));
		} else if (!content_matches(content, buffer, at, length, &wrong)) {
			snprintf(what, size, "wrong data in the file at offset %llu",
				 (unsigned long long)(wrong - file->start));
			ok = false;
		}
	}
	if (fd >= 0)
		close(fd);
	free(buffer);
	return ok;
}

/* Does the device hold the data of the last writes? If not, describe the fault in @what. */
bool files_verify(struct bench *bench, const struct run *run, char *what, size_t size)
{
	struct run_file file;
	unsigned int i;

	for (i = 0; i < run_files(run); i++) {
		run_file(run, i, &file);
		if (!files_verify_one(bench, &file, what, size))
			return false;
	}
	return true;
}

/* --- the speed of the device --- */

/* Estimate the speed of the device, to predict how long the runs will take. */
void files_measure(struct bench *bench)
{
	const char *path = bench->settings.file ? bench->read_path : bench->write_path;
	char *buffer = aligned_alloc(CONTENT_PAGE, PIECE);
	struct content *content = content_create(MEASURED, false);
	double start = cli_now(), speed, read_speed;
	uint64_t at;
	int fd;

	bench->device_mb_s = 100;
	if (!bench->settings.file && content && !files_make(bench, path, content, MEASURED))
		goto out;
	speed = MEASURED / MB / (cli_now() - start);
	fd = files_open(path, O_RDONLY);
	start = cli_now();
	for (at = 0;
	     buffer && fd >= 0 && at < MEASURED && files_transfer(fd, buffer, PIECE, at, false);
	     at += PIECE)
		;
	read_speed = (double)at / MB / (cli_now() - start);
	if (fd >= 0)
		close(fd);
	if (bench->settings.file || read_speed < speed)
		speed = read_speed;
	if (speed > 1)
		bench->device_mb_s = speed;
out:
	if (!bench->settings.file)
		unlink(path);
	content_destroy(content);
	free(buffer);
}

int files_prepare(struct bench *bench)
{
	const char *dir = bench->volume.dir;
	int n;

	if (bench->settings.file) {
		if (!realpath(bench->settings.file, bench->read_path))
			return -errno;
		return 0;
	}
	n = snprintf(bench->read_path, sizeof(bench->read_path), "%s/hugemap-bench.%d.read", dir,
		     getpid());
	if (n >= (int)sizeof(bench->read_path))
		return -ENAMETOOLONG;
	snprintf(bench->write_path, sizeof(bench->write_path), "%s/hugemap-bench.%d.write", dir,
		 getpid());
	snprintf(bench->own_dir, sizeof(bench->own_dir), "%s/hugemap-bench.%d.own", dir, getpid());
	if (!bench->settings.keep) {
		guard_file(bench->read_path);
		guard_file(bench->write_path);
		guard_tree(bench->own_dir);
	}
	return 0;
}

/* --- parts of the benchmark that are no C code of the command --- */

bool files_find_helper(const char *built, char path[PATH_MAX])
{
	const char *name = strrchr(built, '/');
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (n < 0)
		return false;
	self[n] = '\0';
	dirname(self);
	return (snprintf(path, PATH_MAX, "%s/%s", self, built) < PATH_MAX && !access(path, R_OK)) ||
	       (snprintf(path, PATH_MAX, "%s/../libexec/hugemap%s", self, name) < PATH_MAX &&
		!access(path, R_OK)) ||
	       (snprintf(path, PATH_MAX, HUGEMAP_LIBEXEC "%s", name) < PATH_MAX &&
		!access(path, R_OK));
}
