// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * No store is lost when files are larger than the pool, with plenty of memory outside of the
 * pool and with nearly none. The processes store to random pages of one file; neighbouring
 * pages of a block belong to different processes, and each process checks its own pages.
 *
 * vm: page=2M,4K,auto pool=16M timeout=400 set=long
 */
#include "common.h"

#include <sys/sysinfo.h>

#define PROCESSES 4u
#define SIZE (48 * HUGE + 12345)
#define PAGES ((SIZE + SMALL - 1) / SMALL)

static uint32_t generations[PAGES]; /* of this process; 0: the content of the new file */

static size_t page_len(uint64_t page)
{
	return SIZE - page * SMALL < SMALL ? SIZE - page * SMALL : SMALL;
}

static void expect_page(const char *how, unsigned int who, const unsigned char *bytes,
			uint64_t page)
{
	uint64_t seed = generations[page] ? ((uint64_t)who << 32 | generations[page]) : 1;

	expect_pattern(how, bytes, seed, page * SMALL, page_len(page));
}

static void storer(void *arg)
{
	unsigned int who = *(unsigned int *)arg, i, steps = slow() ? 1500 : 6000;
	uint64_t random = who * 7919 + 1, page;
	int fd = open_file("f", O_RDWR);
	unsigned char *map = map_shared(fd, 0, SIZE), *buf = buffer(SMALL);

	for (i = 0; i < steps; i++) {
		random = random * 6364136223846793005ull + 1442695040888963407ull;
		page = (random >> 33) % (PAGES / PROCESSES) * PROCESSES + who;
		switch (random >> 20 & 15) {
		case 0:
			expect_page("load", who, map + page * SMALL, page);
			break;
		case 1:
			MUST(pread(fd, buf, page_len(page), (off_t)(page * SMALL)));
			expect_page("read", who, buf, page);
			break;
		case 2:
			generations[page] = i + 1;
			pattern(buf, (uint64_t)who << 32 | (i + 1), page * SMALL, page_len(page));
			EXPECT(pwrite(fd, buf, page_len(page), (off_t)(page * SMALL)) ==
				       (ssize_t)page_len(page),
			       "write: %s", strerror(errno));
			break;
		case 3:
			if (i % 64 == 3)
				MUST(fdatasync(fd));
			break;
		default:
			generations[page] = i + 1;
			pattern(map + page * SMALL, (uint64_t)who << 32 | (i + 1), page * SMALL,
				page_len(page));
		}
	}
	for (page = who; page < PAGES; page += PROCESSES)
		expect_page("load at the end", who, map + page * SMALL, page);
	MUST(fsync(fd));
	close(fd);
	/* Direct I/O, as there may be no memory for the page cache of the lower fs. */
	fd = open(lower_path("f"), O_RDONLY | O_DIRECT);
	if (fd < 0)
		fd = open_file(lower_path("f"), O_RDONLY);
	for (page = who; page < PAGES; page += PROCESSES) {
		MUST(pread(fd, buf, SMALL, (off_t)(page * SMALL)));
		expect_page("read of the lower file at the end", who, buf, page);
	}
}

BEHAVIOUR(no_store_is_lost_in_a_file_larger_than_the_pool)
{
	close(make_file("f", 1, SIZE));
	in_children(PROCESSES, storer);
}

/* Takes all free memory and keeps accessing it. The OOM killer would choose it first. */
static void hog(void *arg)
{
	struct turns *turns = arg;
	struct sysinfo info;
	unsigned char *memory;
	uint64_t take, off;
	bool ready = false;
	int fd;

	fd = open("/proc/self/oom_score_adj", O_WRONLY);
	if (fd >= 0) {
		MUST(write(fd, "1000", 4));
		close(fd);
	}
	sysinfo(&info);
	take = ((uint64_t)info.freeram + info.bufferram) * info.mem_unit;
	if (take > 3ull << 30)
		take = 3ull << 30;
	take = take > 48 << 20 ? take - (48 << 20) : take / 2;
	memory = map_file(-1, 0, take, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
	for (;;) {
		for (off = 0; off < take; off += SMALL)
			memory[off]++;
		if (!ready)
			turn_give(turns->to_parent);
		ready = true;
		/* Leave the processor to the storers. */
		usleep(200000);
	}
}

BEHAVIOUR(no_store_is_lost_when_memory_is_short)
{
	struct turns turns;
	int status;
	pid_t pid;

	close(make_file("f", 1, SIZE));
	turns_init(&turns);
	pid = start_child(hog, &turns);
	/* If the hog is killed at once, memory was short enough: read returns 0 then. */
	close(turns.to_parent[1]);
	if (read(turns.to_parent[0], &status, 1) < 0)
		FAIL("read of a pipe: %s", strerror(errno));
	in_children(PROCESSES, storer);
	kill(pid, SIGKILL);
	MUST(waitpid(pid, &status, 0));
}

static void streamer(void *arg)
{
	unsigned int who = *(unsigned int *)arg;
	unsigned char *map;
	char name[16];
	int fd;

	snprintf(name, sizeof(name), "s%u", who);
	fd = open_file(name, O_RDWR | O_CREAT);
	MUST(ftruncate(fd, 3 * HUGE));
	map = map_shared(fd, 0, 3 * HUGE);
	pattern(map, who, 0, 3 * HUGE);
	expect_pattern("load of a stream", map, who, 0, 3 * HUGE);
	MUST(fsync(fd));
	expect_lower("lower file", name, who, 0, 3 * HUGE);
}

BEHAVIOUR(more_sequential_writers_than_blocks_in_the_pool_make_progress)
{
	in_children(24, streamer);
}

RUN_BEHAVIOURS
