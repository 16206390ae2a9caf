// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * HUGEMAP_IOC_CACHED: which blocks of a file are cached, as huge units, in base pages, or
 * dirty; who may know; and that looking leaves everything as it was.
 *
 * vm: page=auto lower=ext4 pool=48M
 */
#include "common.h"

#include <sys/ioctl.h>

#include "../../../include/hugemap_ioctl.h"

#define BLOCKS 6u
#define PAGES (HUGE / SMALL)
#define SIZE (BLOCKS * HUGE + 3 * SMALL)

static struct hugemap_cell cells[BLOCKS + 4];

/* Returns how many cells are of the file. */
static unsigned int look(int fd, uint64_t offset, uint64_t cell)
{
	struct hugemap_cached cached = { offset, cell, (uintptr_t)cells, COUNT(cells), 0 };

	memset(cells, 0xff, sizeof(cells));
	MUST(ioctl(fd, HUGEMAP_IOC_CACHED, &cached));
	return cached.count;
}

static void expect_cell(unsigned int i, unsigned int huge, unsigned int base, unsigned int dirty)
{
	EXPECT(cells[i].huge == huge && cells[i].base == base && cells[i].dirty == dirty,
	       "cell %u: %u pages in huge units, %u base pages, %u dirty; expected %u, %u, %u", i,
	       cells[i].huge, cells[i].base, cells[i].dirty, huge, base, dirty);
}

static int cold_file(void)
{
	int fd = make_file("f", 1, SIZE);

	MUST(fsync(fd));
	MUST(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED));
	return fd;
}

BEHAVIOUR(tells_what_is_cached)
{
	int fd = cold_file();
	volatile unsigned char *map = map_shared(fd, 0, SIZE);
	unsigned int i;

	EXPECT(look(fd, 0, HUGE) == BLOCKS + 1, "a cell for each block, and one for the end");
	for (i = 0; i <= BLOCKS; i++)
		expect_cell(i, 0, 0, 0);
	EXPECT(cells[0].pages == PAGES && cells[BLOCKS].pages == 3, "%u and %u pages of the file",
	       cells[0].pages, cells[BLOCKS].pages);

	MUST(madvise((void *)map, 2 * HUGE, MADV_HUGEPAGE));
	MUST(madvise((void *)map, SIZE, MADV_RANDOM));
	(void)map[5 * SMALL];
	map[HUGE + 5 * SMALL]++;
	for (i = 0; i < 10; i++)
		(void)map[3 * HUGE + i * 37 * SMALL];
	map[3 * HUGE + 37 * SMALL]++;
	map[3 * HUGE + 74 * SMALL]++;
	(void)map[BLOCKS * HUGE];
	look(fd, 0, HUGE);
	expect_cell(0, PAGES, 0, 0);
	/* Of a unit, some of it may be what is dirty. */
	EXPECT(cells[1].huge == PAGES && cells[1].dirty > 0, "%u pages, %u dirty", cells[1].huge,
	       cells[1].dirty);
	expect_cell(2, 0, 0, 0);
	expect_cell(3, 0, 10, 2);
	expect_cell(BLOCKS, 0, 1, 0);

	EXPECT(look(fd, 2 * HUGE, 4 * HUGE) == 2, "two cells of four blocks");
	expect_cell(0, 0, 10, 2);
	expect_cell(1, 0, 1, 0);
	EXPECT(look(fd, 0, 1ull << 40) == 1, "one cell of all");
	EXPECT(cells[0].pages == BLOCKS * PAGES + 3 && cells[0].huge == 2 * PAGES &&
		       cells[0].base == 11,
	       "all: %u pages, %u and %u cached", cells[0].pages, cells[0].huge, cells[0].base);
	EXPECT(look(fd, 1ull << 40, HUGE) == 0, "nothing is behind the end");

	MUST(fsync(fd));
	look(fd, 0, HUGE);
	expect_cell(1, PAGES, 0, 0);
	expect_cell(3, 0, 10, 0);
	MUST(munmap((void *)map, SIZE));
	MUST(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED));
	look(fd, 0, HUGE);
	for (i = 0; i <= BLOCKS; i++)
		expect_cell(i, 0, 0, 0);
}

BEHAVIOUR(looking_changes_nothing)
{
	static const char *const names[] = { "faults",	   "hits",	 "read_bytes",
					     "ahead_used", "huge_bytes", "resident_bytes",
					     "dirty_bytes" };
	volatile unsigned char *map = map_shared(cold_file(), 0, SIZE);
	uint64_t before[COUNT(names)];
	unsigned int i, n;
	int fd;

	(void)map[3 * HUGE];
	map[2 * HUGE]++;
	while (mount_stat("io_in_flight"))
		usleep(10000);
	for (i = 0; i < COUNT(names); i++)
		before[i] = mount_stat(names[i]);
	for (n = 0; n < 100; n++) {
		fd = open_file("f", O_RDONLY);
		look(fd, 0, HUGE);
		close(fd);
	}
	/* What is dirty may be written by itself meanwhile. */
	for (i = 0; i < COUNT(names); i++)
		EXPECT(!strcmp(names[i], "dirty_bytes") ? mount_stat(names[i]) <= before[i] :
							  mount_stat(names[i]) == before[i],
		       "%s: %llu, and %llu before", names[i],
		       (unsigned long long)mount_stat(names[i]), (unsigned long long)before[i]);
}

BEHAVIOUR(wrong_calls)
{
	int fd = cold_file();
	struct hugemap_cached right = { 0, HUGE, (uintptr_t)cells, 1, 0 }, wrong;

	MUST(ioctl(fd, HUGEMAP_IOC_CACHED, &right));
	wrong = (struct hugemap_cached){ SMALL, HUGE, (uintptr_t)cells, 1, 0 };
	EXPECT_ERRNO(ioctl(fd, HUGEMAP_IOC_CACHED, &wrong), EINVAL);
	wrong = (struct hugemap_cached){ 0, 0, (uintptr_t)cells, 1, 0 };
	EXPECT_ERRNO(ioctl(fd, HUGEMAP_IOC_CACHED, &wrong), EINVAL);
	wrong = (struct hugemap_cached){ 0, HUGE + SMALL, (uintptr_t)cells, 1, 0 };
	EXPECT_ERRNO(ioctl(fd, HUGEMAP_IOC_CACHED, &wrong), EINVAL);
	wrong = (struct hugemap_cached){ 0, 1ull << 44, (uintptr_t)cells, 1, 0 };
	EXPECT_ERRNO(ioctl(fd, HUGEMAP_IOC_CACHED, &wrong), EINVAL);
	wrong = (struct hugemap_cached){ ~0ull << 21, HUGE, (uintptr_t)cells, 1, 0 };
	EXPECT_ERRNO(ioctl(fd, HUGEMAP_IOC_CACHED, &wrong), EINVAL);
	wrong = (struct hugemap_cached){ 0, HUGE, (uintptr_t)cells, 65537, 0 };
	EXPECT_ERRNO(ioctl(fd, HUGEMAP_IOC_CACHED, &wrong), EINVAL);
	wrong = (struct hugemap_cached){ 0, HUGE, (uintptr_t)cells, 1, 1 };
	EXPECT_ERRNO(ioctl(fd, HUGEMAP_IOC_CACHED, &wrong), EINVAL);
	wrong = (struct hugemap_cached){ 0, HUGE, 8, 1, 0 };
	EXPECT_ERRNO(ioctl(fd, HUGEMAP_IOC_CACHED, &wrong), EFAULT);
	EXPECT_ERRNO(ioctl(fd, HUGEMAP_IOC_CACHED, NULL), EFAULT);
	/* A directory has none. */
	EXPECT_ERRNO(ioctl(open_file(".", O_RDONLY | O_DIRECTORY), HUGEMAP_IOC_CACHED, &right),
		     ENOTTY);
}

/* As somebody else, who has opened it for reading: 0 or the error. */
static int errno_of_other(void)
{
	struct hugemap_cached cached = { 0, HUGE, (uintptr_t)cells, 1, 0 };
	pid_t child = fork();
	int status;

	MUST(child);
	if (!child) {
		MUST(setgroups(0, NULL));
		MUST(setgid(1234));
		MUST(setuid(1234));
		_exit(ioctl(open_file("f", O_RDONLY), HUGEMAP_IOC_CACHED, &cached) ? errno : 0);
	}
	MUST(waitpid(child, &status, 0));
	EXPECT(WIFEXITED(status), "it ends with %#x", status);
	return WEXITSTATUS(status);
}

BEHAVIOUR(only_who_may_write)
{
	int fd = cold_file();

	MUST(chmod(".", 0755));
	MUST(fchmod(fd, 0644));
	EXPECT(errno_of_other() == EPERM, "who may read it may look");
	MUST(fchmod(fd, 0646));
	EXPECT(!errno_of_other(), "who could write it may not look");
	MUST(fchmod(fd, 0444));
	EXPECT(errno_of_other() == EPERM, "who may read it may look");
	MUST(fchown(fd, 1234, 1234));
	EXPECT(!errno_of_other(), "who owns it may not look");
}

RUN_BEHAVIOURS
