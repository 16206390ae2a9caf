// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Each access makes progress beside a process that changes the same file in a loop. The other
 * process stops by itself after a number of operations. The access must complete before that.
 *
 * vm: page=2M,4K,auto lower=ext4 modules=dm_mod timeout=240
 */
#include "dm.h"
#include "others.h"

static void append_some(int unused, unsigned int i)
{
	static int appending = -1;

	(void)unused;
	if (appending < 0)
		appending = open_file("f", O_WRONLY | O_APPEND);
	MUST(write(appending, &i, sizeof(i)));
}

/*
 * A miss looks up the holes of the file for an index node, and the size of the file changes during
 * that time.
 */
BEHAVIOUR(miss_completes_beside_an_appender)
{
	const size_t size = 32 * HUGE;
	volatile unsigned char *map;
	struct others *others;
	size_t at;
	int fd;

	/* Every second page of the lower file is a hole. */
	fd = open_file(lower_path("f"), O_RDWR | O_CREAT | O_TRUNC);
	for (at = 0; at < size; at += 2 * SMALL)
		write_pattern(fd, 1, at, SMALL);
	MUST(fsync(fd));
	MUST(close(fd));
	/* The appender works under another index node. */
	MUST(truncate("f", 1ul << 30));
	others = others_start(1, O_RDWR, 4000, append_some);
	fd = open_file("f", O_RDWR);
	map = map_shared(fd, 0, size);
	others_count(others);
	EXPECT(map[4 * SMALL] == pattern_byte(1, 4 * SMALL), "the load returned other data");
	others_check(others, "a load");
	others_stop(others);
	printf("a miss: %u appends\n", others->longest);
}

static void write_directly(int fd, unsigned int i)
{
	static unsigned char *buf;

	(void)i;
	if (!buf)
		buf = memset(buffer(4 * HUGE), 1, 4 * HUGE);
	EXPECT(pwrite(fd, buf, 4 * HUGE, 0) == 4 * HUGE, "direct write: %s", strerror(errno));
}

static void allocate(int fd, unsigned int i)
{
	(void)i;
	MUST(fallocate(fd, FALLOC_FL_ZERO_RANGE, 0, 4 * HUGE));
}

/* The first store to a page needs that the lower file does not change for a moment. */
static void stores_complete_beside(const char *what, unsigned int limit,
				   void (*work)(int fd, unsigned int i))
{
	int fd = make_file("f", 1, 8 * HUGE);
	volatile unsigned char *map = map_shared(fd, 4 * HUGE, 4 * HUGE);
	struct others *others;
	unsigned int i;

	MUST(fsync(fd));
	others = others_start(2, O_RDWR | O_DIRECT, limit, work);
	for (i = 0; i < 16; i++) {
		/* Each store is the first one since a write-back. */
		MUST(fsync(fd));
		others_count(others);
		map[i * SMALL] = 0x5a;
		others_check(others, "a store");
	}
	others_stop(others);
	printf("longest wait of a store: %u %s\n", others->longest, what);
	for (i = 0; i < 16; i++)
		EXPECT(map[i * SMALL] == 0x5a, "store %u is lost", i);
}

BEHAVIOUR(store_completes_beside_direct_writes)
{
	stores_complete_beside("direct writes", 100, write_directly);
}

BEHAVIOUR(store_completes_beside_fallocate)
{
	stores_complete_beside("calls of fallocate", 4000, allocate);
}

static const char *slow_device;

static void read_from_device(void *map)
{
	int fd = open_file(slow_device, O_RDONLY | O_DIRECT);

	EXPECT(pread(fd, map, SMALL, 0) == SMALL, "direct read: %s", strerror(errno));
}

static void truncate_block(void *unused)
{
	MUST(truncate("f", HUGE + HUGE / 2));
}

/* Return the state of a process: D is an uninterruptible sleep. */
static char state_of(pid_t pid)
{
	char path[64], line[512] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	file = fopen(path, "r");
	EXPECT(file && fgets(line, sizeof(line), file), "%s: %s", path, strerror(errno));
	fclose(file);
	return strrchr(line, ')')[2];
}

/*
 * A device holds a page of a huge unit in which the new end of the file lies. It may write into the
 * part that stays, so the truncation waits for the device for some time, but not for ever.
 */
BEHAVIOUR(truncation_ends_although_a_device_keeps_a_page)
{
	struct dm_line line = dm_linear(0, device_size(getenv("DEV")) / SECTOR, getenv("DEV"), 0);
	int fd = make_file("f", 1, 3 * HUGE), status = 0;
	unsigned char *map = map_shared(fd, 0, 3 * HUGE);
	pid_t reader, truncater;
	bool ended;

	slow_device = dm_create("slow", &line, 1);
	MUST(fsync(fd));
	dm_suspend("slow", true);
	reader = start_child(read_from_device, map + HUGE);
	while (state_of(reader) != 'D')
		usleep(10000);
	truncater = start_child(truncate_block, NULL);
	ended = child_ends_within(60, truncater, &status);
	dm_suspend("slow", false);
	wait_child(reader);
	dm_remove("slow");
	EXPECT(ended, "the truncation waits for ever");
	EXPECT(!status, "the truncation ended with status %#x", status);
	read_pattern("read of the part that stays", fd, 1, HUGE + SMALL, HUGE / 2 - SMALL);
}

RUN_BEHAVIOURS
