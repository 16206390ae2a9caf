// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Claims against other processes. What one process caches of a file, another
 * cannot see, so of all processes that map a file through this library either
 * one may write it or any number may read it. A claim is a lock on a file named
 * after the mapped one; the kernel drops it when the process ends, however it
 * ends.
 */
#include "engine.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define PATH_MAX_CLAIM 96
#define TRIES 10u
#define TRY_EVERY_US 1000

/* A block device is known by its number alone: ino is 0. */
static void claim_path(dev_t dev, ino_t ino, char *path)
{
	snprintf(path, PATH_MAX_CLAIM, "/dev/shm/hugemap-claim.%u.%u.%llu.%s", major(dev),
		 minor(dev), (unsigned long long)ino, ino ? "file" : "dev");
}

static int open_claim(const struct store *store)
{
	char path[PATH_MAX_CLAIM];
	int fd;

	claim_path(store->dev, store->ino, path);
	/* Not O_CREAT at once: another user's file is not to be "created". */
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 && errno == ENOENT) {
		fd = open(path, O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
		if (fd >= 0)
			fchmod(fd, 0444);
		else if (errno == EEXIST)
			fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	}
	return fd;
}

/* Has the last holder removed the file since we opened it? */
static bool stale(int fd)
{
	struct stat st;

	return fstat(fd, &st) < 0 || !st.st_nlink;
}

/**
 * claim_take() - claim a store for reading or writing
 *
 * Return: 0, also where there is no /dev/shm to keep claims in; or -EBUSY.
 */
int claim_take(struct store *store, bool write)
{
	int operation = (write ? LOCK_EX : LOCK_SH) | LOCK_NB;
	int fd = store->claim_fd;
	bool locked = false;
	u32 tries;

	if (fd >= 0) {
		locked = !flock(fd, operation);
		if (!locked)
			flock(fd, LOCK_SH | LOCK_NB); /* a failed upgrade has dropped it */
	}
	/* Who gives a claim back holds it alone for a moment. */
	for (tries = 0; store->claim_fd < 0 && tries < TRIES; tries++) {
		fd = open_claim(store);
		if (fd < 0)
			return 0;
		locked = !flock(fd, operation);
		if (locked && !stale(fd)) {
			store->claim_fd = fd;
			return 0;
		}
		close(fd);
		if (!locked)
			usleep(TRY_EVERY_US);
	}
	if (locked)
		return 0;
	return fail(-EBUSY,
		    "another process has mapped this file with hugemap%s; only one may "
		    "while it is written",
		    write ? "" : " for writing");
}

/* Give a claim back; whoever is the last one tidies up. */
void claim_drop(struct store *store)
{
	char path[PATH_MAX_CLAIM];

	if (store->claim_fd < 0)
		return;
	claim_path(store->dev, store->ino, path);
	if (!flock(store->claim_fd, LOCK_EX | LOCK_NB))
		unlink(path);
	close(store->claim_fd);
	store->claim_fd = -1;
}
