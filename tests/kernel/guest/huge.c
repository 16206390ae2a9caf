// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The purpose of the engine: one fault and one I/O for each 2 MB, no read for a hole, and
 * never more cached data than the size of the pool. Events are counted, never timed.
 *
 * vm: page=2M,4K lower=ext4 timeout=180
 * vm: name=xfs page=2M,4K lower=xfs timeout=180 set=long
 */
#include "common.h"

#define BLOCKS 16ul
#define SIZE (BLOCKS * HUGE)

static void require_mount(void)
{
	if (!on_hugemap())
		skip("not on hugemap");
}

static void require_huge_pages(void)
{
	require_mount();
	if (!huge_pages())
		skip("with page=4K there are no huge pages");
}

/* The loads are volatile, as their results are not used. */
static void load_all(const volatile unsigned char *map, size_t size)
{
	size_t off;

	for (off = 0; off < size; off += 64)
		(void)map[off];
}

static void expect_pmd_mapped(const unsigned char *map, unsigned long bytes, const char *when)
{
	EXPECT(pmd_mapped(map) == bytes, "FilePmdMapped is %lu %s, expected %lu", pmd_mapped(map),
	       when, bytes);
}

static void expect_faults(const char *how, long n, unsigned long blocks)
{
	/* A few faults are those of the stack and of the C library. */
	EXPECT(n >= (long)blocks && n <= (long)blocks + 3,
	       "%s took %ld faults, expected %lu, one for each 2 MB", how, n, blocks);
}

BEHAVIOUR(sequential_loads_take_one_fault_per_block)
{
	unsigned char *map;
	uint64_t huge, base;
	long before;
	int fd;

	require_huge_pages();
	fd = make_cold_file("f", 1, SIZE);
	map = map_file(fd, 0, SIZE, PROT_READ, MAP_SHARED);
	EXPECT((uintptr_t)map % HUGE == 0, "the mapping is at %p, which is not aligned to 2 MB",
	       (void *)map);
	huge = mount_stat("huge_mapped");
	base = mount_stat("base_mapped");
	before = page_faults();
	load_all(map, SIZE);
	expect_faults("a sequential read", page_faults() - before, BLOCKS);
	EXPECT(mount_stat("huge_mapped") - huge == BLOCKS, "huge_mapped grew by %llu, expected %lu",
	       (unsigned long long)(mount_stat("huge_mapped") - huge), BLOCKS);
	EXPECT(mount_stat("base_mapped") == base, "base pages were mapped too");
	expect_pattern("load", map, 1, 0, SIZE);
	expect_pmd_mapped(map, SIZE, "after the loads");
	EXPECT(smaps_bytes(map, "Rss") == SIZE, "Rss is %lu, expected %lu", smaps_bytes(map, "Rss"),
	       SIZE);
	/* Another mapping of the cached file reads nothing. */
	huge = mount_stat("read_bytes");
	map = map_file(fd, 0, SIZE, PROT_READ, MAP_SHARED);
	before = page_faults();
	load_all(map, SIZE);
	expect_faults("a sequential read of cached data", page_faults() - before, BLOCKS);
	EXPECT(mount_stat("read_bytes") == huge, "cached data was read again");
}

static void store_all(unsigned char *map, size_t size)
{
	size_t off;

	for (off = 0; off < size; off += SMALL)
		pattern(map + off, 2, off, SMALL);
}

BEHAVIOUR(stores_to_a_new_file_take_one_fault_per_block_and_no_read)
{
	uint64_t read_bytes;
	unsigned char *map;
	long before;
	int fd;

	require_huge_pages();
	fd = open_file("f", O_RDWR | O_CREAT);
	MUST(ftruncate(fd, SIZE));
	map = map_shared(fd, 0, SIZE);
	read_bytes = mount_stat("read_bytes");
	before = page_faults();
	store_all(map, SIZE);
	expect_faults("a sequential write of a new file", page_faults() - before, BLOCKS);
	EXPECT(mount_stat("read_bytes") == read_bytes, "%llu bytes were read to write a new file",
	       (unsigned long long)(mount_stat("read_bytes") - read_bytes));
	expect_pmd_mapped(map, SIZE, "after the stores");
	MUST(fsync(fd));
	expect_lower("lower file", "f", 2, 0, SIZE);
}

BEHAVIOUR(stores_to_an_existing_file_take_one_fault_per_block)
{
	unsigned char *map;
	long before;
	int fd;

	require_huge_pages();
	fd = make_cold_file("f", 1, SIZE);
	map = map_shared(fd, 0, SIZE);
	before = page_faults();
	store_all(map, SIZE);
	expect_faults("a rewrite of an existing file", page_faults() - before, BLOCKS);
	MUST(fsync(fd));
	expect_lower("lower file", "f", 2, 0, SIZE);
}

/* The fault makes the PMD entry writable in place. */
BEHAVIOUR(first_store_after_a_load_or_a_sync_takes_one_fault_per_block)
{
	unsigned char *map;
	long before;
	int fd;

	require_huge_pages();
	fd = make_cold_file("f", 1, SIZE);
	map = map_shared(fd, 0, SIZE);
	load_all(map, SIZE);
	before = page_faults();
	store_all(map, SIZE);
	expect_faults("stores after loads", page_faults() - before, BLOCKS);
	expect_pmd_mapped(map, SIZE, "after the stores");
	/* The sync write-protects the blocks. */
	MUST(msync(map, SIZE, MS_SYNC));
	before = page_faults();
	store_all(map, SIZE);
	expect_faults("stores after a sync", page_faults() - before, BLOCKS);
	expect_pmd_mapped(map, SIZE, "after a sync and stores");
}

BEHAVIOUR(each_block_takes_one_io)
{
	uint64_t ios, bytes;
	unsigned char *map;
	int fd;

	require_huge_pages();
	fd = make_cold_file("f", 1, SIZE);
	map = map_shared(fd, 0, SIZE);
	ios = mount_stat("read_ios");
	bytes = mount_stat("read_bytes");
	load_all(map, SIZE);
	ios = mount_stat("read_ios") - ios;
	bytes = mount_stat("read_bytes") - bytes;
	EXPECT(bytes == SIZE, "%llu bytes were read, expected %lu", (unsigned long long)bytes,
	       SIZE);
	EXPECT(ios <= BLOCKS, "%llu I/Os, expected at most %lu", (unsigned long long)ios, BLOCKS);
	ios = mount_stat("write_ios");
	bytes = mount_stat("written_bytes");
	store_all(map, SIZE);
	MUST(fsync(fd));
	ios = mount_stat("write_ios") - ios;
	bytes = mount_stat("written_bytes") - bytes;
	EXPECT(bytes == SIZE, "%llu bytes were written, expected %lu", (unsigned long long)bytes,
	       SIZE);
	EXPECT(ios <= BLOCKS, "%llu I/Os, expected at most %lu", (unsigned long long)ios, BLOCKS);
	/* A sync of a clean file writes nothing. */
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

BEHAVIOUR(file_larger_than_the_pool_is_correct_and_the_pool_is_the_limit)
{
	uint64_t size = 2 * pool_size() / HUGE * HUGE, off, evictions;
	unsigned char *map;
	int fd;

	require_mount();
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
	expect_lower("lower file", "f", 3, 0, size);
	/* A deleted file returns its frames. */
	MUST(munmap(map, size));
	close(fd);
	MUST(unlink("f"));
	for (off = 0; off < 100 && mount_stat("resident_bytes"); off++)
		usleep(50000);
	EXPECT(!mount_stat("resident_bytes"), "%llu bytes are resident without any file",
	       (unsigned long long)mount_stat("resident_bytes"));
}

/* Because of its address, or of MADV_NOHUGEPAGE. */
BEHAVIOUR(mapping_that_cannot_have_huge_pages_uses_base_pages)
{
	unsigned char *place, *map;
	int fd;

	require_mount();
	fd = make_cold_file("f", 1, 4 * HUGE);
	place = reserve_aligned(8 * HUGE) + 3 * SMALL;
	map = mmap(place, 4 * HUGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
	EXPECT(map == place, "mmap at an unaligned address: %s", strerror(errno));
	expect_pattern("load at an unaligned address", map, 1, 0, 4 * HUGE);
	EXPECT(!pmd_mapped(map), "an unaligned mapping has huge pages");
	EXPECT(smaps_bytes(map, "Rss") == 4 * HUGE, "Rss is %lu, expected %lu",
	       smaps_bytes(map, "Rss"), 4 * HUGE);
	store_all(map, 4 * HUGE);
	MUST(munmap(map, 4 * HUGE));
	map = map_shared(fd, 0, 4 * HUGE);
	if (!madvise(map, 4 * HUGE, MADV_NOHUGEPAGE)) {
		expect_pattern("load without huge pages", map, 2, 0, 4 * HUGE);
		/* Linux 6.1 ignores the advice for mappings of files. */
		if (!kernel_before("6.2"))
			EXPECT(!pmd_mapped(map), "huge pages after MADV_NOHUGEPAGE");
	}
	MUST(munmap(map, 4 * HUGE));
	map = map_shared(fd, 0, 4 * HUGE);
	expect_pattern("load with huge pages again", map, 2, 0, 4 * HUGE);
	if (huge_pages())
		expect_pmd_mapped(map, 4 * HUGE, "without the advice");
}

BEHAVIOUR(random_loads_with_base_pages_read_only_these_pages)
{
	uint64_t bytes, i, off;
	unsigned char *map;
	int fd;

	require_mount();
	if (huge_pages())
		skip("with page=2M whole blocks are read");
	fd = make_cold_file("f", 1, SIZE);
	map = map_file(fd, 0, SIZE, PROT_READ, MAP_SHARED);
	bytes = mount_stat("read_bytes");
	for (i = 0; i < 64; i++) {
		off = (i * 2654435761u) % (SIZE / SMALL) * SMALL;
		expect_pattern("load of a page", map + off, 1, off, SMALL);
	}
	bytes = mount_stat("read_bytes") - bytes;
	EXPECT(bytes <= 4 * 64 * SMALL, "%llu bytes were read for 64 pages",
	       (unsigned long long)bytes);
	EXPECT(!pmd_mapped(map), "page=4K has huge pages");
	expect_pattern("load of the file", map, 1, 0, SIZE);
	EXPECT(smaps_bytes(map, "Rss") <= SIZE, "Rss is %lu of %lu", smaps_bytes(map, "Rss"), SIZE);
}

RUN_BEHAVIOURS
