// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The mount must not get in the way of the lower file system: it frees inodes of deleted
 * files, writes nothing early, and allows a freeze.
 *
 * vm: page=auto lower=ext4 timeout=120
 */
#include "entry.h"

#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/statvfs.h>
#include <time.h>

static unsigned long free_inodes(void)
{
	struct statvfs st;

	MUST(statvfs(work_lower, &st));
	return st.f_ffree;
}

/* The kernel must be able to reclaim an inode that O_TMPFILE created, like any other. */
BEHAVIOUR(tmpfile_inodes_are_reclaimed)
{
	const unsigned int count = 40;
	unsigned long before;
	char name[64], path[64];
	unsigned int i;
	int fd;

	for (i = 0; i < count; i++) {
		fd = open(".", O_TMPFILE | O_RDWR, 0600);
		EXPECT(fd >= 0, "open(O_TMPFILE): %s", strerror(errno));
		write_pattern(fd, i, 0, SMALL);
		MUST(fsync(fd));
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		snprintf(name, sizeof(name), "f%u", i);
		MUST(linkat(AT_FDCWD, path, AT_FDCWD, name, AT_SYMLINK_FOLLOW));
		MUST(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED));
		close(fd);
	}
	before = free_inodes();
	drop_caches("3");
	drop_caches("3");
	for (i = 0; i < count; i++) {
		snprintf(name, sizeof(name), "f%u", i);
		MUST(unlink(lower_path(name)));
	}
	EXPECT(free_inodes() == before + count, "deleting %u lower files freed %ld inodes", count,
	       (long)(free_inodes() - before));
}

/* cp(1) tries to clone first. ext4 has no clones, so the attempt must not write the source back. */
BEHAVIOUR(failed_clone_writes_nothing_back)
{
	struct timespec start, end;
	struct stat st;
	int in, out, tries;

	for (tries = 0; tries < 3; tries++) {
		clock_gettime(CLOCK_MONOTONIC, &start);
		in = make_file("in", 1, 5 * SMALL);
		out = open_file("out", O_RDWR | O_CREAT | O_TRUNC);
		MUST(lseek(in, 0, SEEK_SET));
		MUST(copy_file_range(in, NULL, out, NULL, 5 * SMALL, 0));
		MUST(stat(lower_path("in"), &st));
		clock_gettime(CLOCK_MONOTONIC, &end);
		close(in);
		close(out);
		/* After that, periodic write-back may have written the source. */
		if (end.tv_sec - start.tv_sec < 2)
			break;
	}
	if (tries == 3)
		skip("too slow: periodic write-back would hide the result");
	EXPECT(!st.st_size, "%lld bytes of the source were written back", (long long)st.st_size);
}

BEHAVIOUR(store_while_the_lower_fs_is_frozen_updates_times)
{
	const struct timespec old[2] = { { .tv_sec = 1000000000 }, { .tv_sec = 1000000000 } };
	int fd = make_file("f", 1, 3 * SMALL), dir = open_file(work_lower, O_RDONLY | O_DIRECTORY);
	unsigned char *map = map_shared(fd, 0, 3 * SMALL);
	struct stat st;
	int sig;

	catch_signals();
	MUST(fsync(fd));
	MUST(futimens(fd, old));
	expect_pattern("load before the freeze", map, 1, 0, 3 * SMALL);
	if (ioctl(dir, FIFREEZE, 0))
		skip("the lower file system cannot be frozen: %s", strerror(errno));
	sig = signal_of_store(map);
	MUST(ioctl(dir, FITHAW, 0));
	EXPECT(!sig, "a store while the lower fs is frozen raised %s", strsignal(sig));
	MUST(fsync(fd));
	MUST(fstat(fd, &st));
	EXPECT(st.st_mtime > 1000000000 && st.st_ctime > 1000000000,
	       "the times of the file are those before the store");
	MUST(stat(lower_path("f"), &st));
	EXPECT(st.st_mtime > 1000000000, "mtime of the lower file is that before the store");
	MUST(munmap(map, 3 * SMALL));
	close(dir);
	close(fd);
}

/* A page fault that waited for a thaw would hold mm locks of its process for that time. */
BEHAVIOUR(mount_cannot_be_frozen)
{
	int dir = open_file(mnt_dir, O_RDONLY | O_DIRECTORY);

	EXPECT_ERRNO(ioctl(dir, FIFREEZE, 0), EOPNOTSUPP);
	close(dir);
}

RUN_BEHAVIOURS
