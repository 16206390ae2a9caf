// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Each operation ends beside other processes that work against it in a loop: FADV_DONTNEED drops
 * pages between their read and their use, and new files make a sync longer. The others stop by
 * themselves after a number of operations. The starved operation must end before that. Beside
 * FADV_DONTNEED it must also read its pages only a few times.
 *
 * vm: page=auto lower=ext4 modules=dm_mod timeout=480
 * vm: page=2M,4K lower=ext4 modules=dm_mod timeout=480 set=long
 */
#include "dm.h"
#include "mounts.h"
#include "others.h"

#define OTHERS 2u
#define ROUNDS 16u
#define SIZE (8 * HUGE)

/* --- beside FADV_DONTNEED --------------------------------------------------------------- */

#define ADVICES 1000000u
#define READS_MAX 100u /* of an operation that needs one read or two */

/* Reads before the operation, and the reads of the operation with the most. */
static uint64_t reads, most_reads;

static void begin(struct others *others)
{
	reads = mount_stat("read_ios");
	others_count(others);
}

static void end(struct others *others, const char *what)
{
	others_check(others, what);
	reads = mount_stat("read_ios") - reads;
	if (reads > most_reads)
		most_reads = reads;
}

static void stop_advising(struct others *others, const char *what)
{
	others_stop(others);
	printf("longest %s: %u calls of FADV_DONTNEED, %llu reads\n", what, others->longest,
	       (unsigned long long)most_reads);
	EXPECT(most_reads <= READS_MAX, "the pages were dropped again before their use");
}

static void advise(int fd, unsigned int i)
{
	(void)i;
	MUST(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED));
}

/* The first and the last page are written in part, so they are read first. */
BEHAVIOUR(large_write_ends_beside_dontneed)
{
	int fd = make_cold_file("f", 1, SIZE + SMALL);
	struct others *others = others_start(OTHERS, O_RDWR, ADVICES, advise);
	unsigned char *data = buffer(SIZE);
	unsigned int i;

	for (i = 0; i < ROUNDS; i++) {
		pattern(data, 2 + i, 5, SIZE - 9);
		MUST(fsync(fd));
		begin(others);
		EXPECT(pwrite(fd, data, SIZE - 9, 5) == SIZE - 9, "write: %s", strerror(errno));
		end(others, "a write");
	}
	stop_advising(others, "write");
	read_pattern("read", fd, 1 + i, 5, SIZE - 9);
	read_pattern("read of the first bytes", fd, 1, 0, 5);
}

BEHAVIOUR(append_ends_beside_dontneed)
{
	int fd = make_cold_file("f", 1, SIZE), append = open_file("f", O_WRONLY | O_APPEND);
	struct others *others = others_start(OTHERS, O_RDWR, ADVICES, advise);
	unsigned char part[100];
	unsigned int i;

	for (i = 0; i < 10 * ROUNDS; i++) {
		/* The page with the end of the file is clean, and may leave. */
		MUST(fsync(fd));
		pattern(part, 1, SIZE + i * sizeof(part), sizeof(part));
		begin(others);
		EXPECT(write(append, part, sizeof(part)) == (ssize_t)sizeof(part), "append: %s",
		       strerror(errno));
		end(others, "an append");
	}
	stop_advising(others, "append");
	read_pattern("read", fd, 1, 0, SIZE + i * sizeof(part));
}

BEHAVIOUR(load_and_store_end_beside_dontneed)
{
	int fd = make_cold_file("f", 1, SIZE);
	volatile unsigned char *map = map_shared(fd, 0, SIZE);
	struct others *others = others_start(OTHERS, O_RDWR, ADVICES, advise);
	unsigned int i;

	for (i = 0; i < 10 * ROUNDS; i++) {
		volatile unsigned char *at = map + i * 7919 % (SIZE / SMALL) * SMALL;

		begin(others);
		EXPECT(*at == pattern_byte(1, at - map), "a load returned other data");
		*at = pattern_byte(1, at - map);
		end(others, "an access");
		MUST(fsync(fd));
		MUST(madvise((void *)map, SIZE, MADV_DONTNEED));
	}
	stop_advising(others, "access");
}

/* --- FADV_DONTNEED is starved -------------------------------------------------------------- */

static void advise_device_file(void *file)
{
	advise(open_file(file, O_RDONLY), 0);
}

static void sync_device_file(void *file)
{
	MUST(fsync(open_file(file, O_RDWR)));
}

/* The pages are under write-back until the device works again. */
BEHAVIOUR(dontneed_ends_although_write_back_is_stuck)
{
	struct dm_line line = dm_linear(0, 64 * HUGE / SECTOR, require_device(), 0);
	const char *device, *file;
	pid_t writer, adviser;
	int fd, status = 0;
	bool ended, stuck;

	require_mount_dirs();
	device = dm_create("stuck", &line, 1);
	MUST(mount(device, mount_point, "hugemap", 0, mount_options("64M")));
	file = device_file();
	fd = open_file(file, O_RDWR);
	write_pattern(fd, 1, 0, 4 * HUGE);
	dm_suspend("stuck", true);
	writer = start_child(sync_device_file, (void *)file);
	/* The sync has claimed the pages when it waits for their I/O. */
	stuck = !child_ends_within(2, writer, &status) &&
		read_number(sysfs_path(mount_point, "stats/io_in_flight"));
	adviser = start_child(advise_device_file, (void *)file);
	ended = child_ends_within(60, adviser, &status);
	dm_suspend("stuck", false);
	EXPECT(stuck, "a sync has ended beside a suspended device");
	wait_child(writer);
	if (!ended)
		wait_child(adviser);
	MUST(close(fd));
	MUST(umount(mount_point));
	dm_remove("stuck");
	EXPECT(ended && !status, "FADV_DONTNEED has waited for write-back");
}

/* --- sync is starved ------------------------------------------------------------------------ */

#define NEW_FILES 4000u

/* Use one more file. The lower file system has created it before, which takes more time. */
static void use_file(int unused, unsigned int i)
{
	static unsigned char data[2 * SMALL];
	char name[32];
	int fd;

	(void)unused;
	snprintf(name, sizeof(name), "new-%u", (i * OTHERS + getpid() % OTHERS) % NEW_FILES);
	fd = open_file(name, O_RDWR);
	EXPECT(write(fd, data, sizeof(data)) == sizeof(data), "write: %s", strerror(errno));
	MUST(close(fd));
}

/* A sync of all files that included the new ones would not end before the last of them. */
BEHAVIOUR(sync_of_all_files_ends_beside_new_files)
{
	struct others *others;
	unsigned int i;
	char name[32];
	int fd;

	for (i = 0; i < NEW_FILES; i++) {
		snprintf(name, sizeof(name), "new-%u", i);
		MUST(mknod(lower_path(name), S_IFREG | 0600, 0));
	}
	fd = make_file("f", 1, SIZE);
	others = others_start(OTHERS, O_RDWR, NEW_FILES / 2, use_file);
	others_count(others);
	MUST(syncfs(fd));
	others_check(others, "a sync");
	others_stop(others);
	printf("longest sync: %u new files\n", others->longest);
}

RUN_BEHAVIOURS
