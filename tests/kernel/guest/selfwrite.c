// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * A program writes to the lower file from a mapping of the same file here, or reads the
 * lower file into such a mapping. The lower file system holds a lock of the file during the
 * copy, and the page fault of the copy needs the same lock. The program may block, but
 * SIGKILL must end it, the file must be usable afterwards, and write-back of other files
 * must go on.
 *
 * vm: page=2M,4K,auto lower=ext4,xfs timeout=240
 */
#include "common.h"

#include <linux/fiemap.h>
#include <linux/fs.h>
#include <sys/ioctl.h>

#define SIZE (8 * HUGE)

struct copy {
	struct turns turns;
	bool reads; /* by direct I/O, into a mapping of a hole; else it writes */
};

static void copy_lower_file(void *arg)
{
	struct copy *copy = arg;
	int fd = open_file("f", O_RDWR), lower;
	unsigned char *map = map_shared(fd, 0, SIZE);

	lower = open(lower_path("f"), copy->reads ? O_RDWR | O_DIRECT : O_RDWR);
	EXPECT(lower >= 0, "open of the lower file: %s", strerror(errno));
	/* Write-back has a dirty page of the file to write while the file is locked. */
	pattern(map, 1, 0, SMALL);
	turn_give(copy->turns.to_parent);
	if (copy->reads)
		pread(lower, map + 4 * HUGE, SMALL, 0);
	else
		pwrite(lower, map + 2 * HUGE, SMALL, 0);
}

/* Waits until background write-back has written a store to another file. */
static void expect_writeback_of_another_file(void)
{
	int fd = make_file("g", 3, SMALL), lower = open_file(lower_path("g"), O_RDONLY), i;
	unsigned char *map = map_shared(fd, 0, SMALL), there[SMALL], stored[SMALL];

	MUST(fsync(fd));
	pattern(map, 4, 0, SMALL);
	pattern(stored, 4, 0, SMALL);
	for (i = 0; i < 600; i++) {
		EXPECT(pread(lower, there, SMALL, 0) == SMALL, "read of the lower file: %s",
		       strerror(errno));
		if (!memcmp(there, stored, SMALL))
			break;
		usleep(100000);
	}
	EXPECT(i < 600, "another file was not written back during the copy");
	MUST(munmap(map, SMALL));
	close(lower);
	close(fd);
}

static void expect_copy_is_killable(bool reads)
{
	struct copy copy = { .reads = reads };
	int fd, status, i;
	pid_t pid, over = 0;

	fd = make_file("f", 1, 3 * HUGE);
	MUST(ftruncate(fd, SIZE));
	MUST(fsync(fd));
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	turns_init(&copy.turns);
	pid = start_child(copy_lower_file, &copy);
	turn_take(copy.turns.to_parent);
	/* Give the child time to block in the copy. */
	for (i = 0; i < 20 && !over; i++) {
		usleep(100000);
		over = waitpid(pid, &status, WNOHANG);
	}
	if (!over && !reads)
		expect_writeback_of_another_file();
	printf("  the copy %s\n", over ? "ended by itself" : "has to be killed");
	kill(pid, SIGKILL);
	for (i = 0; i < 300 && !over; i++) {
		usleep(100000);
		over = waitpid(pid, &status, WNOHANG);
	}
	EXPECT(over == pid, "SIGKILL does not end the copy");
	read_pattern("read afterwards", fd, 1, 2 * HUGE, HUGE);
	write_pattern(fd, 2, 2 * HUGE, HUGE);
	MUST(fsync(fd));
	MUST(ftruncate(fd, 0));
	close(fd);
}

BEHAVIOUR(write_from_own_mapping_is_killable)
{
	expect_copy_is_killable(false);
}

BEHAVIOUR(read_into_own_mapping_is_killable)
{
	expect_copy_is_killable(true);
}

/* FIEMAP stores its result to a mapping of a hole of the same file. */
static void fiemap_into_hole(void *arg)
{
	int fd = open_file("f", O_RDWR);
	unsigned char *map = map_shared(fd, 0, SIZE);
	struct fiemap *fiemap = (struct fiemap *)(map + 3 * HUGE - sizeof(*fiemap));

	(void)arg;
	*fiemap = (struct fiemap){ .fm_length = SIZE, .fm_extent_count = 8 };
	MUST(ioctl(fd, FS_IOC_FIEMAP, fiemap));
	EXPECT(fiemap->fm_mapped_extents && fiemap->fm_extents[0].fe_length,
	       "FIEMAP reported no extents");
}

BEHAVIOUR(fiemap_into_own_mapping_does_not_block)
{
	int fd = make_file("f", 1, 3 * HUGE), status, i;
	pid_t pid, over = 0;

	MUST(ftruncate(fd, SIZE));
	MUST(fsync(fd));
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	pid = start_child(fiemap_into_hole, NULL);
	for (i = 0; i < 300 && !over; i++) {
		usleep(100000);
		over = waitpid(pid, &status, WNOHANG);
	}
	if (!over) {
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
	}
	EXPECT(over == pid, "FIEMAP blocks on the file that it reports");
	EXPECT(WIFEXITED(status) && !WEXITSTATUS(status), "FIEMAP failed: status %#x", status);
	MUST(ftruncate(fd, 0));
	close(fd);
}

RUN_BEHAVIOURS
