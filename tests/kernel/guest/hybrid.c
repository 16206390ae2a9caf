// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * page=auto: base pages where access is random, huge ones where a stream goes through,
 * and what was touched nearly as a whole becomes huge while it is in use. Counted, never timed.
 *
 * vm: page=auto lower=ext4,xfs pool=48M timeout=300
 */
#include "common.h"

#include <pthread.h>

#define BLOCKS 8u
#define SIZE (BLOCKS * HUGE)
#define PAGES (HUGE / SMALL)
/* Seconds until a promotion must have happened, of which it takes one. */
#define PATIENCE 60u

static int cold_file(void)
{
	int fd = make_file("f", 1, SIZE + SMALL);

	MUST(fsync(fd));
	MUST(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED));
	return fd;
}

static void load(const volatile unsigned char *at)
{
	(void)*at;
}

/* Each page of a block once, in an order in which no two follow each other; all but @spared. */
static void touch_block(const unsigned char *block, unsigned int spared)
{
	unsigned int i;

	for (i = 0; i < PAGES - spared; i++)
		load(block + i * 37 % PAGES * SMALL);
}

static void await_promotions(uint64_t n)
{
	unsigned int i;

	for (i = 0; mount_stat("promoted") < n; i++) {
		EXPECT(i < PATIENCE * 10, "%llu promotions of %llu, %llu refused",
		       (unsigned long long)mount_stat("promoted"), (unsigned long long)n,
		       (unsigned long long)mount_stat("not_promoted"));
		usleep(100000);
	}
}

BEHAVIOUR(random_reads_pages)
{
	int fd = cold_file();
	unsigned char *map = map_shared(fd, 0, SIZE);
	uint64_t before = mount_stat("read_bytes"), promoted = mount_stat("promoted");
	unsigned int i;

	for (i = 0; i < BLOCKS * PAGES / 8; i++)
		load(map + i * 997 % (BLOCKS * PAGES) * SMALL);
	EXPECT(mount_stat("read_bytes") - before <= i * SMALL * 12 / 10,
	       "%llu bytes are read for %u pages",
	       (unsigned long long)(mount_stat("read_bytes") - before), i);
	EXPECT(mount_stat("promoted") == promoted,
	       "a block of which an eighth was touched is promoted");
}

BEHAVIOUR(stream_is_huge)
{
	int fd = cold_file();
	unsigned char *map = map_shared(fd, 0, SIZE);
	uint64_t before = mount_stat("huge_mapped");

	expect_pattern("load", map, 1, 0, SIZE);
	EXPECT(mount_stat("huge_mapped") - before >= BLOCKS / 2,
	       "%llu faults mapped 2 MB, of %u blocks",
	       (unsigned long long)(mount_stat("huge_mapped") - before), BLOCKS);
}

BEHAVIOUR(touched_becomes_huge)
{
	int fd = cold_file();
	unsigned char *map = map_shared(fd, 0, SIZE);
	uint64_t promoted = mount_stat("promoted"), read = mount_stat("read_bytes");

	touch_block(map + HUGE, PAGES / 20);
	touch_block(map + 3 * HUGE, PAGES / 2);
	await_promotions(promoted + 1);
	EXPECT(mount_stat("read_bytes") - read <= HUGE * 3 / 2 + HUGE / 8,
	       "%llu bytes are read for a block and half a block",
	       (unsigned long long)(mount_stat("read_bytes") - read));
	expect_pattern("load of what was promoted", map + HUGE, 1, HUGE, HUGE);
	EXPECT(mount_stat("promoted") == promoted + 1,
	       "a block of which half was touched is promoted");
}

/* The page table of a promoted block stays; a fault maps as many of its pages as it may. */
BEHAVIOUR(promoted_block_keeps_its_table)
{
	int fd = cold_file();
	unsigned char *map = map_shared(fd, 0, SIZE), *other;
	uint64_t promoted = mount_stat("promoted");
	struct rusage before, after;

	touch_block(map + HUGE, 0);
	await_promotions(promoted + 1);
	MUST(getrusage(RUSAGE_SELF, &before));
	touch_block(map + HUGE, 0);
	MUST(getrusage(RUSAGE_SELF, &after));
	EXPECT(after.ru_minflt - before.ru_minflt <= (long)PAGES / 8,
	       "%ld faults for %lu pages that are cached", after.ru_minflt - before.ru_minflt,
	       PAGES);
	expect_pattern("load of what was promoted", map + HUGE, 1, HUGE, HUGE);
	pattern(map + HUGE + 3, 2, HUGE + 3, 2 * SMALL);
	EXPECT(!pmd_mapped(map + HUGE), "the page table of a block is gone");
	other = map_shared(fd, 0, SIZE);
	expect_pattern("load where no page table is", other + HUGE + 3, 2, HUGE + 3, 2 * SMALL);
	EXPECT(pmd_mapped(other + HUGE) == HUGE, "%lu bytes as huge pages",
	       pmd_mapped(other + HUGE));
}

struct storer {
	volatile uint64_t *map;
	unsigned int id;
	volatile bool stop;
	uint64_t rounds;
};

/* A word of each page is its own: it counts up, and must be what it was. */
static void *store(void *arg)
{
	struct storer *s = arg;
	size_t step = SMALL / sizeof(uint64_t), page;

	for (s->rounds = 0; !s->stop; s->rounds++) {
		for (page = 0; page < 4 * PAGES; page++) {
			volatile uint64_t *word = s->map + page * 37 % (4 * PAGES) * step + s->id;

			EXPECT(*word == s->rounds, "round %llu of a store is lost: %llu",
			       (unsigned long long)s->rounds, (unsigned long long)*word);
			*word = s->rounds + 1;
		}
	}
	return NULL;
}

BEHAVIOUR(no_store_is_lost)
{
	int fd = open_file("g", O_RDWR | O_CREAT | O_TRUNC), round;
	struct storer storers[3] = {};
	uint64_t *below_map, before;
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
	/* What is not mapped any more is mapped by stores, beside a sync. */
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
	EXPECT(fd >= 0, "open below: %s", strerror(errno));
	below_map = mmap(NULL, 4 * HUGE, PROT_READ, MAP_SHARED, fd, 0);
	EXPECT(below_map != MAP_FAILED, "mmap below: %s", strerror(errno));
	for (page = 0; page < 4 * PAGES; page++)
		for (i = 0; i < COUNT(storers); i++)
			EXPECT(below_map[page * (SMALL / 8) + i] == storers[i].rounds,
			       "page %zu: %llu was stored, and %llu synced", page,
			       (unsigned long long)storers[i].rounds,
			       (unsigned long long)below_map[page * (SMALL / 8) + i]);
}

BEHAVIOUR(little_is_written)
{
	int fd = cold_file();
	unsigned char *map = map_shared(fd, 0, SIZE);
	uint64_t before;

	map[3 * HUGE + 5] = 1;
	before = mount_stat("written_bytes");
	MUST(msync(map, SIZE, MS_SYNC));
	EXPECT(mount_stat("written_bytes") - before <= 2 * SMALL, "%llu bytes are written for one",
	       (unsigned long long)(mount_stat("written_bytes") - before));
}

/* All of it cached in huge units, and clean. */
static unsigned char *huge_file(int *fd)
{
	unsigned char *map;

	*fd = cold_file();
	map = map_shared(*fd, 0, SIZE);
	expect_pattern("load", map, 1, 0, SIZE);
	EXPECT(pmd_mapped(map + 4 * HUGE) >= HUGE, "a block is not huge");
	return map;
}

static void expect_written(uint64_t before, uint64_t most, const char *what)
{
	uint64_t written = mount_stat("written_bytes") - before;

	EXPECT(written && written <= most, "%llu bytes are written for %s",
	       (unsigned long long)written, what);
}

/* Of a huge unit, too: by a mapping, which maps pages there from then on, or by a write. */
BEHAVIOUR(little_of_a_block_is_written)
{
	uint64_t before, parts = mount_stat("partial_writebacks");
	unsigned char *map, *other, was[3];
	struct utsname name;
	unsigned int i;
	int fd;

	MUST(uname(&name));
	if (strverscmp(name.release, "6.14") >= 0)
		skip("from 6.14 on a store to a mapping makes all of a block dirty");
	map = huge_file(&fd);
	other = map_shared(fd, 0, SIZE);
	for (i = 0; i < 3; i++) {
		before = mount_stat("written_bytes");
		was[i] = map[5 * HUGE + i * 77 * SMALL];
		map[5 * HUGE + i * 77 * SMALL] = was[i] + 1;
		MUST(msync(map, SIZE, MS_SYNC));
		expect_written(before, 2 * SMALL, "a byte stored");
	}
	before = mount_stat("written_bytes");
	EXPECT(pwrite(fd, "x", 1, 6 * HUGE + 100 * SMALL) == 1, "write: %s", strerror(errno));
	MUST(fsync(fd));
	expect_written(before, 2 * SMALL, "a byte of write(2)");
	/* What is stored to through a mapping that is gone, and by two of them. */
	before = mount_stat("written_bytes");
	other[4 * HUGE + 9 * SMALL] = 1;
	map[4 * HUGE + 300 * SMALL] = 2;
	MUST(munmap(other, SIZE));
	MUST(fsync(fd));
	expect_written(before, 4 * SMALL, "two bytes stored by two mappings");
	EXPECT(mount_stat("partial_writebacks") - parts == 5, "%llu units are written in parts",
	       (unsigned long long)(mount_stat("partial_writebacks") - parts));
	drop_from_cache(fd, map, SIZE);
	for (i = 0; i < 3; i++)
		EXPECT(map[5 * HUGE + i * 77 * SMALL] == (unsigned char)(was[i] + 1),
		       "store %u is lost", i);
	EXPECT(map[6 * HUGE + 100 * SMALL] == 'x' && map[4 * HUGE + 9 * SMALL] == 1 &&
		       map[4 * HUGE + 300 * SMALL] == 2,
	       "a store is lost");
}

/* Two blocks until it is one, page by page; then a fault for each. */
BEHAVIOUR(stream_of_stores_is_huge)
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
	EXPECT(mount_stat("written_bytes") - before >= SIZE, "less is written than was stored to");
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
 * There is a page table, as base pages were there, and all of the block is dirty: then one
 * fault maps what is left of it, in a mapping that lies otherwise one for each of its tables.
 */
BEHAVIOUR(dirty_block_is_mapped_at_once)
{
	int fd = cold_file();
	unsigned char *map = map_shared(fd, 0, SIZE), *room, *shifted;
	uint64_t promoted = mount_stat("promoted"), written;
	unsigned int i;
	long faults;

	touch_block(map + HUGE, PAGES / 20);
	await_promotions(promoted + 1);
	/* What is mapped for reading has faults of its own. With no page, there may be no table. */
	load(map + HUGE);
	MUST(madvise(map + HUGE + SMALL, HUGE - SMALL, MADV_DONTNEED));
	written = mount_stat("written_bytes");
	/* A page each, until they are a quarter of it. */
	for (i = 0; i <= PAGES / 4; i++)
		map[HUGE + i * 37 % PAGES * SMALL] = 3;
	faults = faults_of_stores(map + HUGE, 4);
	EXPECT(faults <= 8, "%ld faults for a block that is dirty", faults);

	room = mmap(NULL, 2 * SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	EXPECT(room != MAP_FAILED, "mmap: %s", strerror(errno));
	room += HUGE - (uintptr_t)room % HUGE + 5 * SMALL;
	shifted = mmap(room, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
	EXPECT(shifted == room, "mmap: %s", strerror(errno));
	faults = faults_of_stores(shifted + HUGE, 5);
	EXPECT(faults <= 8, "%ld faults for a block in two page tables", faults);
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

BEHAVIOUR(sparse_stays_sparse)
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
	       "%llu bytes of room for %u pages", (unsigned long long)st.st_blocks * 512, BLOCKS);
}

/* Two blocks in an hour, then the rest, when that is changed. */
BEHAVIOUR(promotes_its_share)
{
	unsigned char *map = map_shared(cold_file(), 0, SIZE);
	uint64_t promoted = mount_stat("promoted"), huge;
	unsigned int block;

	set_mount("promote_interval_ms", "10");
	/* The interval that is under way may have seen some already. */
	set_mount("promote_batch", "65536");
	touch_block(map, 0);
	await_promotions(promoted + 1);
	set_mount("promote_interval_ms", "3600000");
	set_mount("promote_batch", "3");
	huge = mount_stat("huge_bytes");
	for (block = 1; block < 6; block++)
		touch_block(map + block * HUGE, 0);
	await_promotions(promoted + 3);
	/* What it would have done by now, if it did more. */
	MUST(fsync(open_file("f", O_RDWR)));
	usleep(500000);
	EXPECT(mount_stat("promoted") <= promoted + 4, "%llu blocks are promoted, of 3",
	       (unsigned long long)(mount_stat("promoted") - promoted - 1));
	set_mount("promote_batch", "256");
	await_promotions(promoted + 6);
	EXPECT(mount_stat("huge_bytes") >= huge + 5 * HUGE, "%llu bytes are huge, and were %llu",
	       (unsigned long long)mount_stat("huge_bytes"), (unsigned long long)huge);
	EXPECT(mount_stat("huge_bytes") <= mount_stat("resident_bytes"),
	       "more is huge than is resident");
	set_mount("promote_interval_ms", "1000");
}

/* --- what programs say ------------------------------------------------------------- */

/* What a load brings in, in bytes. */
static uint64_t read_for(const unsigned char *at)
{
	uint64_t before = mount_stat("read_bytes");

	load(at);
	return mount_stat("read_bytes") - before;
}

BEHAVIOUR(said_huge)
{
	unsigned char *map = map_shared(cold_file(), 0, SIZE);

	MUST(madvise(map, SIZE, MADV_HUGEPAGE));
	EXPECT(read_for(map + 5 * HUGE + 7 * SMALL) == HUGE, "a load does not read its block");
	EXPECT(read_for(map + 2 * HUGE + 9 * SMALL) == HUGE, "a load does not read its block");
	EXPECT(pmd_mapped(map) == 2 * HUGE, "%lu bytes are mapped as huge pages", pmd_mapped(map));
	/* Whatever is said of the order beside it. */
	MUST(madvise(map, SIZE, MADV_RANDOM));
	EXPECT(read_for(map + 7 * HUGE) == HUGE, "a load of random access does not read its block");
	expect_pattern("load", map, 1, 0, SIZE);
}

/* What was cached before that was said. */
BEHAVIOUR(said_huge_later)
{
	unsigned char *map = map_shared(cold_file(), 0, SIZE);
	uint64_t promoted = mount_stat("promoted"), read;

	load(map + 3 * HUGE + 5 * SMALL);
	load(map + 3 * HUGE + 50 * SMALL);
	MUST(madvise(map + 3 * HUGE, 2 * HUGE, MADV_HUGEPAGE));
	EXPECT(mount_stat("promoted") == promoted, "a block is promoted for two pages of it");
	read = mount_stat("read_bytes");
	MUST(madvise(map + 3 * HUGE, 2 * HUGE, MADV_POPULATE_READ));
	await_promotions(promoted + 1);
	load(map + 4 * HUGE);
	EXPECT(mount_stat("read_bytes") - read >= 2 * HUGE - 2 * SMALL &&
		       mount_stat("read_bytes") - read <= 2 * HUGE,
	       "%llu bytes are read for two blocks but two pages",
	       (unsigned long long)(mount_stat("read_bytes") - read));
	EXPECT(pmd_mapped(map + 4 * HUGE) == HUGE, "a block that was read ahead is not huge");
	expect_pattern("load", map, 1, 0, SIZE);
}

BEHAVIOUR(said_small)
{
	int fd = cold_file();
	unsigned char *map = map_shared(fd, 0, SIZE), *other = map_shared(fd, 0, SIZE);
	uint64_t promoted = mount_stat("promoted"), huge = mount_stat("huge_mapped");
	unsigned int block;

	MUST(madvise(map, SIZE, MADV_NOHUGEPAGE));
	for (block = 0; block < BLOCKS - 1; block++)
		touch_block(map + block * HUGE, 0);
	expect_pattern("load", map, 1, 0, SIZE - HUGE);
	EXPECT(mount_stat("huge_mapped") == huge, "2 MB are mapped where base pages are wanted");
	/* Another one, where nothing was said, comes after them in the queue. */
	touch_block(other, 0);
	touch_block(other + SIZE - HUGE, 0);
	await_promotions(promoted + 1);
	EXPECT(mount_stat("promoted") == promoted + 1, "%llu blocks of base pages are promoted",
	       (unsigned long long)(mount_stat("promoted") - promoted - 1));
	EXPECT(pmd_mapped(map) == 0, "%lu bytes are mapped as huge pages", pmd_mapped(map));
}

BEHAVIOUR(said_sequential)
{
	unsigned char *map = map_shared(cold_file(), 0, SIZE);

	MUST(madvise(map, SIZE, MADV_SEQUENTIAL));
	EXPECT(read_for(map + 2 * HUGE + 9 * SMALL) >= HUGE, "a load does not read its block");
	EXPECT(pmd_mapped(map) >= HUGE, "a block of a stream is not huge");
	expect_pattern("load", map, 1, 0, SIZE);
}

BEHAVIOUR(said_random)
{
	unsigned char *map = map_shared(cold_file(), 0, SIZE);
	uint64_t promoted = mount_stat("promoted");
	unsigned int i;

	MUST(madvise(map, SIZE, MADV_RANDOM));
	for (i = PAGES / 2; i < PAGES * 3 / 2; i++)
		EXPECT(read_for(map + i * SMALL) == SMALL, "page %u: %s", i,
		       "a load of random access reads more than its page");
	/* Which does not mean that all of a block is not in use. */
	touch_block(map + 4 * HUGE, 0);
	await_promotions(promoted + 1);
	expect_pattern("load", map, 1, 0, SIZE);
}

/* Of the file, by POSIX_FADV_*; what is said of a range comes first. */
BEHAVIOUR(said_of_the_file)
{
	int fd = cold_file();
	unsigned char *map = map_shared(fd, 0, SIZE), byte;
	uint64_t read = mount_stat("read_bytes");
	unsigned int i;

	MUST(posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM));
	for (i = 0; i < 64; i++)
		MUST(pread(fd, &byte, 1, (off_t)(i * SMALL)));
	EXPECT(mount_stat("read_bytes") - read == 64 * SMALL, "%llu bytes are read for 64 pages",
	       (unsigned long long)(mount_stat("read_bytes") - read));
	EXPECT(read_for(map + HUGE) == SMALL, "a mapping of random access reads more");
	MUST(madvise(map + 2 * HUGE, HUGE, MADV_HUGEPAGE));
	EXPECT(read_for(map + 2 * HUGE) == HUGE, "the range does not come before the file");

	drop_from_cache(fd, map, SIZE);
	MUST(madvise(map + 6 * HUGE, HUGE, MADV_RANDOM));
	MUST(posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL));
	EXPECT(read_for(map + 6 * HUGE) == SMALL, "the range does not come before the file");
	read = mount_stat("read_bytes");
	MUST(pread(fd, &byte, 1, 3 * HUGE));
	EXPECT(mount_stat("read_bytes") - read >= HUGE,
	       "a read of a stream does not read its block");
	MUST(posix_fadvise(fd, 0, 0, POSIX_FADV_NORMAL));
	/* What was read ahead is there now. */
	while (mount_stat("io_in_flight"))
		usleep(10000);
	EXPECT(read_for(map + HUGE + 9 * SMALL) == SMALL, "what was said is not taken back");
	expect_pattern("load", map, 1, 0, SIZE);
}

/* Linux does not ask the file system: see hugemap(5). */
BEHAVIOUR(collapse_changes_nothing)
{
	unsigned char *map = map_shared(cold_file(), 0, SIZE);
	uint64_t promoted = mount_stat("promoted");

	load(map + HUGE + 3 * SMALL);
	/* Newer kernels look at what is there first. */
	EXPECT(madvise(map + HUGE, HUGE, MADV_COLLAPSE) == -1 &&
		       (errno == EINVAL || errno == EAGAIN),
	       "madvise: %s", strerror(errno));
	EXPECT(mount_stat("promoted") == promoted, "a block is promoted");
	expect_pattern("load", map, 1, 0, SIZE);
}

RUN_BEHAVIOURS
