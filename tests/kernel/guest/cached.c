// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * HUGEMAP_IOC_CACHED reports how many pages of each cell of a file are cached in huge units,
 * cached in base pages, and dirty. It needs write permission for the file or ownership, and
 * it does not change the cache.
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

/* Returns the number of cells up to the end of the file. */
static unsigned int get_cells(int fd, uint64_t offset, uint64_t cell)
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

BEHAVIOUR(cells_count_huge_base_and_dirty_pages)
{
	int fd = make_cold_file("f", 1, SIZE);
	volatile unsigned char *map = map_shared(fd, 0, SIZE);
	unsigned int i;

	EXPECT(get_cells(fd, 0, HUGE) == BLOCKS + 1,
	       "expected a cell for each block and one for the end");
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
	get_cells(fd, 0, HUGE);
	expect_cell(0, PAGES, 0, 0);
	/* Dirty tracking may be finer than the unit. */
	EXPECT(cells[1].huge == PAGES && cells[1].dirty > 0, "%u pages, %u dirty", cells[1].huge,
	       cells[1].dirty);
	expect_cell(2, 0, 0, 0);
	expect_cell(3, 0, 10, 2);
	expect_cell(BLOCKS, 0, 1, 0);

	EXPECT(get_cells(fd, 2 * HUGE, 4 * HUGE) == 2, "expected two cells of four blocks");
	expect_cell(0, 0, 10, 2);
	expect_cell(1, 0, 1, 0);
	EXPECT(get_cells(fd, 0, 1ull << 40) == 1, "expected one cell for the file");
	EXPECT(cells[0].pages == BLOCKS * PAGES + 3 && cells[0].huge == 2 * PAGES &&
		       cells[0].base == 11,
	       "the file has %u pages, %u cached in huge units and %u in base pages",
	       cells[0].pages, cells[0].huge, cells[0].base);
	EXPECT(get_cells(fd, 1ull << 40, HUGE) == 0, "expected no cell behind the end");

	MUST(fsync(fd));
	get_cells(fd, 0, HUGE);
	expect_cell(1, PAGES, 0, 0);
	expect_cell(3, 0, 10, 0);
	MUST(munmap((void *)map, SIZE));
	MUST(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED));
	get_cells(fd, 0, HUGE);
	for (i = 0; i <= BLOCKS; i++)
		expect_cell(i, 0, 0, 0);
}

BEHAVIOUR(the_query_does_not_change_the_cache)
{
	static const char *const names[] = { "faults",	   "hits",	 "read_bytes",
					     "ahead_used", "huge_bytes", "resident_bytes",
					     "dirty_bytes" };
	volatile unsigned char *map = map_shared(make_cold_file("f", 1, SIZE), 0, SIZE);
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
		get_cells(fd, 0, HUGE);
		close(fd);
	}
	/* Periodic write-back may clean pages at any time. */
	for (i = 0; i < COUNT(names); i++)
		EXPECT(!strcmp(names[i], "dirty_bytes") ? mount_stat(names[i]) <= before[i] :
							  mount_stat(names[i]) == before[i],
		       "%s: %llu, and %llu before", names[i],
		       (unsigned long long)mount_stat(names[i]), (unsigned long long)before[i]);
}

BEHAVIOUR(invalid_arguments_are_refused)
{
	int fd = make_cold_file("f", 1, SIZE);
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
	/* Directories have no cells. */
	EXPECT_ERRNO(ioctl(open_file(".", O_RDONLY | O_DIRECTORY), HUGEMAP_IOC_CACHED, &right),
		     ENOTTY);
}

/* The errno of a query by another user, with a descriptor for reading; 0: it worked. */
static int errno_for_other_user(void)
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
	EXPECT(WIFEXITED(status), "the child ended with %#x", status);
	return WEXITSTATUS(status);
}

BEHAVIOUR(query_needs_write_permission_or_ownership)
{
	int fd = make_cold_file("f", 1, SIZE);

	MUST(chmod(".", 0755));
	MUST(fchmod(fd, 0644));
	EXPECT(errno_for_other_user() == EPERM, "a user without write permission was allowed");
	MUST(fchmod(fd, 0646));
	EXPECT(!errno_for_other_user(), "a user with write permission was refused");
	MUST(fchmod(fd, 0444));
	EXPECT(errno_for_other_user() == EPERM, "a user without write permission was allowed");
	MUST(fchown(fd, 1234, 1234));
	EXPECT(!errno_for_other_user(), "the owner was refused");
}

RUN_BEHAVIOURS
