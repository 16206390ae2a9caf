// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* hugemap doctor: I/O, and a mapping made for a trial. */
#include "doctor.h"
#include "hugemap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <liburing.h>

#define TRIAL_BYTES (4u << 20)
#define TRIAL_POOL (32u << 20)

/* --- io_uring --- */

static int try_io_uring(void)
{
	struct io_uring ring;
	struct io_uring_sqe *sqe;
	struct io_uring_cqe *cqe;
	int err = io_uring_queue_init(4, &ring, 0);

	if (err)
		return err;
	sqe = io_uring_get_sqe(&ring);
	io_uring_prep_nop(sqe);
	err = io_uring_submit(&ring);
	if (err > 0)
		err = io_uring_wait_cqe(&ring, &cqe);
	if (!err)
		io_uring_cqe_seen(&ring, cqe);
	io_uring_queue_exit(&ring);
	return err;
}

void check_io_uring(const struct patient *patient, struct finding *finding)
{
	unsigned long long disabled = 0;
	bool known = read_field("/proc/sys/kernel/io_uring_disabled", "", &disabled);
	int err = try_io_uring();

	finding->details = json_pack("{s:b, s:o, s:s?}", "works", !err, "io_uring_disabled",
				     known ? json_integer((json_int_t)disabled) : json_null(),
				     "error", err ? strerror(-err) : NULL);
	if (!err) {
		found(finding, GOOD, "works");
		return;
	}
	found(finding, WEAK, "does not work (%s): I/O is done by a pool of threads instead",
	      strerror(-err));
	if (disabled)
		remedy(patient, finding, "allows I/O without a pool of threads",
		       "sysctl kernel.io_uring_disabled=0");
	else if (patient->container)
		remedy(patient, finding, "allows io_uring in the container",
		       "docker run --security-opt seccomp=unconfined IMAGE");
}

/* --- direct I/O --- */

/* A file of random content in the directory; *path must be freed and unlinked. */
static int make_file(const struct volume *volume, char **path)
{
	char *block = malloc(TRIAL_BYTES);
	size_t i;
	int fd;

	if (!block || asprintf(path, "%s/.hugemap-doctor-XXXXXX", volume->dir) < 0) {
		free(block);
		return -ENOMEM;
	}
	fd = mkostemp(*path, O_CLOEXEC);
	if (fd < 0) {
		fd = -errno;
		free(*path);
		free(block);
		return fd;
	}
	for (i = 0; i < TRIAL_BYTES; i++)
		block[i] = (char)(i * 2654435761u >> 13);
	if (write(fd, block, TRIAL_BYTES) != TRIAL_BYTES) {
		int err = errno ? -errno : -ENOSPC;

		close(fd);
		unlink(*path);
		free(*path);
		fd = err;
	}
	free(block);
	return fd;
}

static void no_file(struct finding *finding, const struct volume *volume, int err)
{
	found(finding, WEAK, "could not be tried: no file can be made in %.100s (%s)", volume->dir,
	      strerror(-err));
	finding->details = json_pack("{s:s, s:n}", "dir", volume->dir, "works");
}

void check_direct_io(const struct patient *patient, struct finding *finding)
{
	const struct volume *volume = patient->volume;
	char *path;
	int fd = make_file(volume, &path), align;

	if (fd < 0) {
		no_file(finding, volume, fd);
		return;
	}
	align = volume_direct_align(fd, path);
	close(fd);
	unlink(path);
	free(path);
	finding->details = json_pack("{s:s, s:s, s:s, s:b, s:i}", "dir", volume->dir, "file_system",
				     volume->type, "device", volume->device, "works", align > 0,
				     "align", align > 0 ? align : 0);
	if (align > 0)
		found(finding, GOOD, "works in %.100s (%s), in units of %d bytes", volume->dir,
		      volume->type, align);
	else
		found(finding, WEAK,
		      "%s does not do it in %.100s: data passes through the page cache; put files "
		      "on ext4 or XFS",
		      volume->type, volume->dir);
}

/* --- a pool --- */

static bool same_content(const unsigned char *data)
{
	size_t i;

	for (i = 0; i < TRIAL_BYTES; i++)
		if (data[i] != (unsigned char)(i * 2654435761u >> 13))
			return false;
	return true;
}

static void try_mapping(int fd, struct hugemap_pool *pool, struct finding *finding)
{
	struct hugemap_options options = { .size = sizeof(options), .pool = pool };
	void *at = hugemap_map(fd, 0, 0, PROT_READ | PROT_WRITE, 0, &options);
	int err = hugemap_error(at);
	bool good;

	if (err) {
		found(finding, BAD, "a file could not be mapped: %s", hugemap_strerror(err));
		return;
	}
	good = same_content(at);
	hugemap_unmap(at, TRIAL_BYTES);
	if (!good)
		found(finding, BAD,
		      "a mapped file showed wrong bytes: this is a bug, please report it");
	else
		found(finding, GOOD, "a file was mapped and read through a pool");
}

void check_pool(const struct patient *patient, struct finding *finding)
{
	struct hugemap_pool_options options = { .size = sizeof(options), .bytes = TRIAL_POOL };
	struct hugemap_pool *pool;
	char *path;
	int fd, err = hugemap_pool_create(&options, &pool);

	if (err) {
		found(finding, BAD, "no pool could be made: %s",
		      *hugemap_reason() ? hugemap_reason() : hugemap_strerror(err));
		finding->details = json_pack("{s:b}", "works", 0);
		return;
	}
	fd = make_file(patient->volume, &path);
	if (fd >= 0) {
		try_mapping(fd, pool, finding);
		close(fd);
		unlink(path);
		free(path);
	} else {
		/* The engine itself is fine. */
		found(finding, GOOD, "a pool was made; no file to map can be made in %.100s (%s)",
		      patient->volume->dir, strerror(-fd));
	}
	hugemap_pool_destroy(pool);
	finding->details = json_pack("{s:b}", "works", finding->verdict == GOOD);
}
