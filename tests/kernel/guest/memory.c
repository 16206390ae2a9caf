// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * A pool among others who want memory: what does not fit is refused, a pool of huge
 * pages is still one when all other memory is in pieces, and what is cached makes room.
 *
 * vm: lower=none timeout=600
 */
#include "mounts.h"

#include <sys/sysmacros.h>

#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24
#endif
#define UNEVICTABLE "/proc/sys/vm/compact_unevictable_allowed"

static void set_number(const char *path, unsigned long number)
{
	int fd = open_file(path, O_WRONLY);

	EXPECT(dprintf(fd, "%lu", number) > 0, "write to %s: %s", path, strerror(errno));
	close(fd);
}

static unsigned long get_number(const char *path)
{
	FILE *file = fopen(path, "r");
	unsigned long number;

	EXPECT(file && fscanf(file, "%lu", &number) == 1, "%s: %s", path, strerror(errno));
	fclose(file);
	return number;
}

/* What /proc/meminfo says of a field, in bytes. */
static uint64_t meminfo(const char *field)
{
	FILE *file = fopen("/proc/meminfo", "r");
	size_t length = strlen(field);
	unsigned long kb = 0;
	char line[128];

	EXPECT(file, "meminfo: %s", strerror(errno));
	while (fgets(line, sizeof(line), file)) {
		if (!strncmp(line, field, length) && line[length] == ':') {
			EXPECT(sscanf(line + length, ": %lu", &kb) == 1, "what is %s", line);
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

static void need_little_memory(void)
{
	require_mount_dirs();
	if (meminfo("MemTotal") > 8ull << 30)
		skip("this machine has much memory");
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

/* The first one to be killed if memory runs out. */
static void take_memory(void *arg)
{
	struct hog *hog = arg;
	unsigned char *memory;
	uint64_t off;

	set_number("/proc/self/oom_score_adj", 1000);
	memory = map_file(-1, 0, hog->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
	for (off = 0; off < hog->bytes; off += SMALL)
		memory[off] = 1;
	turn_give(hog->turns.to_parent);
	turn_take(hog->turns.to_child);
}

static void expect_alive(pid_t pid, const char *options)
{
	int status;

	EXPECT(!waitpid(pid, &status, WNOHANG), "mount -o %s has had somebody killed", options);
}

/* Refused at once, by a sentence. Nobody is killed for it. */
BEHAVIOUR(no_room)
{
	static const char *const pages[] = { "4K", "2M" };
	uint64_t before, after;
	struct hog hog;
	char options[64];
	unsigned int i;
	pid_t pid;

	need_little_memory();
	hog.bytes = memory_available() * 7 / 10;
	turns_init(&hog.turns);
	pid = start_child(take_memory, &hog);
	turn_take(hog.turns.to_parent);
	before = memory_available();
	for (i = 0; i < COUNT(pages); i++) {
		snprintf(options, sizeof(options), "pool=%lluM,page=%s",
			 (unsigned long long)(before * 5 / 4) >> 20, pages[i]);
		EXPECT_ERRNO(try_mount(options, 0), ENOMEM);
		expect_alive(pid, options);
	}
	after = memory_available();
	EXPECT(after + (64 << 20) > before, "%llu MB were available, and now %llu MB",
	       (unsigned long long)before >> 20, (unsigned long long)after >> 20);
	/* What fits is had; and growing is no different. */
	snprintf(options, sizeof(options), "pool=%lluM,page=4K",
		 (unsigned long long)(before * 6 / 10) >> 20);
	EXPECT(!try_mount(options, 0), "mount -o %s: %s", options, strerror(errno));
	snprintf(options, sizeof(options), "pool=%lluM",
		 (unsigned long long)(before * 11 / 10) >> 20);
	EXPECT_ERRNO(try_mount(options, MS_REMOUNT), ENOMEM);
	expect_alive(pid, options);
	MUST(umount(mount_point));
	turn_give(hog.turns.to_child);
	wait_child(pid);
}

/* --- memory in pieces --------------------------------------------------------------- */

/*
 * Free pieces of memory of 2 MB, and of 4 MB, which are two; not those of the first
 * 16 MB, which programs do not get.
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
		EXPECT(at && sscanf(at, "zone %*s%n", &length) == 0, "what is %s", line);
		for (order = 0, at += length; sscanf(at, "%lu%n", &n, &length) == 1; order++) {
			sum += order >= 9 ? n << (order - 9) : 0;
			at += length;
		}
	}
	fclose(file);
	return sum;
}

/* Half of the pages of most memory, every other one, for as long as the process lives. */
static void break_memory(void)
{
	size_t take = memory_available() * 6 / 10, off;
	unsigned char *memory = map_file(-1, 0, take, PROT_READ | PROT_WRITE,
					 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);

	madvise(memory, take, MADV_NOHUGEPAGE);
	MUST(mlock(memory, take));
	for (off = 0; off < take - SMALL; off += 2 * SMALL)
		MUST(madvise(memory + off, SMALL, MADV_DONTNEED_LOCKED));
}

/* All that is in one piece, as far as a program can have it. */
static void take_blocks(void)
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

static unsigned long huge_mapped(const unsigned char *addr)
{
	FILE *file = fopen("/proc/self/smaps", "r");
	unsigned long start, end, kb = 0;
	bool inside = false;
	char line[512];

	EXPECT(file, "smaps: %s", strerror(errno));
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
			inside = start <= (unsigned long)addr && (unsigned long)addr < end;
		else if (inside && sscanf(line, "FilePmdMapped: %lu kB", &kb) == 1)
			break;
	}
	fclose(file);
	return kb << 10;
}

#define SMALL_FILES 24u
#define BLOCKS 20u

static void carve_and_reform(void *arg)
{
	unsigned char *map;
	char name[32];
	unsigned int i;
	int fd;

	(void)arg;
	break_memory();
	take_blocks();
	MUST(chdir(mount_point));
	/* The block that a file ends in is of base pages. */
	for (i = 0; i < SMALL_FILES; i++) {
		snprintf(name, sizeof(name), "small-%u", i);
		fd = make_file(name, i, HUGE - SMALL);
		MUST(fsync(fd));
		read_pattern("read of base pages", fd, i, 0, HUGE - SMALL);
		close(fd);
	}
	/* Somebody else takes what the pool has given back. */
	take_blocks();
	for (i = 0; i < SMALL_FILES; i++) {
		snprintf(name, sizeof(name), "small-%u", i);
		MUST(unlink(name));
	}
	take_blocks();
	fd = open_file("large", O_RDWR | O_CREAT);
	MUST(ftruncate(fd, (BLOCKS + 1) * HUGE));
	map = map_shared(fd, 0, BLOCKS * HUGE);
	pattern(map, 99, 0, BLOCKS * HUGE);
	EXPECT(huge_mapped(map) >= (BLOCKS - 2) * HUGE,
	       "%lu MB are mapped in huge pages, of %lu MB: the pool has lost the others",
	       huge_mapped(map) >> 20, BLOCKS * HUGE >> 20);
	expect_pattern("load", map, 99, 0, BLOCKS * HUGE);
}

/* Huge frames were base pages for a while: they come back, whatever is free outside. */
BEHAVIOUR(comes_back_huge)
{
	unsigned long allowed;
	int status;
	pid_t pid;

	need_little_memory();
	EXPECT(!try_mount("pool=64M,page=2M", 0), "mount: %s", strerror(errno));
	allowed = get_number(UNEVICTABLE);
	/* Pages that are locked stay where they are. */
	set_number(UNEVICTABLE, 0);
	pid = start_child(carve_and_reform, NULL);
	MUST(waitpid(pid, &status, 0));
	set_number(UNEVICTABLE, allowed);
	MUST(umount(mount_point));
	EXPECT(!status, "the child ended with status %#x", status);
}

/* --- others need what is cached ------------------------------------------------------- */

static uint64_t pool_number(const char *name)
{
	char path[256];
	struct stat st;

	MUST(stat(mount_point, &st));
	snprintf(path, sizeof(path), "/sys/fs/hugemap/%u:%u/%s", major(st.st_dev), minor(st.st_dev),
		 name);
	return get_number(path);
}

static uint64_t held(void)
{
	return pool_number("stats/memory_bytes");
}

/* Take so much, and keep it until the parent says so. The least that the pool had meanwhile. */
static uint64_t press(uint64_t bytes, bool survives)
{
	struct hog hog = { .bytes = bytes };
	uint64_t least = UINT64_MAX;
	int status = 0;
	pid_t pid, over = 0;
	char ready;

	turns_init(&hog.turns);
	pid = start_child(take_memory, &hog);
	close(hog.turns.to_parent[1]);
	MUST(fcntl(hog.turns.to_parent[0], F_SETFL, O_NONBLOCK));
	while (!over && read(hog.turns.to_parent[0], &ready, 1) != 1) {
		uint64_t now = held();

		least = now < least ? now : least;
		usleep(10000);
		over = waitpid(pid, &status, WNOHANG);
	}
	least = held() < least ? held() : least;
	EXPECT(!over || !survives,
	       "a program that took %llu MB ended with status %#x, and the pool has %llu MB",
	       (unsigned long long)bytes >> 20, status, (unsigned long long)held() >> 20);
	if (over)
		return least;
	turn_give(hog.turns.to_child);
	wait_child(pid);
	return least;
}

#define PRESSED (400ull << 20)
#define PRESSED_MIN (120ull << 20)

static void pressed_pool(const char *page)
{
	unsigned char *buf = buffer(HUGE);
	uint64_t available, least, off;
	char options[64];
	unsigned int i;
	int fd;

	snprintf(options, sizeof(options), "pool=400M,pool_min=120M,page=%s", page);
	EXPECT(!try_mount(options, 0), "mount -o %s: %s", options, strerror(errno));
	EXPECT(pool_number("pool_min_bytes") == PRESSED_MIN, "pool_min_bytes: %llu",
	       (unsigned long long)pool_number("pool_min_bytes"));
	MUST(chdir(mount_point));
	/* A hole is cached as anything else is. */
	fd = make_file("f", 7, 10 * HUGE);
	MUST(ftruncate(fd, PRESSED));
	for (off = 0; off < PRESSED; off += HUGE)
		MUST(pread(fd, buf, HUGE, (off_t)off));
	MUST(fsync(fd));
	EXPECT(held() == PRESSED, "the pool has %llu MB", (unsigned long long)held() >> 20);
	available = memory_available();
	/* More than there is, and less than with what is cached. */
	least = press(available + (PRESSED - PRESSED_MIN) / 2, true);
	EXPECT(least < PRESSED && least >= PRESSED_MIN, "under pressure the pool has %llu MB",
	       (unsigned long long)least >> 20);
	read_pattern("read of what was cached", fd, 7, 0, 10 * HUGE);
	/* Other settings have nothing to do with it. */
	MUST(mount(NULL, mount_point, NULL, MS_REMOUNT, "dirty_ratio=50"));
	least = press(available + PRESSED, false);
	EXPECT(least >= PRESSED_MIN, "under much pressure the pool has %llu MB",
	       (unsigned long long)least >> 20);
	for (i = 0; i < 1200 && held() < PRESSED; i++)
		usleep(100000);
	EXPECT(held() == PRESSED, "the pool has %llu MB long after the pressure",
	       (unsigned long long)held() >> 20);
	read_pattern("read at the end", fd, 7, 0, 10 * HUGE);
	close(fd);
	free(buf);
	MUST(chdir("/"));
	MUST(umount(mount_point));
}

BEHAVIOUR(makes_room)
{
	need_little_memory();
	pressed_pool("2M");
	pressed_pool("4K");
	pressed_pool("auto");
}

/* --- what a pipe keeps ------------------------------------------------------------------ */

#define CUT_POOL (64ull << 20)
#define CUTS 160u

/* A page of each block goes into a pipe, and the block is cut off: it stays with the pipe. */
BEHAVIOUR(pinned_and_cut)
{
	uint64_t before, after;
	unsigned char *map, *buf = buffer(SMALL);
	unsigned int i;
	int fd, ends[2];

	need_little_memory();
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
	/* Its thread follows within a second. */
	for (i = 0; i < 300 && held() > CUT_POOL / 4; i++)
		usleep(100000);
	after = memory_available();
	printf("  %u pages in a pipe keep %llu MB; the pool has %llu MB\n", CUTS,
	       (unsigned long long)(before - after) >> 20, (unsigned long long)held() >> 20);
	EXPECT(held() <= CUT_POOL / 4, "the pool still has %llu MB, and what is cut off %u MB",
	       (unsigned long long)held() >> 20, CUTS * 2);
	expect_zero("load behind it", map + SMALL, SMALL, SMALL);
	for (i = 0; i < CUTS; i++) {
		MUST(read(ends[0], buf, SMALL));
		expect_pattern("read from the pipe", buf, i, 0, SMALL);
	}
	close(ends[0]);
	close(ends[1]);
	for (i = 0; i < 1200 && held() < CUT_POOL; i++)
		usleep(100000);
	EXPECT(held() == CUT_POOL, "the pool has %llu MB long after",
	       (unsigned long long)held() >> 20);
	MUST(munmap(map, 2 * HUGE));
	close(fd);
	MUST(chdir("/"));
	MUST(umount(mount_point));
}

RUN_BEHAVIOURS
