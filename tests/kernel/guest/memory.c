// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The pool and other users of memory. A pool that does not fit is refused, huge frames are
 * reassembled although all other memory is fragmented, and the pool shrinks under memory
 * pressure and while pins outlive their pages.
 *
 * vm: lower=none timeout=600 set=long
 */
#include "mounts.h"

#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24
#endif
#define UNEVICTABLE "/proc/sys/vm/compact_unevictable_allowed"

/* A field of /proc/meminfo, in bytes. */
static uint64_t meminfo(const char *field)
{
	FILE *file = fopen("/proc/meminfo", "r");
	size_t length = strlen(field);
	unsigned long kb = 0;
	char line[128];

	EXPECT(file, "meminfo: %s", strerror(errno));
	while (fgets(line, sizeof(line), file)) {
		if (!strncmp(line, field, length) && line[length] == ':') {
			EXPECT(sscanf(line + length, ": %lu", &kb) == 1, "meminfo: %s", line);
			break;
		}
	}
	fclose(file);
	return (uint64_t)kb << 10;
}

static uint64_t memory_available(void)
{
	return meminfo("MemAvailable");
}

static void require_small_machine(void)
{
	require_mount_dirs();
	if (meminfo("MemTotal") > 8ull << 30)
		skip("this machine has more than 8 GB of memory");
}

static int try_mount(const char *options, unsigned long flags)
{
	return mount(flags & MS_REMOUNT ? NULL : source_dir, mount_point, "hugemap", flags,
		     options);
}

/* --- a pool that does not fit ---------------------------------------------------- */

struct hog {
	struct turns turns;
	uint64_t bytes;
};

/* Takes @bytes of memory and keeps them for a turn. The OOM killer would choose it first. */
static void take_memory(void *arg)
{
	struct hog *hog = arg;
	unsigned char *memory;
	uint64_t off;

	write_text("/proc/self/oom_score_adj", "1000");
	memory = map_file(-1, 0, hog->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
	for (off = 0; off < hog->bytes; off += SMALL)
		memory[off] = 1;
	turn_give(hog->turns.to_parent);
	turn_take(hog->turns.to_child);
}

static void expect_not_killed(pid_t pid, const char *options)
{
	int status;

	EXPECT(!waitpid(pid, &status, WNOHANG), "mount -o %s made the OOM killer run", options);
}

BEHAVIOUR(pool_that_does_not_fit_is_refused_without_oom_kill)
{
	static const char *const pages[] = { "4K", "2M" };
	uint64_t before, after;
	struct hog hog;
	char options[64];
	unsigned int i;
	pid_t pid;

	require_small_machine();
	hog.bytes = memory_available() * 7 / 10;
	turns_init(&hog.turns);
	pid = start_child(take_memory, &hog);
	turn_take(hog.turns.to_parent);
	before = memory_available();
	for (i = 0; i < COUNT(pages); i++) {
		snprintf(options, sizeof(options), "pool=%lluM,page=%s",
			 (unsigned long long)(before * 5 / 4) >> 20, pages[i]);
		EXPECT_ERRNO(try_mount(options, 0), ENOMEM);
		expect_not_killed(pid, options);
	}
	after = memory_available();
	EXPECT(after + (64 << 20) > before, "%llu MB were available, and now %llu MB",
	       (unsigned long long)before >> 20, (unsigned long long)after >> 20);
	/* A pool that fits is mounted; a remount that makes it too large is refused. */
	snprintf(options, sizeof(options), "pool=%lluM,page=4K",
		 (unsigned long long)(before * 6 / 10) >> 20);
	EXPECT(!try_mount(options, 0), "mount -o %s: %s", options, strerror(errno));
	snprintf(options, sizeof(options), "pool=%lluM",
		 (unsigned long long)(before * 11 / 10) >> 20);
	EXPECT_ERRNO(try_mount(options, MS_REMOUNT), ENOMEM);
	expect_not_killed(pid, options);
	MUST(umount(mount_point));
	turn_give(hog.turns.to_child);
	wait_child(pid);
}

/* --- fragmented memory -------------------------------------------------------------- */

/*
 * The number of free blocks of 2 MB; a block of 4 MB counts as two. Zone DMA is left out,
 * as programs get no memory from it.
 */
static unsigned long free_blocks(void)
{
	FILE *file = fopen("/proc/buddyinfo", "r");
	unsigned long sum = 0, n;
	char line[512], zone[16], *at;
	int order, length;

	EXPECT(file, "buddyinfo: %s", strerror(errno));
	while (fgets(line, sizeof(line), file)) {
		at = strstr(line, "zone");
		if (at && sscanf(at, "zone %15s", zone) == 1 && !strcmp(zone, "DMA"))
			continue;
		EXPECT(at && sscanf(at, "zone %*s%n", &length) == 0, "buddyinfo: %s", line);
		for (order = 0, at += length; sscanf(at, "%lu%n", &n, &length) == 1; order++) {
			sum += order >= 9 ? n << (order - 9) : 0;
			at += length;
		}
	}
	fclose(file);
	return sum;
}

/* Locks every other page of most of the memory, for as long as the process lives. */
static void fragment_memory(void)
{
	size_t take = memory_available() * 6 / 10, off;
	unsigned char *memory = map_file(-1, 0, take, PROT_READ | PROT_WRITE,
					 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);

	madvise(memory, take, MADV_NOHUGEPAGE);
	MUST(mlock(memory, take));
	for (off = 0; off < take - SMALL; off += 2 * SMALL)
		MUST(madvise(memory + off, SMALL, MADV_DONTNEED_LOCKED));
}

/* Locks all free blocks of 2 MB that a program can get. */
static void take_free_blocks(void)
{
	unsigned int i;

	for (i = 0; i < 2000 && free_blocks(); i++) {
		unsigned char *memory = map_file(-1, 0, 2 * HUGE, PROT_READ | PROT_WRITE,
						 MAP_PRIVATE | MAP_ANONYMOUS);

		memory = (unsigned char *)(((uintptr_t)memory + HUGE - 1) & ~(HUGE - 1));
		madvise(memory, HUGE, MADV_HUGEPAGE);
		MUST(mlock(memory, HUGE));
	}
}

#define SMALL_FILES 24u
#define BLOCKS 20u

static void split_and_merge_frames(void *arg)
{
	unsigned char *map;
	char name[32];
	unsigned int i;
	int fd;

	(void)arg;
	fragment_memory();
	take_free_blocks();
	MUST(chdir(mount_point));
	/* The last, partial block of a file is cached in base pages: huge frames are split. */
	for (i = 0; i < SMALL_FILES; i++) {
		snprintf(name, sizeof(name), "small-%u", i);
		fd = make_file(name, i, HUGE - SMALL);
		MUST(fsync(fd));
		read_pattern("read of base pages", fd, i, 0, HUGE - SMALL);
		close(fd);
	}
	/*
	 * Take all free blocks of the system, also those that the pool has freed. Otherwise the
	 * pool could get huge frames from the system instead of merging its split ones.
	 */
	take_free_blocks();
	for (i = 0; i < SMALL_FILES; i++) {
		snprintf(name, sizeof(name), "small-%u", i);
		MUST(unlink(name));
	}
	take_free_blocks();
	fd = open_file("large", O_RDWR | O_CREAT);
	MUST(ftruncate(fd, (BLOCKS + 1) * HUGE));
	map = map_shared(fd, 0, BLOCKS * HUGE);
	pattern(map, 99, 0, BLOCKS * HUGE);
	EXPECT(pmd_mapped(map) >= (BLOCKS - 2) * HUGE,
	       "%lu MB of %lu MB are mapped as huge pages: the pool has lost the others",
	       pmd_mapped(map) >> 20, BLOCKS * HUGE >> 20);
	expect_pattern("load", map, 99, 0, BLOCKS * HUGE);
}

/* Without any free block of 2 MB outside of the pool. */
BEHAVIOUR(split_frames_are_merged_to_huge_frames_again)
{
	uint64_t allowed;
	char text[32];
	int status;
	pid_t pid;

	require_small_machine();
	EXPECT(!try_mount("pool=64M,page=2M", 0), "mount: %s", strerror(errno));
	allowed = read_number(UNEVICTABLE);
	snprintf(text, sizeof(text), "%llu", (unsigned long long)allowed);
	/* Compaction does not move mlocked pages. */
	write_text(UNEVICTABLE, "0");
	pid = start_child(split_and_merge_frames, NULL);
	MUST(waitpid(pid, &status, 0));
	write_text(UNEVICTABLE, text);
	MUST(umount(mount_point));
	EXPECT(!status, "the child ended with status %#x", status);
}

/* --- memory pressure ------------------------------------------------------------------ */

/* The bytes of memory that the pool has. */
static uint64_t pool_now(void)
{
	return read_number(sysfs_path(mount_point, "stats/memory_bytes"));
}

/* Another process takes @bytes. Returns the smallest size that the pool had then. */
static uint64_t pool_min_under_pressure(uint64_t bytes, bool survives)
{
	struct hog hog = { .bytes = bytes };
	uint64_t min = UINT64_MAX;
	int status = 0;
	pid_t pid, over = 0;
	char ready;

	turns_init(&hog.turns);
	pid = start_child(take_memory, &hog);
	close(hog.turns.to_parent[1]);
	MUST(fcntl(hog.turns.to_parent[0], F_SETFL, O_NONBLOCK));
	while (!over && read(hog.turns.to_parent[0], &ready, 1) != 1) {
		uint64_t now = pool_now();

		min = now < min ? now : min;
		usleep(10000);
		over = waitpid(pid, &status, WNOHANG);
	}
	min = pool_now() < min ? pool_now() : min;
	EXPECT(!over || !survives,
	       "a program that took %llu MB ended with status %#x, and the pool has %llu MB",
	       (unsigned long long)bytes >> 20, status, (unsigned long long)pool_now() >> 20);
	if (over)
		return min;
	turn_give(hog.turns.to_child);
	wait_child(pid);
	return min;
}

#define PRESSED (400ull << 20)
#define PRESSED_MIN (120ull << 20)

static void check_pool_under_pressure(const char *page)
{
	unsigned char *buf = buffer(HUGE);
	uint64_t available, pool_min, min, off;
	char options[64];
	unsigned int i;
	int fd;

	snprintf(options, sizeof(options), "pool=400M,pool_min=120M,page=%s", page);
	EXPECT(!try_mount(options, 0), "mount -o %s: %s", options, strerror(errno));
	pool_min = read_number(sysfs_path(mount_point, "pool_min_bytes"));
	EXPECT(pool_min == PRESSED_MIN, "pool_min_bytes is %llu", (unsigned long long)pool_min);
	MUST(chdir(mount_point));
	/* Reads of a hole fill the pool. */
	fd = make_file("f", 7, 10 * HUGE);
	MUST(ftruncate(fd, PRESSED));
	for (off = 0; off < PRESSED; off += HUGE)
		MUST(pread(fd, buf, HUGE, (off_t)off));
	MUST(fsync(fd));
	EXPECT(pool_now() == PRESSED, "the pool has %llu MB", (unsigned long long)pool_now() >> 20);
	available = memory_available();
	/* More than is available, but less than available memory and cached pages together. */
	min = pool_min_under_pressure(available + (PRESSED - PRESSED_MIN) / 2, true);
	EXPECT(min < PRESSED && min >= PRESSED_MIN, "under pressure the pool has %llu MB",
	       (unsigned long long)min >> 20);
	read_pattern("read after memory pressure", fd, 7, 0, 10 * HUGE);
	/* A remount that changes another setting keeps pool_min. */
	MUST(mount(NULL, mount_point, NULL, MS_REMOUNT, "dirty_ratio=50"));
	min = pool_min_under_pressure(available + PRESSED, false);
	EXPECT(min >= PRESSED_MIN, "under high pressure the pool has %llu MB",
	       (unsigned long long)min >> 20);
	for (i = 0; i < 1200 && pool_now() < PRESSED; i++)
		usleep(100000);
	EXPECT(pool_now() == PRESSED, "the pool has %llu MB long after the pressure",
	       (unsigned long long)pool_now() >> 20);
	read_pattern("read at the end", fd, 7, 0, 10 * HUGE);
	close(fd);
	free(buf);
	MUST(chdir("/"));
	MUST(umount(mount_point));
}

BEHAVIOUR(pool_shrinks_to_pool_min_under_pressure_and_grows_again)
{
	require_small_machine();
	check_pool_under_pressure("2M");
	check_pool_under_pressure("4K");
	check_pool_under_pressure("auto");
}

/* --- pinned pages ------------------------------------------------------------------------ */

#define CUT_POOL (64ull << 20)
#define CUTS 160u

/*
 * A pipe takes a page of a block, and ftruncate removes the block: the whole huge frame stays
 * allocated until the pipe is read. Repeated, this takes memory without limit, so the pool
 * gives up as much.
 */
BEHAVIOUR(pool_shrinks_by_the_truncated_blocks_that_pipes_pin)
{
	uint64_t before, after;
	unsigned char *map, *buf = buffer(SMALL);
	unsigned int i;
	int fd, ends[2];

	require_small_machine();
	EXPECT(!try_mount("pool=64M,page=2M", 0), "mount: %s", strerror(errno));
	MUST(chdir(mount_point));
	MUST(pipe(ends));
	MUST(fcntl(ends[0], F_SETPIPE_SZ, 1 << 20));
	fd = open_file("f", O_RDWR | O_CREAT);
	MUST(ftruncate(fd, 2 * HUGE));
	map = map_shared(fd, 0, 2 * HUGE);
	before = memory_available();
	for (i = 0; i < CUTS; i++) {
		struct iovec one = { map, SMALL };

		pattern(map, i, 0, SMALL);
		EXPECT(vmsplice(ends[1], &one, 1, SPLICE_F_NONBLOCK) == (ssize_t)SMALL,
		       "vmsplice: %s", strerror(errno));
		MUST(ftruncate(fd, 0));
		MUST(ftruncate(fd, 2 * HUGE));
	}
	/* The thread of the pool reacts within a second. */
	for (i = 0; i < 300 && pool_now() > CUT_POOL / 4; i++)
		usleep(100000);
	after = memory_available();
	printf("  %u pages in a pipe pin %llu MB; the pool has %llu MB\n", CUTS,
	       (unsigned long long)(before - after) >> 20, (unsigned long long)pool_now() >> 20);
	EXPECT(pool_now() <= CUT_POOL / 4, "the pool still has %llu MB, and %u MB are pinned",
	       (unsigned long long)pool_now() >> 20, CUTS * 2);
	expect_zero("load behind the truncated page", map + SMALL, SMALL, SMALL);
	for (i = 0; i < CUTS; i++) {
		MUST(read(ends[0], buf, SMALL));
		expect_pattern("read from the pipe", buf, i, 0, SMALL);
	}
	close(ends[0]);
	close(ends[1]);
	for (i = 0; i < 1200 && pool_now() < CUT_POOL; i++)
		usleep(100000);
	EXPECT(pool_now() == CUT_POOL, "the pool has %llu MB long after the pins are gone",
	       (unsigned long long)pool_now() >> 20);
	MUST(munmap(map, 2 * HUGE));
	close(fd);
	MUST(chdir("/"));
	MUST(umount(mount_point));
}

RUN_BEHAVIOURS
