// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * A program writes the file below out of a mapping of the same file here, or reads that
 * into one: the file system below has its lock while the fault needs it. Nobody should;
 * who does may wait, but not for ever: SIGKILL ends it, and nothing stays behind. And
 * nobody else waits: other files are written meanwhile.
 *
 * vm: page=2M,4K,auto lower=ext4,xfs timeout=240
 */
#include "common.h"

#include <linux/fiemap.h>
#include <linux/fs.h>
#include <sys/ioctl.h>

#define SIZE (8 * HUGE)

struct self {
	struct turns turns;
	bool reads; /* directly, into a mapping of a hole */
};

static void write_below(void *arg)
{
	struct self *self = arg;
	int fd = open_file("f", O_RDWR), lower;
	unsigned char *map = map_shared(fd, 0, SIZE);

	lower = open(lower_path("f"), self->reads ? O_RDWR | O_DIRECT : O_RDWR);
	EXPECT(lower >= 0, "open below: %s", strerror(errno));
	/* There is something to be written of the file, as long as it is locked. */
	pattern(map, 1, 0, SMALL);
	turn_give(self->turns.to_parent);
	if (self->reads)
		pread(lower, map + 4 * HUGE, SMALL, 0);
	else
		pwrite(lower, map + 2 * HUGE, SMALL, 0);
}

/* Until what is stored to another file is below, by itself. */
static void another_is_written(void)
{
	int fd = make_file("g", 3, SMALL), lower = open_file(lower_path("g"), O_RDONLY), i;
	unsigned char *map = map_shared(fd, 0, SMALL), there[SMALL], stored[SMALL];

	MUST(fsync(fd));
	pattern(map, 4, 0, SMALL);
	pattern(stored, 4, 0, SMALL);
	for (i = 0; i < 600; i++) {
		EXPECT(pread(lower, there, SMALL, 0) == SMALL, "read below: %s", strerror(errno));
		if (!memcmp(there, stored, SMALL))
			break;
		usleep(100000);
	}
	EXPECT(i < 600, "another file is not written meanwhile");
	MUST(munmap(map, SMALL));
	close(lower);
	close(fd);
}

static void ends(bool reads)
{
	struct self self = { .reads = reads };
	int fd, status, i;
	pid_t pid, over = 0;

	fd = make_file("f", 1, 3 * HUGE);
	MUST(ftruncate(fd, SIZE));
	MUST(fsync(fd));
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	turns_init(&self.turns);
	pid = start_child(write_below, &self);
	turn_take(self.turns.to_parent);
	/* It has the time to get there. */
	for (i = 0; i < 20 && !over; i++) {
		usleep(100000);
		over = waitpid(pid, &status, WNOHANG);
	}
	if (!over && !reads)
		another_is_written();
	printf("  it %s\n", over ? "ends by itself" : "has to be killed");
	kill(pid, SIGKILL);
	for (i = 0; i < 300 && !over; i++) {
		usleep(100000);
		over = waitpid(pid, &status, WNOHANG);
	}
	EXPECT(over == pid, "it cannot be killed");
	/* And the file can be used. */
	read_pattern("read afterwards", fd, 1, 2 * HUGE, HUGE);
	write_pattern(fd, 2, 2 * HUGE, HUGE);
	MUST(fsync(fd));
	MUST(ftruncate(fd, 0));
	close(fd);
}

BEHAVIOUR(write_from_own_mapping)
{
	ends(false);
}

BEHAVIOUR(read_into_own_mapping)
{
	ends(true);
}

/* Extents are told to a mapping of a hole: that is no reason to wait. */
static void tell_extents(void *arg)
{
	int fd = open_file("f", O_RDWR);
	unsigned char *map = map_shared(fd, 0, SIZE);
	struct fiemap *fiemap = (struct fiemap *)(map + 3 * HUGE - sizeof(*fiemap));

	(void)arg;
	*fiemap = (struct fiemap){ .fm_length = SIZE, .fm_extent_count = 8 };
	MUST(ioctl(fd, FS_IOC_FIEMAP, fiemap));
	EXPECT(fiemap->fm_mapped_extents && fiemap->fm_extents[0].fe_length, "no extents are told");
}

BEHAVIOUR(fiemap_into_own_mapping)
{
	int fd = make_file("f", 1, 3 * HUGE), status, i;
	pid_t pid, over = 0;

	MUST(ftruncate(fd, SIZE));
	MUST(fsync(fd));
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	pid = start_child(tell_extents, NULL);
	for (i = 0; i < 300 && !over; i++) {
		usleep(100000);
		over = waitpid(pid, &status, WNOHANG);
	}
	if (!over) {
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
	}
	EXPECT(over == pid, "it waits for itself");
	EXPECT(WIFEXITED(status) && !WEXITSTATUS(status), "it failed");
	MUST(ftruncate(fd, 0));
	close(fd);
}

RUN_BEHAVIOURS
