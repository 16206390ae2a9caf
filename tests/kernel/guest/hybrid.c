// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * page=auto: random accesses use base pages, sequential ones huge pages, and a block in use is
 * promoted to a huge page when most of its pages were accessed. Programs can override this by
 * madvise(2) and posix_fadvise(2). Events are counted, never timed.
 *
 * vm: page=auto lower=ext4 pool=48M timeout=300
 * vm: name=xfs page=auto lower=xfs pool=48M timeout=300 set=long
 */
#include "common.h"

#include <pthread.h>
#include <sys/klog.h>

#define BLOCKS 8u
#define SIZE (BLOCKS * HUGE)
#define PAGES (HUGE / SMALL)
/* A promotion takes about one second. */
#define PROMOTION_TIMEOUT_S 60u

static int cold_file(void)
{
	return make_cold_file("f", 1, SIZE + SMALL);
}

static void load(const volatile unsigned char *at)
{
	(void)*at;
}

/* Loads from all pages of a block but @skipped ones, in an order without sequential runs. */
static void load_block(const unsigned char *block, unsigned int skipped)
{
	unsigned int i;

	for (i = 0; i < PAGES - skipped; i++)
		load(block + i * 37 % PAGES * SMALL);
}

static void await_promotions(uint64_t n)
{
	unsigned int i;

	for (i = 0; mount_stat("promoted") < n; i++) {
		EXPECT(i < PROMOTION_TIMEOUT_S * 10, "%llu promotions of %llu, %llu refused",
		       (unsigned long long)mount_stat("promoted"), (unsigned long long)n,
		       (unsigned long long)mount_stat("not_promoted"));
		usleep(100000);
	}
}

BEHAVIOUR(random_loads_read_only_their_pages)
{
	int fd = cold_file();
	unsigned char *map = map_shared(fd, 0, SIZE);
	uint64_t before = mount_stat("read_bytes"), promoted = mount_stat("promoted");
	unsigned int i;

	for (i = 0; i < BLOCKS * PAGES / 8; i++)
		load(map + i * 997 % (BLOCKS * PAGES) * SMALL);
	EXPECT(mount_stat("read_bytes") - before <= i * SMALL * 12 / 10,
	       "%llu bytes were read for %u pages",
	       (unsigned long long)(mount_stat("read_bytes") - before), i);
	EXPECT(mount_stat("promoted") == promoted,
	       "a block was promoted after accesses to an eighth of its pages");
}

BEHAVIOUR(sequential_loads_use_huge_pages)
{
	int fd = cold_file();
	unsigned char *map = map_shared(fd, 0, SIZE);
	uint64_t before = mount_stat("huge_mapped");

	expect_pattern("load", map, 1, 0, SIZE);
	EXPECT(mount_stat("huge_mapped") - before >= BLOCKS / 2,
	       "%llu faults mapped 2 MB, for %u blocks",
	       (unsigned long long)(mount_stat("huge_mapped") - before), BLOCKS);
}

BEHAVIOUR(block_of_which_most_pages_were_accessed_is_promoted)
{
	int fd = cold_file();
	unsigned char *map = map_shared(fd, 0, SIZE);
	uint64_t promoted = mount_stat("promoted"), read = mount_stat("read_bytes");

	load_block(map + HUGE, PAGES / 20);
	load_block(map + 3 * HUGE, PAGES / 2);
	await_promotions(promoted + 1);
	EXPECT(mount_stat("read_bytes") - read <= HUGE * 3 / 2 + HUGE / 8,
	       "%llu bytes were read for a block and half a block",
	       (unsigned long long)(mount_stat("read_bytes") - read));
	expect_pattern("load of the promoted block", map + HUGE, 1, HUGE, HUGE);
	EXPECT(mount_stat("promoted") == promoted + 1,
	       "a block was promoted after accesses to half of its pages");
}

/* A fault in it maps many PTEs (fault-around); a mapping without a page table gets a PMD. */
BEHAVIOUR(promoted_block_keeps_its_page_table)
{
	int fd = cold_file();
	unsigned char *map = map_shared(fd, 0, SIZE), *other;
	uint64_t promoted = mount_stat("promoted");
	long faults;

	load_block(map + HUGE, 0);
	await_promotions(promoted + 1);
	faults = minor_faults();
	load_block(map + HUGE, 0);
	faults = minor_faults() - faults;
	EXPECT(faults <= (long)PAGES / 8, "%ld faults for %lu cached pages", faults, PAGES);
	expect_pattern("load of the promoted block", map + HUGE, 1, HUGE, HUGE);
	pattern(map + HUGE + 3, 2, HUGE + 3, 2 * SMALL);
	EXPECT(!pmd_mapped(map + HUGE), "the promoted block has lost its page table");
	other = map_shared(fd, 0, SIZE);
	expect_pattern("load by a mapping without a page table", other + HUGE + 3, 2, HUGE + 3,
		       2 * SMALL);
	EXPECT(pmd_mapped(other + HUGE) == HUGE, "%lu bytes are mapped as huge pages",
	       pmd_mapped(other + HUGE));
}

struct storer {
	volatile uint64_t *map; /* a word of each page is the thread's own and counts rounds */
	unsigned int id;
	volatile bool stop;
	uint64_t rounds;
};

static void *store(void *arg)
{
	struct storer *s = arg;
	size_t step = SMALL / sizeof(uint64_t), page;

	for (s->rounds = 0; !s->stop; s->rounds++) {
		for (page = 0; page < 4 * PAGES; page++) {
			volatile uint64_t *word = s->map + page * 37 % (4 * PAGES) * step + s->id;

			EXPECT(*word == s->rounds,
			       "the store of round %llu is lost: the word is %llu",
			       (unsigned long long)s->rounds, (unsigned long long)*word);
			*word = s->rounds + 1;
		}
	}
	return NULL;
}

/* Threads store while blocks are promoted, written back and unmapped. */
BEHAVIOUR(no_store_is_lost_beside_promotions_and_syncs)
{
	int fd = open_file("g", O_RDWR | O_CREAT | O_TRUNC), round;
	struct storer storers[3] = {};
	uint64_t *lower_map, before;
	pthread_t threads[3];
	unsigned char *map;
	unsigned int i;
	size_t page;

	write_pattern(fd, 2, 0, SIZE);
	map = map_shared(fd, 0, SIZE);
	for (page = 0; page < 4 * PAGES; page++)
		memset(map + page * SMALL, 0, sizeof(storers) / sizeof(*storers) * 8);
	MUST(fsync(fd));
	drop_from_cache(fd, map, SIZE);
	before = mount_stat("promoted");
	for (i = 0; i < COUNT(storers); i++) {
		storers[i].map = (uint64_t *)map;
		storers[i].id = i;
		EXPECT(!pthread_create(&threads[i], NULL, store, &storers[i]), "no thread");
	}
	/* The stores fault the pages in again, beside a sync. */
	for (round = 0; round < 60; round++) {
		usleep(100000);
		MUST(madvise(map, 4 * HUGE, MADV_DONTNEED));
		MUST(fsync(fd));
	}
	await_promotions(before + 1);
	for (i = 0; i < COUNT(storers); i++) {
		storers[i].stop = true;
		EXPECT(!pthread_join(threads[i], NULL), "a thread does not end");
	}
	MUST(fsync(fd));
	fd = open(lower_path("g"), O_RDONLY | O_CLOEXEC);
	EXPECT(fd >= 0, "open of the lower file: %s", strerror(errno));
	lower_map = mmap(NULL, 4 * HUGE, PROT_READ, MAP_SHARED, fd, 0);
	EXPECT(lower_map != MAP_FAILED, "mmap of the lower file: %s", strerror(errno));
	for (page = 0; page < 4 * PAGES; page++)
		for (i = 0; i < COUNT(storers); i++)
			EXPECT(lower_map[page * (SMALL / 8) + i] == storers[i].rounds,
			       "page %zu: %llu was stored, the lower file has %llu", page,
			       (unsigned long long)storers[i].rounds,
			       (unsigned long long)lower_map[page * (SMALL / 8) + i]);
}

BEHAVIOUR(store_to_a_base_page_writes_back_only_this_page)
{
	int fd = cold_file();
	unsigned char *map = map_shared(fd, 0, SIZE);
	uint64_t before;

	map[3 * HUGE + 5] = 1;
	before = mount_stat("written_bytes");
	MUST(msync(map, SIZE, MS_SYNC));
	EXPECT(mount_stat("written_bytes") - before <= 2 * SMALL, "%llu bytes were written for one",
	       (unsigned long long)(mount_stat("written_bytes") - before));
}

/* A file that is cached in huge units, all of them clean. */
static unsigned char *huge_file(int *fd)
{
	unsigned char *map;

	*fd = cold_file();
	map = map_shared(*fd, 0, SIZE);
	expect_pattern("load", map, 1, 0, SIZE);
	EXPECT(pmd_mapped(map + 4 * HUGE) >= HUGE, "a sequential load did not map a huge page");
	return map;
}

static void expect_written(uint64_t before, uint64_t max, const char *what)
{
	uint64_t written = mount_stat("written_bytes") - before;

	EXPECT(written && written <= max, "%llu bytes were written for %s",
	       (unsigned long long)written, what);
}

/* The store fault replaces the PMD entry by PTEs, which track the dirty pages. */
BEHAVIOUR(store_or_write_to_a_huge_unit_writes_back_only_a_part)
{
	uint64_t before, parts = mount_stat("partial_writebacks");
	unsigned char *map, *other, was[3];
	unsigned int i;
	int fd;

	if (!kernel_before("6.14"))
		skip("from 6.14 on a store to a mapping makes the whole block dirty");
	map = huge_file(&fd);
	other = map_shared(fd, 0, SIZE);
	for (i = 0; i < 3; i++) {
		before = mount_stat("written_bytes");
		was[i] = map[5 * HUGE + i * 77 * SMALL];
		map[5 * HUGE + i * 77 * SMALL] = was[i] + 1;
		MUST(msync(map, SIZE, MS_SYNC));
		expect_written(before, 2 * SMALL, "a store of one byte");
	}
	before = mount_stat("written_bytes");
	EXPECT(pwrite(fd, "x", 1, 6 * HUGE + 100 * SMALL) == 1, "write: %s", strerror(errno));
	MUST(fsync(fd));
	expect_written(before, 2 * SMALL, "a write of one byte");
	/* Two mappings, one of which is unmapped before the sync. */
	before = mount_stat("written_bytes");
	other[4 * HUGE + 9 * SMALL] = 1;
	map[4 * HUGE + 300 * SMALL] = 2;
	MUST(munmap(other, SIZE));
	MUST(fsync(fd));
	expect_written(before, 4 * SMALL, "stores of two bytes by two mappings");
	EXPECT(mount_stat("partial_writebacks") - parts == 5,
	       "%llu units were written back partially",
	       (unsigned long long)(mount_stat("partial_writebacks") - parts));
	drop_from_cache(fd, map, SIZE);
	for (i = 0; i < 3; i++)
		EXPECT(map[5 * HUGE + i * 77 * SMALL] == (unsigned char)(was[i] + 1),
		       "store %u is lost", i);
	EXPECT(map[6 * HUGE + 100 * SMALL] == 'x' && map[4 * HUGE + 9 * SMALL] == 1 &&
		       map[4 * HUGE + 300 * SMALL] == 2,
	       "a store is lost");
}

BEHAVIOUR(self_test_finds_kernels_that_map_whole_folios)
{
	static char log[1 << 20];
	int n = klogctl(3, log, sizeof(log) - 1); /* SYSLOG_ACTION_READ_ALL */

	EXPECT(n > 0, "klogctl: %s", strerror(errno));
	log[n] = '\0';
	EXPECT(!strstr(log, "hugemap: this kernel maps more pages") == kernel_before("6.18"),
	       "the self-test is wrong about this kernel");
}

/* The first two blocks take a fault per page, until the stores are known to be sequential. */
BEHAVIOUR(sequential_stores_take_one_fault_per_block)
{
	uint64_t before;
	unsigned char *map;
	long faults;
	size_t page;
	int fd;

	map = huge_file(&fd);
	before = mount_stat("written_bytes");
	faults = minor_faults();
	for (page = 0; page < BLOCKS * PAGES; page++)
		map[page * SMALL] = 7;
	faults = minor_faults() - faults;
	EXPECT(faults <= (long)(2 * PAGES + 4 * BLOCKS), "%ld faults for %u blocks", faults,
	       BLOCKS);
	MUST(msync(map, SIZE, MS_SYNC));
	EXPECT(mount_stat("written_bytes") - before >= SIZE,
	       "fewer bytes were written than stored");
	drop_from_cache(fd, map, SIZE);
	for (page = 0; page < BLOCKS * PAGES; page++)
		EXPECT(map[page * SMALL] == 7, "the store to page %zu is lost", page);
}

static long faults_of_stores(unsigned char *block, unsigned char value)
{
	long before = minor_faults();
	unsigned int page;

	for (page = 0; page < PAGES; page++)
		block[page * SMALL] = value;
	return minor_faults() - before;
}

/*
 * The block has a page table, since it was cached in base pages before, and is dirty as a
 * whole. One fault makes all of its PTEs writable; in a mapping in which the block spans two
 * page tables, one fault for each table does. Since 6.18 mm maps all pages by itself, if the block
 * lies in one page table and none of its pages is mapped.
 */
BEHAVIOUR(one_fault_maps_the_rest_of_a_dirty_block)
{
	int fd = cold_file();
	unsigned char *map = map_shared(fd, 0, SIZE), *place, *shifted;
	uint64_t promoted = mount_stat("promoted"), written;
	bool by_mm = !kernel_before("6.18");
	unsigned int i;
	long faults;

	load_block(map + HUGE, PAGES / 20);
	await_promotions(promoted + 1);
	/*
	 * Pages that are mapped for reading would fault separately. One page remains mapped, so
	 * that the page table is not freed.
	 */
	load(map + HUGE);
	MUST(madvise(map + HUGE + (by_mm ? 0 : SMALL), HUGE - (by_mm ? 0 : SMALL), MADV_DONTNEED));
	written = mount_stat("written_bytes");
	/* One page at a time, until a quarter of the block is dirty. */
	for (i = 0; i <= PAGES / 4; i++)
		map[HUGE + i * 37 % PAGES * SMALL] = 3;
	faults = faults_of_stores(map + HUGE, 4);
	EXPECT(faults <= 8, "%ld faults for a dirty block", faults);

	place = reserve_aligned(2 * SIZE) + 5 * SMALL;
	shifted = mmap(place, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
	EXPECT(shifted == place, "mmap: %s", strerror(errno));
	faults = faults_of_stores(shifted + HUGE, 5);
	EXPECT(faults <= 8 || by_mm, "%ld faults for a block in two page tables", faults);
	MUST(msync(map, SIZE, MS_SYNC));
	expect_written(written, HUGE, "a block");
	shifted[2 * HUGE] = 6;
	shifted[HUGE - SMALL] = 6;
	MUST(fsync(fd));
	MUST(munmap(shifted, SIZE));
	drop_from_cache(fd, map, SIZE);
	for (i = 0; i < PAGES; i++)
		EXPECT(map[HUGE + i * SMALL] == 5, "the store to page %u is lost", i);
	EXPECT(map[2 * HUGE] == 6 && map[HUGE - SMALL] == 6, "a store beside the block is lost");
}

BEHAVIOUR(stores_to_a_sparse_file_allocate_only_their_pages)
{
	int fd = open_file("h", O_RDWR | O_CREAT | O_TRUNC), i;
	unsigned char *map;
	struct stat st;

	MUST(ftruncate(fd, SIZE));
	map = map_shared(fd, 0, SIZE);
	for (i = 0; i < (int)BLOCKS; i++)
		map[i * HUGE + 7 * SMALL] = 1;
	MUST(msync(map, SIZE, MS_SYNC));
	MUST(stat(lower_path("h"), &st));
	EXPECT((uint64_t)st.st_blocks * 512 <= BLOCKS * 4 * SMALL,
	       "%llu bytes are allocated for %u pages", (unsigned long long)st.st_blocks * 512,
	       BLOCKS);
}

/* At most promote_batch blocks are promoted in an interval; a new value applies at once. */
BEHAVIOUR(promote_batch_limits_promotions_per_interval)
{
	unsigned char *map = map_shared(cold_file(), 0, SIZE);
	uint64_t promoted = mount_stat("promoted"), huge;
	unsigned int block;

	set_mount("promote_interval_ms", "10");
	/* End the current interval, which may have promoted some blocks already. */
	set_mount("promote_batch", "65536");
	load_block(map, 0);
	await_promotions(promoted + 1);
	set_mount("promote_interval_ms", "3600000");
	set_mount("promote_batch", "3");
	huge = mount_stat("huge_bytes");
	for (block = 1; block < 6; block++)
		load_block(map + block * HUGE, 0);
	await_promotions(promoted + 3);
	/* Time for further promotions, if the limit did not work. */
	MUST(fsync(open_file("f", O_RDWR)));
	usleep(500000);
	EXPECT(mount_stat("promoted") <= promoted + 4,
	       "%llu blocks were promoted, with a batch of 3",
	       (unsigned long long)(mount_stat("promoted") - promoted - 1));
	set_mount("promote_batch", "256");
	await_promotions(promoted + 6);
	EXPECT(mount_stat("huge_bytes") >= huge + 5 * HUGE, "huge_bytes is %llu and was %llu",
	       (unsigned long long)mount_stat("huge_bytes"), (unsigned long long)huge);
	EXPECT(mount_stat("huge_bytes") <= mount_stat("resident_bytes"),
	       "huge_bytes is more than resident_bytes");
	set_mount("promote_interval_ms", "1000");
}

/* --- advice ------------------------------------------------------------------------ */

/* The number of bytes that a load reads into the cache. */
static uint64_t bytes_read_by_load(const unsigned char *at)
{
	uint64_t before = mount_stat("read_bytes");

	load(at);
	return mount_stat("read_bytes") - before;
}

BEHAVIOUR(madv_hugepage_reads_and_maps_whole_blocks)
{
	unsigned char *map = map_shared(cold_file(), 0, SIZE);

	MUST(madvise(map, SIZE, MADV_HUGEPAGE));
	EXPECT(bytes_read_by_load(map + 5 * HUGE + 7 * SMALL) == HUGE,
	       "a load does not read its block");
	EXPECT(bytes_read_by_load(map + 2 * HUGE + 9 * SMALL) == HUGE,
	       "a load does not read its block");
	EXPECT(pmd_mapped(map) == 2 * HUGE, "%lu bytes are mapped as huge pages", pmd_mapped(map));
	/* MADV_RANDOM does not change that. */
	MUST(madvise(map, SIZE, MADV_RANDOM));
	EXPECT(bytes_read_by_load(map + 7 * HUGE) == HUGE,
	       "a load with MADV_RANDOM does not read its block");
	expect_pattern("load", map, 1, 0, SIZE);
}

BEHAVIOUR(madv_hugepage_promotes_cached_base_pages_at_the_next_fault)
{
	unsigned char *map = map_shared(cold_file(), 0, SIZE);
	uint64_t promoted = mount_stat("promoted"), read;

	load(map + 3 * HUGE + 5 * SMALL);
	load(map + 3 * HUGE + 50 * SMALL);
	MUST(madvise(map + 3 * HUGE, 2 * HUGE, MADV_HUGEPAGE));
	EXPECT(mount_stat("promoted") == promoted, "a block with two cached pages was promoted");
	read = mount_stat("read_bytes");
	MUST(madvise(map + 3 * HUGE, 2 * HUGE, MADV_POPULATE_READ));
	await_promotions(promoted + 1);
	load(map + 4 * HUGE);
	/* If the promoter is late, the row of faults is a stream, and read-ahead adds more. */
	EXPECT(mount_stat("read_bytes") - read >= 2 * HUGE - 2 * SMALL,
	       "%llu bytes were read for two blocks without two pages",
	       (unsigned long long)(mount_stat("read_bytes") - read));
	EXPECT(pmd_mapped(map + 4 * HUGE) == HUGE, "the second block is not mapped as a huge page");
	expect_pattern("load", map, 1, 0, SIZE);
}

BEHAVIOUR(madv_nohugepage_keeps_base_pages)
{
	int fd = cold_file();
	unsigned char *map = map_shared(fd, 0, SIZE), *other = map_shared(fd, 0, SIZE);
	uint64_t promoted = mount_stat("promoted"), huge = mount_stat("huge_mapped");
	unsigned int block;

	MUST(madvise(map, SIZE, MADV_NOHUGEPAGE));
	for (block = 0; block < BLOCKS - 1; block++)
		load_block(map + block * HUGE, 0);
	expect_pattern("load", map, 1, 0, SIZE - HUGE);
	EXPECT(mount_stat("huge_mapped") == huge,
	       "a huge page is mapped in spite of MADV_NOHUGEPAGE");
	/* The mapping without advice gets a block promoted, which was queued after the others. */
	load_block(other, 0);
	load_block(other + SIZE - HUGE, 0);
	await_promotions(promoted + 1);
	EXPECT(mount_stat("promoted") == promoted + 1,
	       "%llu blocks with MADV_NOHUGEPAGE were promoted",
	       (unsigned long long)(mount_stat("promoted") - promoted - 1));
	EXPECT(pmd_mapped(map) == 0, "%lu bytes are mapped as huge pages", pmd_mapped(map));
}

BEHAVIOUR(madv_sequential_reads_whole_blocks_at_once)
{
	unsigned char *map = map_shared(cold_file(), 0, SIZE);

	MUST(madvise(map, SIZE, MADV_SEQUENTIAL));
	EXPECT(bytes_read_by_load(map + 2 * HUGE + 9 * SMALL) >= HUGE,
	       "a load does not read its block");
	EXPECT(pmd_mapped(map) >= HUGE, "a block is not mapped as a huge page");
	expect_pattern("load", map, 1, 0, SIZE);
}

BEHAVIOUR(madv_random_reads_single_pages_but_allows_promotion)
{
	unsigned char *map = map_shared(cold_file(), 0, SIZE);
	uint64_t promoted = mount_stat("promoted");
	unsigned int i;

	MUST(madvise(map, SIZE, MADV_RANDOM));
	for (i = PAGES / 2; i < PAGES * 3 / 2; i++)
		EXPECT(bytes_read_by_load(map + i * SMALL) == SMALL,
		       "a load of page %u reads more than this page", i);
	load_block(map + 4 * HUGE, 0);
	await_promotions(promoted + 1);
	expect_pattern("load", map, 1, 0, SIZE);
}

BEHAVIOUR(fadvise_applies_to_the_file_but_madvise_takes_precedence)
{
	int fd = cold_file();
	unsigned char *map = map_shared(fd, 0, SIZE), byte;
	uint64_t read = mount_stat("read_bytes");
	unsigned int i;

	MUST(posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM));
	for (i = 0; i < 64; i++)
		MUST(pread(fd, &byte, 1, (off_t)(i * SMALL)));
	EXPECT(mount_stat("read_bytes") - read == 64 * SMALL, "%llu bytes were read for 64 pages",
	       (unsigned long long)(mount_stat("read_bytes") - read));
	EXPECT(bytes_read_by_load(map + HUGE) == SMALL, "a load with POSIX_FADV_RANDOM reads more");
	MUST(madvise(map + 2 * HUGE, HUGE, MADV_HUGEPAGE));
	EXPECT(bytes_read_by_load(map + 2 * HUGE) == HUGE,
	       "madvise does not take precedence over fadvise");

	drop_from_cache(fd, map, SIZE);
	MUST(madvise(map + 6 * HUGE, HUGE, MADV_RANDOM));
	MUST(posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL));
	EXPECT(bytes_read_by_load(map + 6 * HUGE) == SMALL,
	       "madvise does not take precedence over fadvise");
	read = mount_stat("read_bytes");
	MUST(pread(fd, &byte, 1, 3 * HUGE));
	EXPECT(mount_stat("read_bytes") - read >= HUGE,
	       "a read with POSIX_FADV_SEQUENTIAL does not read its block");
	MUST(posix_fadvise(fd, 0, 0, POSIX_FADV_NORMAL));
	/* Wait for the read-ahead. */
	while (mount_stat("io_in_flight"))
		usleep(10000);
	EXPECT(bytes_read_by_load(map + HUGE + 9 * SMALL) == SMALL,
	       "POSIX_FADV_NORMAL does not end the advice");
	expect_pattern("load", map, 1, 0, SIZE);
}

/* Linux handles MADV_COLLAPSE without the file system: see hugemap(5). */
BEHAVIOUR(madv_collapse_is_refused_and_changes_nothing)
{
	unsigned char *map = map_shared(cold_file(), 0, SIZE);
	uint64_t promoted = mount_stat("promoted");

	load(map + HUGE + 3 * SMALL);
	/* Newer kernels check the cached pages first, which gives EAGAIN. */
	EXPECT(madvise(map + HUGE, HUGE, MADV_COLLAPSE) == -1 &&
		       (errno == EINVAL || errno == EAGAIN),
	       "madvise: %s", strerror(errno));
	EXPECT(mount_stat("promoted") == promoted, "a block was promoted");
	expect_pattern("load", map, 1, 0, SIZE);
}

/*
 * Write-back counts the references of a huge page to find pins. Since 6.10, Linux counts the PTEs
 * that map it, so the page stays mapped.
 */
BEHAVIOUR(write_back_keeps_a_block_mapped_by_ptes)
{
	int fd = make_file("f", 1, 2 * HUGE);
	unsigned char *map = reserve_aligned(3 * HUGE) + SMALL;
	uint64_t cleaned;
	unsigned int i;
	long faults;

	if (kernel_before("6.10"))
		skip("this kernel does not count the PTEs of a huge page");
	map = mmap(map, 2 * HUGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
	EXPECT(map != MAP_FAILED, "mmap: %s", strerror(errno));
	MUST(fsync(fd));
	for (i = 0; i < PAGES; i++)
		load(map + i * SMALL);
	map[5 * SMALL] = pattern_byte(1, 5 * SMALL);
	cleaned = mount_stat("cleaned");
	MUST(fsync(fd));
	EXPECT(mount_stat("cleaned") > cleaned, "the sync found no page that is mapped");
	faults = minor_faults();
	for (i = 0; i < PAGES; i++)
		load(map + i * SMALL);
	faults = minor_faults() - faults;
	EXPECT(faults < 4, "%ld faults map the block again", faults);
}

RUN_BEHAVIOURS
