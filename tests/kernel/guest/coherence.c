// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Mappings, read(2), write(2) and direct I/O of the same file agree at every byte, at every
 * moment and in all processes: there is only one copy of each page.
 *
 * vm: page=2M,4K,auto lower=ext4 timeout=240
 * vm: page=2M,4K,auto lower=xfs,tmpfs timeout=240 set=long
 */
#include "common.h"

/* Across page and block boundaries, with odd offsets and lengths. */
static const struct {
	uint64_t off;
	size_t len;
} ranges[] = {
	{ 0, 1 },
	{ 1, 7 },
	{ SMALL - 3, 6 },
	{ SMALL, SMALL },
	{ HUGE - 1, 2 },
	{ HUGE - 4097, 8195 },
	{ HUGE, HUGE },
	{ HUGE + 12345, 777 },
	{ 2 * HUGE - 5, HUGE / 2 + 11 },
	{ 3 * HUGE + 511, 513 },
	{ 4 * HUGE - 9, 9 },
};

BEHAVIOUR(read_returns_what_was_stored)
{
	int fd = make_file("f", 1, 4 * HUGE);
	unsigned char *map = map_shared(fd, 0, 4 * HUGE);
	unsigned int i;

	for (i = 0; i < COUNT(ranges); i++) {
		pattern(map + ranges[i].off, 100 + i, ranges[i].off, ranges[i].len);
		read_pattern("read after a store", fd, 100 + i, ranges[i].off, ranges[i].len);
	}
}

BEHAVIOUR(load_returns_what_was_written)
{
	int fd = make_file("f", 2, 4 * HUGE);
	unsigned char *map = map_shared(fd, 0, 4 * HUGE);
	unsigned int i;

	for (i = 0; i < COUNT(ranges); i++) {
		write_pattern(fd, 200 + i, ranges[i].off, ranges[i].len);
		expect_pattern("load after a write", map + ranges[i].off, 200 + i, ranges[i].off,
			       ranges[i].len);
	}
}

/* No page is cached before the write. */
BEHAVIOUR(partial_write_keeps_the_rest_of_the_block)
{
	unsigned int i;

	for (i = 0; i < COUNT(ranges); i++) {
		int fd = make_cold_file("f", 3, 4 * HUGE + 99);
		unsigned char *map;
		uint64_t end = ranges[i].off + ranges[i].len;

		write_pattern(fd, 300 + i, ranges[i].off, ranges[i].len);
		read_pattern("read before a partial write", fd, 3, 0, ranges[i].off);
		read_pattern("read of a partial write", fd, 300 + i, ranges[i].off, ranges[i].len);
		read_pattern("read behind a partial write", fd, 3, end, 4 * HUGE + 99 - end);
		MUST(fsync(fd));
		map = map_shared(fd, 0, 4 * HUGE + 99);
		expect_pattern("load before a partial write", map, 3, 0, ranges[i].off);
		expect_pattern("load of a partial write", map + ranges[i].off, 300 + i,
			       ranges[i].off, ranges[i].len);
		expect_pattern("load behind a partial write", map + end, 3, end,
			       4 * HUGE + 99 - end);
		MUST(munmap(map, 4 * HUGE + 99));
		close(fd);
	}
}

BEHAVIOUR(direct_io_agrees_with_mappings_and_buffered_io)
{
	int fd = make_file("f", 4, 4 * HUGE), direct;
	unsigned char *map = map_shared(fd, 0, 4 * HUGE);
	unsigned char *buf = buffer(HUGE);
	uint64_t off;

	direct = open("f", O_RDWR | O_DIRECT);
	if (direct < 0)
		skip("no direct I/O here");
	for (off = 0; off + HUGE / 2 <= 4 * HUGE; off += HUGE / 2 + SMALL) {
		/* A direct read returns stores that no sync has written back. */
		pattern(map + off, 40, off, 3 * SMALL);
		read_pattern("direct read after a store", direct, 40, off, 3 * SMALL);
		read_pattern("direct read beside a store", direct, 4, off + 3 * SMALL, SMALL);
		/* A direct write is visible to loads and to read(2). */
		pattern(buf, 41, off + SMALL, SMALL);
		MUST(pwrite(direct, buf, SMALL, (off_t)(off + SMALL)));
		expect_pattern("load after a direct write", map + off + SMALL, 41, off + SMALL,
			       SMALL);
		read_pattern("read after a direct write", fd, 41, off + SMALL, SMALL);
		/* It keeps the stores on both sides of it. */
		expect_pattern("load before a direct write", map + off, 40, off, SMALL);
		expect_pattern("load behind a direct write", map + off + 2 * SMALL, 40,
			       off + 2 * SMALL, SMALL);
		/* A direct read returns what write(2) wrote. */
		write_pattern(fd, 42, off + 100, 5000);
		MUST(pread(direct, buf, 3 * SMALL, (off_t)off));
		expect_pattern("direct read after a write", buf + 100, 42, off + 100, 5000);
	}
}

BEHAVIOUR(failed_direct_write_keeps_cached_stores)
{
	int fd = make_file("f", 5, HUGE), direct;
	unsigned char *map = map_shared(fd, 0, HUGE);
	void *bad = map_file(-1, 0, SMALL, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS);

	direct = open("f", O_RDWR | O_DIRECT);
	if (direct < 0)
		skip("no direct I/O here");
	pattern(map, 50, 0, HUGE);
	EXPECT_ERRNO(pwrite(direct, bad, SMALL, 0), EFAULT);
	expect_pattern("load after a failed direct write", map, 50, 0, HUGE);
	read_pattern("read after a failed direct write", fd, 50, 0, HUGE);
}

struct pair {
	struct turns turns;
	uint64_t rounds;
};

static void second_process(void *arg)
{
	struct pair *pair = arg;
	int fd = open_file("f", O_RDWR);
	unsigned char *map = map_shared(fd, 0, 4 * HUGE);
	uint64_t round;
	unsigned int i;

	for (round = 0; round < pair->rounds; round++) {
		for (i = 0; i < COUNT(ranges); i++) {
			uint64_t off = ranges[i].off;
			size_t len = ranges[i].len;

			turn_take(pair->turns.to_child);
			if (round % 2)
				read_pattern("read of the other process's store", fd,
					     round * 100 + i, off, len);
			else
				expect_pattern("load of the other process's store", map + off,
					       round * 100 + i, off, len);
			pattern(map + off, round * 100 + 50 + i, off, len);
			turn_give(pair->turns.to_parent);
		}
	}
}

/* Each process opens and maps the file for itself. */
BEHAVIOUR(two_processes_see_each_others_stores_and_writes)
{
	struct pair pair = { .rounds = 8 };
	int fd = make_file("f", 6, 4 * HUGE);
	unsigned char *map;
	uint64_t round;
	unsigned int i;
	pid_t pid;

	turns_init(&pair.turns);
	pid = start_child(second_process, &pair);
	map = map_shared(fd, 0, 4 * HUGE);
	for (round = 0; round < pair.rounds; round++) {
		for (i = 0; i < COUNT(ranges); i++) {
			uint64_t off = ranges[i].off;

			if (round % 3)
				pattern(map + off, round * 100 + i, off, ranges[i].len);
			else
				write_pattern(fd, round * 100 + i, off, ranges[i].len);
			turn_give(pair.turns.to_child);
			turn_take(pair.turns.to_parent);
			expect_pattern("load of the child's store", map + off, round * 100 + 50 + i,
				       off, ranges[i].len);
		}
	}
	wait_child(pid);
}

static void forked_load(void *arg)
{
	unsigned char *map = arg;

	expect_pattern("load by the child", map, 70, 0, HUGE + SMALL);
	pattern(map + HUGE, 71, HUGE, SMALL);
	/* Not accessed before the fork. */
	expect_pattern("first load by the child", map + 2 * HUGE, 7, 2 * HUGE, HUGE);
	pattern(map + 3 * HUGE + 5, 72, 3 * HUGE + 5, 3000);
}

BEHAVIOUR(fork_shares_a_shared_mapping)
{
	int fd = make_file("f", 7, 4 * HUGE);
	unsigned char *map = map_shared(fd, 0, 4 * HUGE);

	pattern(map, 70, 0, HUGE + SMALL);
	in_child(forked_load, map);
	expect_pattern("load after the child's store", map + HUGE, 71, HUGE, SMALL);
	read_pattern("read after the child's store", fd, 72, 3 * HUGE + 5, 3000);
}

static void private_child(void *arg)
{
	unsigned char *map = arg;

	expect_pattern("private load by the child", map, 80, 0, SMALL);
	pattern(map, 81, 0, 2 * SMALL);
	expect_pattern("load of the child's own stores", map, 81, 0, 2 * SMALL);
}

/* A page follows the file until the process stores to it. */
BEHAVIOUR(stores_to_a_private_mapping_stay_in_the_process)
{
	int fd = make_file("f", 8, 2 * HUGE + 1000);
	unsigned char *map = map_file(fd, 0, 2 * HUGE + 1000, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	unsigned char *shared = map_shared(fd, 0, 2 * HUGE + 1000);

	expect_pattern("private load", map, 8, 0, 2 * HUGE + 1000);
	pattern(map, 80, 0, SMALL);
	pattern(map + HUGE + 77, 80, HUGE + 77, 2 * SMALL);
	read_pattern("read after private stores", fd, 8, 0, 2 * HUGE + 1000);
	expect_pattern("shared load after private stores", shared, 8, 0, 2 * HUGE + 1000);
	expect_pattern("load of private stores", map, 80, 0, SMALL);
	expect_pattern("load beside private stores", map + SMALL, 8, SMALL, HUGE - SMALL);
	in_child(private_child, map);
	expect_pattern("load of private stores after the child's", map, 80, 0, SMALL);
	expect_pattern("load behind them", map + SMALL, 8, SMALL, HUGE - SMALL);
	/* A store to the shared mapping is visible in pages that were not copied. */
	pattern(shared + HUGE / 2, 82, HUGE / 2, SMALL);
	expect_pattern("private load of a page not copied", map + HUGE / 2, 82, HUGE / 2, SMALL);
	/* MADV_DONTNEED drops the private copies. */
	MUST(madvise(map, SMALL, MADV_DONTNEED));
	expect_pattern("private load after MADV_DONTNEED", map, 8, 0, SMALL);
	MUST(fsync(fd));
	expect_lower("lower file after private stores", "f", 8, 0, HUGE / 2);
}

/* The address of the second mapping does not allow huge pages. */
BEHAVIOUR(mappings_of_one_range_agree_whatever_their_alignment)
{
	int fd = make_file("f", 9, 3 * HUGE);
	unsigned char *a = map_shared(fd, 0, 3 * HUGE), *b, *c;
	unsigned char *place = reserve_aligned(8 * HUGE);
	uint64_t off;

	b = mmap(place + SMALL, 3 * HUGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
	EXPECT(b == place + SMALL, "mmap at a fixed address: %s", strerror(errno));
	c = map_shared(fd, SMALL, 2 * HUGE);
	for (off = SMALL; off < 2 * HUGE; off += 37 * SMALL + 123) {
		pattern(b + off, off, off, 100);
		expect_pattern("load by the first mapping", a + off, off, off, 100);
		expect_pattern("load by the third mapping", c + off - SMALL, off, off, 100);
		pattern(c + off - SMALL, off + 1, off, 100);
		expect_pattern("load by the second mapping", b + off, off + 1, off, 100);
		pattern(a + off, off + 2, off, 100);
		expect_pattern("load by the second mapping", b + off, off + 2, off, 100);
	}
}

/* Whether the block is clean, dirty, under write-back or evicted. */
BEHAVIOUR(all_accesses_agree_before_and_after_syncs)
{
	int fd = make_file("f", 10, 3 * HUGE + 10);
	unsigned char *map = map_shared(fd, 0, 3 * HUGE + 10);
	uint64_t round;

	for (round = 0; round < 20; round++) {
		uint64_t off = (round * 0x3b1d7) % (3 * HUGE - SMALL);

		pattern(map + off, 1000 + round, off, 999);
		MUST(msync(map, 3 * HUGE + 10, MS_SYNC));
		expect_lower("lower file after msync", "f", 1000 + round, off, 999);
		expect_pattern("load after msync", map + off, 1000 + round, off, 999);
		/* The sync has write-protected the page: this store must be tracked again. */
		pattern(map + off, 2000 + round, off, 999);
		read_pattern("read after a second store", fd, 2000 + round, off, 999);
		if (round % 2)
			drop_from_cache(fd, map, 3 * HUGE + 10);
		MUST(round % 3 ? fsync(fd) : fdatasync(fd));
		expect_lower("lower file after the second sync", "f", 2000 + round, off, 999);
		MUST(madvise(map, 3 * HUGE, MADV_DONTNEED));
		expect_pattern("load after MADV_DONTNEED", map + off, 2000 + round, off, 999);
	}
}

static void killed_child(void *arg)
{
	int fd = open_file("f", O_RDWR);
	unsigned char *map = map_shared(fd, 0, 2 * HUGE + 5);

	(void)arg;
	pattern(map, 110, 0, 2 * HUGE + 5);
	raise(SIGKILL);
}

BEHAVIOUR(killed_process_loses_no_store)
{
	int fd = make_file("f", 11, 2 * HUGE + 5), status;
	pid_t pid = start_child(killed_child, NULL);

	MUST(waitpid(pid, &status, 0));
	EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "the child ended with %#x",
	       status);
	read_pattern("read after the writer was killed", fd, 110, 0, 2 * HUGE + 5);
	MUST(fsync(fd));
	expect_lower("lower file after the writer was killed", "f", 110, 0, 2 * HUGE + 5);
}

BEHAVIOUR(stores_outlive_the_descriptor_and_the_mapping)
{
	int fd = make_file("f", 12, HUGE + 3);
	unsigned char *map = map_shared(fd, 0, HUGE + 3);

	close(fd);
	pattern(map, 120, 0, HUGE + 3);
	MUST(munmap(map, HUGE + 3));
	fd = open_file("f", O_RDONLY);
	read_pattern("read by a later opener", fd, 120, 0, HUGE + 3);
	sync();
	expect_lower("lower file after sync(2)", "f", 120, 0, HUGE + 3);
}

static void appender(void *arg)
{
	int fd = open_file("log", O_WRONLY | O_APPEND), i;
	char record[128];

	memset(record, *(char *)arg, sizeof(record));
	record[127] = '\n';
	for (i = 0; i < 1000; i++)
		EXPECT(write(fd, record, sizeof(record)) == sizeof(record), "append: %s",
		       strerror(errno));
}

BEHAVIOUR(concurrent_appends_are_atomic)
{
	char names[4] = "abcd", record[128];
	unsigned int count[4] = { 0 }, i, j;
	pid_t pids[4];
	struct stat st;
	int fd = open_file("log", O_RDWR | O_CREAT);

	for (i = 0; i < 4; i++)
		pids[i] = start_child(appender, &names[i]);
	for (i = 0; i < 4; i++)
		wait_child(pids[i]);
	MUST(fstat(fd, &st));
	EXPECT(st.st_size == 4000 * 128, "the log has %lld bytes, expected %d",
	       (long long)st.st_size, 4000 * 128);
	for (i = 0; i < 4000; i++) {
		MUST(pread(fd, record, sizeof(record), (off_t)(i * sizeof(record))));
		for (j = 0; j < 127; j++)
			EXPECT(record[j] == record[0], "record %u is a mixture of two", i);
		EXPECT(record[0] >= 'a' && record[0] <= 'd' && record[127] == '\n',
		       "record %u is damaged", i);
		count[record[0] - 'a']++;
	}
	for (i = 0; i < 4; i++)
		EXPECT(count[i] == 1000, "%u records of %c, expected 1000", count[i], names[i]);
}

RUN_BEHAVIOURS
