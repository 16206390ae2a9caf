// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Each access makes progress beside a process that changes the same file in a loop. The other
 * process stops by itself after a number of operations. The access must complete before that.
 *
 * vm: page=2M,4K,auto lower=ext4 modules=dm_mod timeout=240
 */
#include "dm.h"

#include <stdatomic.h>

/* The other process of a behaviour. */
struct other {
	_Atomic bool stop;
	_Atomic unsigned int done; /* operations */
	unsigned int limit;
	const char *name; /* of the file */
	void (*work)(struct other *other, int fd);
};

static struct other *new_other(const char *name, unsigned int limit,
			       void (*work)(struct other *other, int fd))
{
	struct other *other =
		(void *)map_file(-1, 0, SMALL, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS);

	other->limit = limit;
	other->name = name;
	other->work = work;
	return other;
}

static void other_main(void *arg)
{
	struct other *other = arg;
	int fd = open_file(other->name, O_RDWR | O_DIRECT);

	while (!other->stop && other->done < other->limit) {
		other->work(other, fd);
		other->done++;
	}
}

/* Start the other process, and wait until it is busy. */
static pid_t start_other(struct other *other)
{
	pid_t pid = start_child(other_main, other);

	while (other->done < 3)
		usleep(1000);
	return pid;
}

static void stop_other(struct other *other, pid_t pid)
{
	other->stop = true;
	wait_child(pid);
}

static void append_some(struct other *other, int fd)
{
	static int appending = -1;

	if (appending < 0)
		appending = open_file(other->name, O_WRONLY | O_APPEND);
	MUST(write(appending, other, 100));
}

/*
 * A miss looks up the holes of the file for an index node, and the size of the file changes during
 * that time.
 */
BEHAVIOUR(miss_completes_beside_an_appender)
{
	struct other *other = new_other("f", 4000, append_some);
	const size_t size = 32 * HUGE;
	volatile unsigned char *map;
	unsigned int before;
	size_t at;
	pid_t pid;
	int fd;

	/* Every second page of the lower file is a hole. */
	fd = open_file(lower_path("f"), O_RDWR | O_CREAT | O_TRUNC);
	for (at = 0; at < size; at += 2 * SMALL)
		write_pattern(fd, 1, at, SMALL);
	MUST(fsync(fd));
	MUST(close(fd));
	/* The appender works under another index node. */
	MUST(truncate("f", 1ul << 30));
	pid = start_other(other);
	fd = open_file("f", O_RDWR);
	map = map_shared(fd, 0, size);
	before = other->done;
	EXPECT(map[4 * SMALL] == pattern_byte(1, 4 * SMALL), "the load returned other data");
	EXPECT(other->done < other->limit, "the load waited for the end of all appends");
	printf("a miss: %u appends\n", other->done - before);
	stop_other(other, pid);
}

static void write_directly(struct other *other, int fd)
{
	static unsigned char *buf;

	if (!buf)
		buf = memset(buffer(4 * HUGE), 1, 4 * HUGE);
	EXPECT(pwrite(fd, buf, 4 * HUGE, 0) == 4 * HUGE, "direct write: %s", strerror(errno));
}

static void allocate(struct other *other, int fd)
{
	MUST(fallocate(fd, FALLOC_FL_ZERO_RANGE, 0, 4 * HUGE));
}

/* The first store to a page needs that the lower file does not change for a moment. */
static void stores_complete_beside(const char *what, unsigned int limit,
				   void (*work)(struct other *other, int fd))
{
	struct other *others[2];
	unsigned int most = 0, i, before;
	int fd = make_file("f", 1, 8 * HUGE);
	volatile unsigned char *map = map_shared(fd, 4 * HUGE, 4 * HUGE);
	pid_t pids[2];

	MUST(fsync(fd));
	for (i = 0; i < 2; i++) {
		others[i] = new_other("f", limit, work);
		pids[i] = start_other(others[i]);
	}
	for (i = 0; i < 16; i++) {
		/* Each store is the first one since a write-back. */
		MUST(fsync(fd));
		before = others[0]->done + others[1]->done;
		map[i * SMALL] = 0x5a;
		before = others[0]->done + others[1]->done - before;
		most = before > most ? before : most;
		EXPECT(others[0]->done < limit && others[1]->done < limit,
		       "store %u waited for the end of all %s", i, what);
	}
	for (i = 0; i < 2; i++)
		stop_other(others[i], pids[i]);
	printf("longest wait of a store: %u %s\n", most, what);
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
