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

static void sequential_loads(void)
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
	huge = stat_of("huge_mapped");
	base = stat_of("base_mapped");
	before = faults();
	load_all(map, SIZE);
	expect_faults("a sequential read", faults() - before, BLOCKS);
	EXPECT(stat_of("huge_mapped") - huge == BLOCKS, "huge_mapped grew by %llu, expected %lu",
	       (unsigned long long)(stat_of("huge_mapped") - huge), BLOCKS);
	EXPECT(stat_of("base_mapped") == base, "base pages were mapped too");
	expect_pattern("what was loaded", map, 1, 0, SIZE);
	EXPECT(smaps_of(map, "FilePmdMapped") == SIZE, "FilePmdMapped is %lu, expected %lu",
	       smaps_of(map, "FilePmdMapped"), SIZE);
	EXPECT(smaps_of(map, "Rss") == SIZE, "Rss is %lu, expected %lu", smaps_of(map, "Rss"),
	       SIZE);
	/* Again, by another mapping: nothing is read. */
	huge = stat_of("read_bytes");
	map = map_file(fd, 0, SIZE, PROT_READ, MAP_SHARED);
	before = faults();
	load_all(map, SIZE);
	expect_faults("a read of what is resident", faults() - before, BLOCKS);
	EXPECT(stat_of("read_bytes") == huge, "resident data was read again");
}

static void store_all(unsigned char *map, size_t size)
{
	size_t off;

	for (off = 0; off < size; off += SMALL)
		pattern(map + off, 2, off, SMALL);
}

static void first_stores(void)
{
	uint64_t read_bytes;
	unsigned char *map;
	long before;
	int fd;

	need_huge();
	fd = open_file("f", O_RDWR | O_CREAT);
	MUST(ftruncate(fd, SIZE));
	map = map_shared(fd, 0, SIZE);
	read_bytes = stat_of("read_bytes");
	before = faults();
	store_all(map, SIZE);
	expect_faults("a sequential write of a new file", faults() - before, BLOCKS);
	EXPECT(stat_of("read_bytes") == read_bytes, "%llu bytes were read to write a new file",
	       (unsigned long long)(stat_of("read_bytes") - read_bytes));
	EXPECT(smaps_of(map, "FilePmdMapped") == SIZE, "FilePmdMapped is %lu, expected %lu",
	       smaps_of(map, "FilePmdMapped"), SIZE);
	MUST(fsync(fd));
	expect_below("below", "f", 2, 0, SIZE);
}

static void rewriting_stores(void)
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
	expect_below("below", "f", 2, 0, SIZE);
}

/* Loaded first, then stored to: one more fault each, in place. */
static void upgrades(void)
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
	EXPECT(smaps_of(map, "FilePmdMapped") == SIZE,
	       "FilePmdMapped is %lu after the stores, expected %lu",
	       smaps_of(map, "FilePmdMapped"), SIZE);
	/* Protected by a sync, and stored to once more. */
	MUST(msync(map, SIZE, MS_SYNC));
	before = faults();
	store_all(map, SIZE);
	expect_faults("stores after a sync", faults() - before, BLOCKS);
	EXPECT(smaps_of(map, "FilePmdMapped") == SIZE,
	       "FilePmdMapped is %lu after a sync, expected %lu", smaps_of(map, "FilePmdMapped"),
	       SIZE);
}

static void large_io(void)
{
	uint64_t ios, bytes;
	unsigned char *map;
	int fd;

	need_huge();
	fd = cold_file(SIZE);
	map = map_shared(fd, 0, SIZE);
	ios = stat_of("read_ios");
	bytes = stat_of("read_bytes");
	load_all(map, SIZE);
	ios = stat_of("read_ios") - ios;
	bytes = stat_of("read_bytes") - bytes;
	EXPECT(bytes == SIZE, "%llu bytes were read from below, expected %lu",
	       (unsigned long long)bytes, SIZE);
	EXPECT(ios <= BLOCKS, "by %llu I/Os, expected at most %lu", (unsigned long long)ios,
	       BLOCKS);
	ios = stat_of("write_ios");
	bytes = stat_of("written_bytes");
	store_all(map, SIZE);
	MUST(fsync(fd));
	ios = stat_of("write_ios") - ios;
	bytes = stat_of("written_bytes") - bytes;
	EXPECT(bytes == SIZE, "%llu bytes were written below, expected %lu",
	       (unsigned long long)bytes, SIZE);
	EXPECT(ios <= BLOCKS, "by %llu I/Os, expected at most %lu", (unsigned long long)ios,
	       BLOCKS);
	/* Clean now: another sync has nothing to do. */
	bytes = stat_of("written_bytes");
	MUST(fsync(fd));
	EXPECT(stat_of("written_bytes") == bytes, "a clean file was written again");
	EXPECT(!stat_of("dirty_bytes"), "%llu bytes are dirty after fsync",
	       (unsigned long long)stat_of("dirty_bytes"));
}

static uint64_t pool_size(void)
{
	const char *text = getenv("POOL");
	char *end;
	uint64_t n = text ? strtoull(text, &end, 10) : 0;

	return !n ? 64 << 20 : *end == 'G' ? n << 30 : *end == 'M' ? n << 20 : n;
}

/* Twice the pool: all of it right, and never more than the pool in memory. */
static void beyond_the_pool(void)
{
	uint64_t size = 2 * pool_size() / HUGE * HUGE, off, evictions;
	unsigned char *map;
	int fd;

	need_hugemap();
	fd = open_file("f", O_RDWR | O_CREAT);
	MUST(ftruncate(fd, (off_t)size));
	map = map_shared(fd, 0, size);
	evictions = stat_of("evictions");
	for (off = 0; off < size; off += HUGE) {
		pattern(map + off, 3, off, HUGE);
		EXPECT(stat_of("resident_bytes") <= pool_size(),
		       "%llu bytes are resident in a pool of %llu",
		       (unsigned long long)stat_of("resident_bytes"),
		       (unsigned long long)pool_size());
	}
	expect_pattern("load of twice the pool", map, 3, 0, size);
	EXPECT(stat_of("evictions") > evictions, "nothing was evicted");
	read_pattern("read of twice the pool", fd, 3, 0, size);
	MUST(fsync(fd));
	expect_below("below", "f", 3, 0, size);
	/* What is deleted gives its frames back. */
	MUST(munmap(map, size));
	close(fd);
	MUST(unlink("f"));
	for (off = 0; off < 100 && stat_of("resident_bytes"); off++)
		usleep(50000);
	EXPECT(!stat_of("resident_bytes"), "%llu bytes are resident, but no file is there",
	       (unsigned long long)stat_of("resident_bytes"));
}

static bool kernel_is(const char *series)
{
	struct utsname name;

	MUST(uname(&name));
	return !strncmp(name.release, series, strlen(series));
}

/* A mapping that cannot have huge pages works nevertheless. */
static void without_huge_pages(void)
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
	EXPECT(!smaps_of(map, "FilePmdMapped"), "huge pages where none fit");
	EXPECT(smaps_of(map, "Rss") == 4 * HUGE, "Rss is %lu, expected %lu", smaps_of(map, "Rss"),
	       4 * HUGE);
	store_all(map, 4 * HUGE);
	MUST(munmap(map, 4 * HUGE));
	map = map_shared(fd, 0, 4 * HUGE);
	if (!madvise(map, 4 * HUGE, MADV_NOHUGEPAGE)) {
		expect_pattern("load without huge pages", map, 2, 0, 4 * HUGE);
		/* Linux 6.1 does not look at it for pages of files. */
		if (!kernel_is("6.1."))
			EXPECT(!smaps_of(map, "FilePmdMapped"), "huge pages after MADV_NOHUGEPAGE");
	}
	MUST(munmap(map, 4 * HUGE));
	map = map_shared(fd, 0, 4 * HUGE);
	expect_pattern("load with huge pages again", map, 2, 0, 4 * HUGE);
	if (huge_pages())
		EXPECT(smaps_of(map, "FilePmdMapped") == 4 * HUGE, "FilePmdMapped is %lu",
		       smaps_of(map, "FilePmdMapped"));
}

/* With 4 KB pages, what is not touched is not read, unless it is a stream. */
static void random_base_pages(void)
{
	uint64_t bytes, i, off;
	unsigned char *map;
	int fd;

	need_hugemap();
	if (huge_pages())
		skip("with page=2M whole blocks are read");
	fd = cold_file(SIZE);
	map = map_file(fd, 0, SIZE, PROT_READ, MAP_SHARED);
	bytes = stat_of("read_bytes");
	for (i = 0; i < 64; i++) {
		off = (i * 2654435761u) % (SIZE / SMALL) * SMALL;
		expect_pattern("load of a page by itself", map + off, 1, off, SMALL);
	}
	bytes = stat_of("read_bytes") - bytes;
	EXPECT(bytes <= 4 * 64 * SMALL, "%llu bytes were read for 64 pages",
	       (unsigned long long)bytes);
	EXPECT(!smaps_of(map, "FilePmdMapped"), "huge pages with page=4K");
	expect_pattern("load of all", map, 1, 0, SIZE);
	EXPECT(smaps_of(map, "Rss") <= SIZE, "Rss is %lu of %lu", smaps_of(map, "Rss"), SIZE);
}

static const struct behaviour all[] = {
	{ "sequential_loads", sequential_loads },
	{ "first_stores", first_stores },
	{ "rewriting_stores", rewriting_stores },
	{ "upgrades", upgrades },
	{ "large_io", large_io },
	{ "beyond_the_pool", beyond_the_pool },
	{ "without_huge_pages", without_huge_pages },
	{ "random_base_pages", random_base_pages },
};

int main(int argc, char **argv)
{
	return run_all(argc, argv, all, COUNT(all));
}
