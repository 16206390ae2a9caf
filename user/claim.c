// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Claims against other processes. What one process caches of a file, another
 * cannot see, so of all processes that map a file through this library either
 * one may write it or any number may read it. A claim is a lock on a file named
 * after the mapped one; the kernel drops it when the process ends, however it
 * ends.
 */
#include "engine.h"

#include <dirent.h>
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

/*
 * A mapping of a store is given over to the kernel: other processes' engines must
 * not write the file, and may read it if they see what is stored. The claim that
 * is returned lasts until it is closed, here and in all children. -1: none.
 */
int claim_share(struct store *store)
{
	if (store->claim_fd < 0 || flock(store->claim_fd, LOCK_SH | LOCK_NB))
		return -1;
	store->claim_shared = true;
	return fcntl(store->claim_fd, F_DUPFD_CLOEXEC, 0);
}

/* Give a claim back; whoever is the last one tidies up. */
void claim_drop(struct store *store)
{
	char path[PATH_MAX_CLAIM];

	if (store->claim_fd < 0)
		return;
	claim_path(store->dev, store->ino, path);
	/* A lock that is shared is not ours alone, though we would get it. */
	if (!store->claim_shared && !flock(store->claim_fd, LOCK_EX | LOCK_NB))
		unlink(path);
	close(store->claim_fd);
	store->claim_fd = -1;
}

/**
 * claim_check() - may a file be mapped without a claim?
 * @fd: of a file that this process has no store of
 *
 * What another process has stored through its engine and not yet written, no
 * mapping of the kernel's would see.
 *
 * Return: 0 or -EBUSY.
 */
int claim_check(int fd)
{
	char path[PATH_MAX_CLAIM];
	bool taken = false;
	dev_t dev;
	ino_t ino;
	u32 tries;
	int claim;

	if (file_identify(fd, &dev, &ino) < 0)
		return 0;
	claim_path(dev, ino, path);
	claim = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (claim < 0)
		return 0;
	/* Who gives a claim back holds it alone for a moment. */
	for (tries = 0; tries < TRIES; tries++) {
		taken = flock(claim, LOCK_SH | LOCK_NB) < 0;
		if (!taken)
			break;
		usleep(TRY_EVERY_US);
	}
	close(claim);
	return taken ? fail(-EBUSY,
			    "another process has mapped this file with hugemap for writing; "
			    "what it stores could not be seen") :
		       0;
}

/* Does this process itself have the file open for writing? */
static bool open_for_writing_here(const struct stat *st)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *entry;
	bool found = false;

	while (dir && !found && (entry = readdir(dir))) {
		int fd = atoi(entry->d_name);
		struct stat other;
		int flags;

		if (entry->d_name[0] == '.' || fd == dirfd(dir) || fstat(fd, &other) < 0)
			continue;
		flags = fcntl(fd, F_GETFL);
		found = other.st_dev == st->st_dev && other.st_ino == st->st_ino && flags >= 0 &&
			(flags & O_ACCMODE) != O_RDONLY;
	}
	if (dir)
		closedir(dir);
	return found;
}

/**
 * claim_lease() - keep everybody from opening a file for writing
 * @fd: open for reading; holds the lease until it is closed
 *
 * The kernel grants it to the file's owner and to root, if nobody has it open for
 * writing, this process included. Who wants to waits.
 *
 * Return: 0 or -errno: -EAGAIN if there is a writer.
 */
int claim_lease(int fd)
{
	/* Somebody may break the lease in its short life: by a harmless signal. */
	fcntl(fd, F_SETSIG, SIGURG);
	return fcntl(fd, F_SETLEASE, F_RDLCK) < 0 ? -errno : 0;
}

/* Has another process the file open for writing now? */
bool claim_foreign_writer(int fd)
{
	struct stat st;
	bool writer;
	int probe;

	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || open_for_writing_here(&st))
		return false;
	probe = file_reopen(fd, O_RDONLY);
	if (probe < 0)
		return false;
	writer = claim_lease(probe) == -EAGAIN;
	close(probe);
	return writer;
}
