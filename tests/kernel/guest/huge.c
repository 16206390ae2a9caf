// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * What the engine is for: one fault and one I/O for each 2 MB, no read for what holds
 * no data, and a pool that is a limit. Counted, never timed.
 *
 * vm: page=2M,4K lower=ext4,xfs timeout=180
 */
#include "common.h"

#include <sys/utsname.h>
#include <sys/resource.h>

#define BLOCKS 16ul
#define SIZE (BLOCKS * HUGE)

static void need_hugemap(void)
{
	if (!on_hugemap())
		skip("not on hugemap");
}

static void need_huge(void)
{
	need_hugemap();
	if (!huge_pages())
		skip("with page=4K there are no huge pages");
}

static long faults(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_minflt + usage.ru_majflt;
}

/* A file of @size bytes, of which nothing is cached. */
static int cold_file(uint64_t size)
{
	int fd = make_file("f", 1, size);

	MUST(fsync(fd));
	MUST(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED));
	return fd;
}

/* Loads that the compiler must not leave out, although nobody looks at them. */
static void load_all(const volatile unsigned char *map, size_t size)
{
	size_t off;

	for (off = 0; off < size; off += 64)
		(void)map[off];
}

static void expect_faults(const char *how, long n, unsigned long blocks)
{
	/* A few are the stack's and the C library's. */
	EXPECT(n >= (long)blocks && n <= (long)blocks + 3,
	       "%s took %ld faults, expected %lu, one for each 2 MB", how, n, blocks);
}

BEHAVIOUR(sequential_loads)
{
	unsigned char *map;
	uint64_t huge, base;
	long before;
	int fd;

	need_huge();
	fd = cold_file(SIZE);
	map = map_file(fd, 0, SIZE, PROT_READ, MAP_SHARED);
	EXPECT((uintptr_t)map % HUGE == 0, "the mapping is at %p, where no huge page fits",
	       (void *)map);
	huge = mount_stat("huge_mapped");
	base = mount_stat("base_mapped");
	before = faults();
	load_all(map, SIZE);
	expect_faults("a sequential read", faults() - before, BLOCKS);
	EXPECT(mount_stat("huge_mapped") - huge == BLOCKS, "huge_mapped grew by %llu, expected %lu",
	       (unsigned long long)(mount_stat("huge_mapped") - huge), BLOCKS);
	EXPECT(mount_stat("base_mapped") == base, "base pages were mapped too");
	expect_pattern("what was loaded", map, 1, 0, SIZE);
	EXPECT(pmd_mapped(map) == SIZE, "FilePmdMapped is %lu, expected %lu", pmd_mapped(map),
	       SIZE);
	EXPECT(smaps_bytes(map, "Rss") == SIZE, "Rss is %lu, expected %lu", smaps_bytes(map, "Rss"),
	       SIZE);
	/* Again, by another mapping: nothing is read. */
	huge = mount_stat("read_bytes");
	map = map_file(fd, 0, SIZE, PROT_READ, MAP_SHARED);
	before = faults();
	load_all(map, SIZE);
	expect_faults("a read of what is resident", faults() - before, BLOCKS);
	EXPECT(mount_stat("read_bytes") == huge, "resident data was read again");
}

static void store_all(unsigned char *map, size_t size)
{
	size_t off;

	for (off = 0; off < size; off += SMALL)
		pattern(map + off, 2, off, SMALL);
}

BEHAVIOUR(first_stores)
{
	uint64_t read_bytes;
	unsigned char *map;
	long before;
	int fd;

	need_huge();
	fd = open_file("f", O_RDWR | O_CREAT);
	MUST(ftruncate(fd, SIZE));
	map = map_shared(fd, 0, SIZE);
	read_bytes = mount_stat("read_bytes");
	before = faults();
	store_all(map, SIZE);
	expect_faults("a sequential write of a new file", faults() - before, BLOCKS);
	EXPECT(mount_stat("read_bytes") == read_bytes, "%llu bytes were read to write a new file",
	       (unsigned long long)(mount_stat("read_bytes") - read_bytes));
	EXPECT(pmd_mapped(map) == SIZE, "FilePmdMapped is %lu, expected %lu", pmd_mapped(map),
	       SIZE);
	MUST(fsync(fd));
	expect_lower("below", "f", 2, 0, SIZE);
}

BEHAVIOUR(rewriting_stores)
{
	unsigned char *map;
	long before;
	int fd;

	need_huge();
	fd = cold_file(SIZE);
	map = map_shared(fd, 0, SIZE);
	before = faults();
	store_all(map, SIZE);
	expect_faults("a rewrite of an existing file", faults() - before, BLOCKS);
	MUST(fsync(fd));
	expect_lower("below", "f", 2, 0, SIZE);
}

/* Loaded first, then stored to: one more fault each, in place. */
BEHAVIOUR(upgrades)
{
	unsigned char *map;
	long before;
	int fd;

	need_huge();
	fd = cold_file(SIZE);
	map = map_shared(fd, 0, SIZE);
	load_all(map, SIZE);
	before = faults();
	store_all(map, SIZE);
	expect_faults("stores to what had been loaded", faults() - before, BLOCKS);
	EXPECT(pmd_mapped(map) == SIZE, "FilePmdMapped is %lu after the stores, expected %lu",
	       pmd_mapped(map), SIZE);
	/* Protected by a sync, and stored to once more. */
	MUST(msync(map, SIZE, MS_SYNC));
	before = faults();
	store_all(map, SIZE);
	expect_faults("stores after a sync", faults() - before, BLOCKS);
	EXPECT(pmd_mapped(map) == SIZE, "FilePmdMapped is %lu after a sync, expected %lu",
	       pmd_mapped(map), SIZE);
}

BEHAVIOUR(large_io)
{
	uint64_t ios, bytes;
	unsigned char *map;
	int fd;

	need_huge();
	fd = cold_file(SIZE);
	map = map_shared(fd, 0, SIZE);
	ios = mount_stat("read_ios");
	bytes = mount_stat("read_bytes");
	load_all(map, SIZE);
	ios = mount_stat("read_ios") - ios;
	bytes = mount_stat("read_bytes") - bytes;
	EXPECT(bytes == SIZE, "%llu bytes were read from below, expected %lu",
	       (unsigned long long)bytes, SIZE);
	EXPECT(ios <= BLOCKS, "by %llu I/Os, expected at most %lu", (unsigned long long)ios,
	       BLOCKS);
	ios = mount_stat("write_ios");
	bytes = mount_stat("written_bytes");
	store_all(map, SIZE);
	MUST(fsync(fd));
	ios = mount_stat("write_ios") - ios;
	bytes = mount_stat("written_bytes") - bytes;
	EXPECT(bytes == SIZE, "%llu bytes were written below, expected %lu",
	       (unsigned long long)bytes, SIZE);
	EXPECT(ios <= BLOCKS, "by %llu I/Os, expected at most %lu", (unsigned long long)ios,
	       BLOCKS);
	/* Clean now: another sync has nothing to do. */
	bytes = mount_stat("written_bytes");
	MUST(fsync(fd));
	EXPECT(mount_stat("written_bytes") == bytes, "a clean file was written again");
	EXPECT(!mount_stat("dirty_bytes"), "%llu bytes are dirty after fsync",
	       (unsigned long long)mount_stat("dirty_bytes"));
}

static uint64_t pool_size(void)
{
	const char *text = getenv("POOL");
	char *end;
	uint64_t n = text ? strtoull(text, &end, 10) : 0;

	return !n ? 64 << 20 : *end == 'G' ? n << 30 : *end == 'M' ? n << 20 : n;
}

/* Twice the pool: all of it right, and never more than the pool in memory. */
BEHAVIOUR(beyond_the_pool)
{
	uint64_t size = 2 * pool_size() / HUGE * HUGE, off, evictions;
	unsigned char *map;
	int fd;

	need_hugemap();
	fd = open_file("f", O_RDWR | O_CREAT);
	MUST(ftruncate(fd, (off_t)size));
	map = map_shared(fd, 0, size);
	evictions = mount_stat("evictions");
	for (off = 0; off < size; off += HUGE) {
		pattern(map + off, 3, off, HUGE);
		EXPECT(mount_stat("resident_bytes") <= pool_size(),
		       "%llu bytes are resident in a pool of %llu",
		       (unsigned long long)mount_stat("resident_bytes"),
		       (unsigned long long)pool_size());
	}
	expect_pattern("load of twice the pool", map, 3, 0, size);
	EXPECT(mount_stat("evictions") > evictions, "nothing was evicted");
	read_pattern("read of twice the pool", fd, 3, 0, size);
	MUST(fsync(fd));
	expect_lower("below", "f", 3, 0, size);
	/* What is deleted gives its frames back. */
	MUST(munmap(map, size));
	close(fd);
	MUST(unlink("f"));
	for (off = 0; off < 100 && mount_stat("resident_bytes"); off++)
		usleep(50000);
	EXPECT(!mount_stat("resident_bytes"), "%llu bytes are resident, but no file is there",
	       (unsigned long long)mount_stat("resident_bytes"));
}

static bool kernel_is(const char *series)
{
	struct utsname name;

	MUST(uname(&name));
	return !strncmp(name.release, series, strlen(series));
}

/* A mapping that cannot have huge pages works nevertheless. */
BEHAVIOUR(without_huge_pages)
{
	unsigned char *place, *map;
	int fd;

	need_hugemap();
	fd = cold_file(4 * HUGE);
	place = map_file(-1, 0, 8 * HUGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS);
	place = (unsigned char *)(((uintptr_t)place + HUGE - 1) / HUGE * HUGE) + 3 * SMALL;
	map = mmap(place, 4 * HUGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
	EXPECT(map == place, "mmap at an odd address: %s", strerror(errno));
	expect_pattern("load at an odd address", map, 1, 0, 4 * HUGE);
	EXPECT(!pmd_mapped(map), "huge pages where none fit");
	EXPECT(smaps_bytes(map, "Rss") == 4 * HUGE, "Rss is %lu, expected %lu",
	       smaps_bytes(map, "Rss"), 4 * HUGE);
	store_all(map, 4 * HUGE);
	MUST(munmap(map, 4 * HUGE));
	map = map_shared(fd, 0, 4 * HUGE);
	if (!madvise(map, 4 * HUGE, MADV_NOHUGEPAGE)) {
		expect_pattern("load without huge pages", map, 2, 0, 4 * HUGE);
		/* Linux 6.1 does not look at it for pages of files. */
		if (!kernel_is("6.1."))
			EXPECT(!pmd_mapped(map), "huge pages after MADV_NOHUGEPAGE");
	}
	MUST(munmap(map, 4 * HUGE));
	map = map_shared(fd, 0, 4 * HUGE);
	expect_pattern("load with huge pages again", map, 2, 0, 4 * HUGE);
	if (huge_pages())
		EXPECT(pmd_mapped(map) == 4 * HUGE, "FilePmdMapped is %lu", pmd_mapped(map));
}

/* With 4 KB pages, what is not touched is not read, unless it is a stream. */
BEHAVIOUR(random_base_pages)
{
	uint64_t bytes, i, off;
	unsigned char *map;
	int fd;

	need_hugemap();
	if (huge_pages())
		skip("with page=2M whole blocks are read");
	fd = cold_file(SIZE);
	map = map_file(fd, 0, SIZE, PROT_READ, MAP_SHARED);
	bytes = mount_stat("read_bytes");
	for (i = 0; i < 64; i++) {
		off = (i * 2654435761u) % (SIZE / SMALL) * SMALL;
		expect_pattern("load of a page by itself", map + off, 1, off, SMALL);
	}
	bytes = mount_stat("read_bytes") - bytes;
	EXPECT(bytes <= 4 * 64 * SMALL, "%llu bytes were read for 64 pages",
	       (unsigned long long)bytes);
	EXPECT(!pmd_mapped(map), "huge pages with page=4K");
	expect_pattern("load of all", map, 1, 0, SIZE);
	EXPECT(smaps_bytes(map, "Rss") <= SIZE, "Rss is %lu of %lu", smaps_bytes(map, "Rss"), SIZE);
}

RUN_BEHAVIOURS
