// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Mapping and reading: what is at which address, and where it ends. */
#include "common.h"

#include <dirent.h>
#include <signal.h>

#define SEED 1

/* Every kind of length: within a page, a block, and just beside their ends. */
static const size_t lengths[] = {
	1,	   100,
	PAGE - 1,  PAGE,
	PAGE + 1,  3 * PAGE,
	BLOCK - 1, BLOCK,
	BLOCK + 1, BLOCK + PAGE,
	2 * BLOCK, 3 * BLOCK - PAGE + 5,
	5 * BLOCK, 7 * BLOCK + 12345,
};

static void test_bytes_are_the_files(void **state)
{
	struct hugemap_pool *pool = pool_new(MB(32));
	size_t i, p;

	for (p = 0; p < 2; p++) {
		for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
			size_t size = lengths[i], end = (size + PAGE - 1) & ~(PAGE - 1), at;
			struct file file;
			char *addr;

			file_pattern(&file, size, SEED);
			addr = map_file(&file, pool, PROT_READ);
			assert_int_equal((uintptr_t)addr % BLOCK, 0);
			assert_int_equal(pattern_differs(addr, SEED, 0, size), size);
			for (at = size; at < end; at++)
				assert_int_equal(addr[at], 0);
			ok(hugemap_unmap(addr, size));
			file_close(&file);
		}
	}
	pool_free(pool);
}

/* Any whole blocks, and any end in the kernel's part; nothing else. */
static void test_whole_blocks(void **state)
{
	struct hugemap_pool *pool = pool_new(MB(32));
	struct hugemap_options options = { .size = sizeof(options), .pool = pool };
	size_t size = 6 * BLOCK + 777, i;
	uint64_t random = 42;
	struct file file;
	char *addr;

	file_pattern(&file, size, SEED);
	for (i = 0; i < 60; i++) {
		size_t first = next_random(&random) % 7;
		size_t last = first + next_random(&random) % (7 - first) + 1;
		size_t length = (last == 7 ? size : last * BLOCK) - first * BLOCK;

		addr = map_range(&file, (off_t)(first * BLOCK), length, pool, PROT_READ);
		assert_int_equal((uintptr_t)addr % BLOCK, 0);
		assert_int_equal(pattern_differs(addr, SEED, first * BLOCK, length), length);
		ok(hugemap_unmap(addr, length));
	}
	addr = hugemap_map(file.fd, PAGE, BLOCK, PROT_READ, 0, &options);
	assert_int_equal(hugemap_error(addr), -EINVAL);
	assert_non_null(strstr(hugemap_reason(), "2 MB"));
	addr = hugemap_map(file.fd, 0, BLOCK + PAGE, PROT_READ, 0, &options);
	assert_int_equal(hugemap_error(addr), -EINVAL);
	assert_non_null(strstr(hugemap_reason(), "2 MB"));
	file_close(&file);
	pool_free(pool);
}

static void test_beyond_the_end_is_sigbus(void **state)
{
	struct hugemap_pool *pool = pool_new(MB(32));
	size_t size = BLOCK + 3 * PAGE + 100, p, at;
	struct file file;
	void *where;

	file_pattern(&file, size, SEED);
	for (p = 0; p < 2; p++) {
		char *addr = map_range(&file, 0, 4 * BLOCK, pool, PROT_READ | PROT_WRITE);

		for (at = 4 * PAGE; at < BLOCK; at += 37 * PAGE) {
			assert_int_equal(signal_of_read(addr + BLOCK + at + 5, &where), SIGBUS);
			assert_ptr_equal((uintptr_t)where & ~(PAGE - 1), addr + BLOCK + at);
		}
		assert_int_equal(signal_of_write(addr + BLOCK + 5 * PAGE, NULL), SIGBUS);
		assert_int_equal(signal_of_read(addr + 3 * BLOCK, NULL), SIGBUS);
		assert_int_equal(signal_of_read(addr + BLOCK + 3 * PAGE + 200, NULL), 0);
		assert_int_equal(pattern_differs(addr, SEED, 0, size), size);
		ok(hugemap_unmap(addr, 4 * BLOCK));
		assert_int_equal(file_length(&file), size);
	}
	file_close(&file);
	pool_free(pool);
}

static void test_pool_smaller_than_the_file(void **state)
{
	struct hugemap_pool *pool = pool_new(MB(16));
	size_t size = MB(100) + 5, p;
	uint64_t random = 7;
	struct file file;
	int i;

	file_pattern(&file, size, SEED);
	for (p = 0; p < 2; p++) {
		char *addr = map_file(&file, pool, PROT_READ);

		assert_int_equal(pattern_differs(addr, SEED, 0, size), size);
		for (i = 0; i < (p ? 3000 : 200); i++) {
			size_t at = next_random(&random) % size;

			assert_int_equal((unsigned char)addr[at], pattern_byte(SEED, at));
		}
		assert_true(stat_of(addr).evictions > 0);
		assert_true(stat_of(addr).resident_bytes <= MB(16));
		ok(hugemap_unmap(addr, size));
	}
	file_close(&file);
	pool_free(pool);
}

static bool is_huge_mapped(const char *addr)
{
	FILE *smaps = fopen("/proc/self/smaps", "r");
	char line[256];
	bool inside = false;
	unsigned long start, end, kb = 0;

	while (fgets(line, sizeof(line), smaps)) {
		if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
			inside = start <= (uintptr_t)addr && (uintptr_t)addr < end;
		else if (inside && sscanf(line, "AnonHugePages: %lu kB", &kb) == 1)
			break;
	}
	fclose(smaps);
	return kb >= 2048;
}

static void test_huge_pages_are_huge(void **state)
{
	struct hugemap_pool *pool = pool_new(MB(32));
	struct file file;
	char *addr;

	file_pattern(&file, 3 * BLOCK, SEED);
	addr = map_file(&file, pool, PROT_READ);
	(void)*(volatile char *)addr;
	(void)*(volatile char *)(addr + BLOCK);
	assert_true(is_huge_mapped(addr));
	assert_true(stat_of(addr).huge_pages >= 2);
	ok(hugemap_unmap(addr, 3 * BLOCK));
	file_close(&file);
	pool_free(pool);
}

static void test_system_calls_touch_it(void **state)
{
	struct hugemap_pool *pool = pool_new(MB(32));
	size_t size = 3 * BLOCK + 100, p;
	struct file file, other;
	char buffer[PAGE];
	int pipes[2];

	file_pattern(&file, size, SEED);
	file_new(&other, 0);
	assert_int_equal(pipe(pipes), 0);
	for (p = 0; p < 2; p++) {
		char *addr = map_file(&file, pool, PROT_READ | PROT_WRITE);

		/* from it: blocks that were never touched */
		assert_int_equal(write(pipes[1], addr + BLOCK + 10, PAGE), PAGE);
		assert_int_equal(read(pipes[0], buffer, PAGE), PAGE);
		assert_int_equal(pattern_differs(buffer, SEED, BLOCK + 10, PAGE), PAGE);
		assert_int_equal(pwrite(other.fd, addr, size, 0), size);
		/* into it */
		assert_int_equal(pread(other.fd, addr + 2 * BLOCK, PAGE, 100), PAGE);
		assert_int_equal(pattern_differs(addr + 2 * BLOCK, SEED, 100, PAGE), PAGE);
		pattern_fill(addr + 2 * BLOCK, SEED, 2 * BLOCK, PAGE);
		/* beyond the end: an error, not a signal */
		assert_int_equal(pread(other.fd, addr + 3 * BLOCK + PAGE, PAGE, 0), -1);
		assert_int_equal(errno, EFAULT);
		ok(hugemap_unmap(addr, size));
	}
	file_close(&other);
	file_close(&file);
	pool_free(pool);
}

static void test_read_only_stays_so(void **state)
{
	struct hugemap_pool *pool = pool_new(MB(32));
	size_t size = 2 * BLOCK + 50, p, n;
	struct file file;
	unsigned char *now;
	void *where;
	int zero = open("/dev/zero", O_RDONLY);

	file_pattern(&file, size, SEED);
	for (p = 0; p < 2; p++) {
		char *addr = map_file(&file, pool, PROT_READ);

		assert_int_equal(signal_of_write(addr + 100, &where), SIGSEGV);
		assert_ptr_equal((uintptr_t)where & ~(PAGE - 1), addr);
		(void)*(volatile char *)(addr + BLOCK);
		assert_int_equal(signal_of_write(addr + BLOCK + 7, NULL), SIGSEGV);
		assert_int_equal(read(zero, addr + BLOCK, 10), -1);
		assert_int_equal(errno, EFAULT);
		eventually(signal_of_read(addr + BLOCK, NULL) == 0);
		assert_int_equal(pattern_differs(addr, SEED, 0, size), size);
		ok(hugemap_unmap(addr, size));
	}
	now = file_read(&file, &n);
	assert_int_equal(pattern_differs(now, SEED, 0, n), size);
	free(now);
	close(zero);
	file_close(&file);
	pool_free(pool);
}

static void test_holes_are_not_read(void **state)
{
	struct hugemap_pool *pool = pool_new(MB(32));
	struct hugemap_stat stat;
	struct file file;
	size_t at;
	char *addr;

	file_new(&file, 8 * BLOCK);
	assert_int_equal(pwrite(file.fd, "x", 1, 3 * BLOCK + 5), 1);
	addr = map_file(&file, pool, PROT_READ);
	for (at = 0; at < 8 * BLOCK; at++)
		assert_int_equal(addr[at], at == 3 * BLOCK + 5 ? 'x' : 0);
	stat = stat_of(addr);
	assert_int_equal(stat.read_bytes, BLOCK);
	ok(hugemap_unmap(addr, 8 * BLOCK));
	file_close(&file);
	pool_free(pool);
}

/* Most units come in ahead of the reader. */
static bool is_read_ahead(struct hugemap_pool *pool, const struct file *file, size_t size)
{
	char *addr = map_file(file, pool, PROT_READ);
	struct hugemap_stat before = stat_of(addr), after;

	assert_int_equal(pattern_differs(addr, SEED, 0, size), size);
	after = stat_of(addr);
	ok(hugemap_unmap(addr, size));
	return after.fills - before.fills < size / BLOCK / 2 &&
	       after.ahead_used - before.ahead_used > size / BLOCK / 2;
}

static void test_streams_are_read_ahead(void **state)
{
	struct hugemap_pool *pool = pool_new(MB(64));
	size_t size = MB(200);
	struct hugemap_stat before;
	uint64_t random = 3;
	struct file file, sparse;
	int i, tries = 0;
	char *addr;

	file_pattern(&file, size, SEED);
	file_new(&sparse, MB(16384));
	/* On a machine that is slow at I/O the reader catches up with the window. */
	while (!is_read_ahead(pool, &file, size))
		assert_true(++tries < 10);

	addr = map_file(&sparse, pool, PROT_READ);
	before = stat_of(addr);
	for (i = 0; i < 200; i++)
		(void)*(volatile char *)(addr + next_random(&random) % MB(16384));
	assert_int_equal(stat_of(addr).ahead, before.ahead);
	ok(hugemap_unmap(addr, MB(16384)));
	file_close(&sparse);
	file_close(&file);
	pool_free(pool);
}

static void test_advice(void **state)
{
	struct hugemap_pool *pool = pool_new(MB(64));
	size_t size = MB(40);
	struct hugemap_stat stat;
	struct file file;
	char *addr;

	file_pattern(&file, size, SEED);
	addr = map_file(&file, pool, PROT_READ);
	ok(hugemap_advise(addr, size, HUGEMAP_ADVICE_RANDOM));
	assert_int_equal(pattern_differs(addr, SEED, 0, MB(16)), MB(16));
	assert_int_equal(stat_of(addr).ahead, 0);
	ok(hugemap_advise(addr, size, HUGEMAP_ADVICE_DONTNEED));
	assert_int_equal(stat_of(addr).resident_bytes, 0);
	ok(hugemap_advise(addr, size, HUGEMAP_ADVICE_SEQUENTIAL));
	(void)*(volatile char *)(addr + MB(20));
	eventually(stat_of(addr).ahead > 0);
	ok(hugemap_advise(addr, size, HUGEMAP_ADVICE_DONTNEED));
	ok(hugemap_advise(addr, size, HUGEMAP_ADVICE_NORMAL));
	ok(hugemap_advise(addr, MB(10), HUGEMAP_ADVICE_WILLNEED));
	eventually(stat_of(addr).resident_bytes >= MB(10));
	ok(hugemap_advise(addr, size, HUGEMAP_ADVICE_DONTNEED));
	ok(hugemap_prefetch(addr, MB(10)));
	stat = stat_of(addr);
	assert_true(stat.resident_bytes >= MB(10));
	assert_int_equal(pattern_differs(addr, SEED, 0, MB(10)), MB(10));
	assert_int_equal(stat_of(addr).fills, stat.fills);
	assert_int_equal(hugemap_advise(addr, size, (enum hugemap_advice)99), -EINVAL);
	assert_int_equal(hugemap_advise(&stat, 1, HUGEMAP_ADVICE_NORMAL), -EINVAL);
	ok(hugemap_unmap(addr, size));
	file_close(&file);
	pool_free(pool);
}

/*
 * A block of the first file, then one of the second, and a page. In a mapping's place that is
 * free again there is room for what is asked for, and not for more.
 */
static void map_side_by_side(const struct file *first, struct hugemap_pool *first_pool,
			     const struct file *second, struct hugemap_pool *second_pool, char **at)
{
	size_t length = BLOCK + PAGE;
	char *tries[100], *wall;
	int n = 0, i;

	at[0] = map_range(first, 0, 4 * BLOCK, first_pool, PROT_READ | PROT_WRITE);
	ok(hugemap_unmap(at[0] + BLOCK, 3 * BLOCK));
	wall = mmap(at[0] + BLOCK + length + BLOCK, PAGE, PROT_NONE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	assert_ptr_not_equal(wall, MAP_FAILED);
	do {
		tries[n] = map_range(second, 0, length, second_pool, PROT_READ | PROT_WRITE);
		at[1] = tries[n];
	} while (at[1] != at[0] + BLOCK && ++n < 100);
	assert_true(n < 100);
	for (i = 0; i < n; i++)
		ok(hugemap_unmap(tries[i], length));
	munmap(wall, PAGE);
}

/* Broken by: a range that is served as what its first address is in. */
static void test_a_range_of_two_mappings(void **state)
{
	struct hugemap_pool_options options = { .bytes = MB(16), .dirty_expire_ms = 3600000 };
	struct hugemap_pool *pools[2] = { pool_new_options(&options), pool_new_options(&options) };
	struct file files[2];
	char *at[2], byte;
	int i, p;

	file_pattern(&files[0], 4 * BLOCK, SEED);
	file_pattern(&files[1], BLOCK + PAGE, SEED);
	/* Without a pool and with one, the other way round, and with two. */
	for (p = 0; p < 3; p++) {
		map_side_by_side(&files[0], p ? pools[0] : NULL, &files[1],
				 p != 1 ? pools[1] : NULL, at);
		for (i = 0; i < 2; i++)
			at[i][PAGE] = (char)('a' + p);
		ok(hugemap_sync(at[0], 2 * BLOCK, MS_SYNC));
		for (i = 0; i < 2; i++) {
			assert_int_equal(pread(files[i].fd, &byte, 1, PAGE), 1);
			assert_int_equal(byte, 'a' + p);
		}
		ok(hugemap_sync(at[0], 2 * BLOCK, MS_ASYNC));
		ok(hugemap_advise(at[0] + BLOCK / 2, BLOCK, HUGEMAP_ADVICE_RANDOM));
		ok(hugemap_advise(at[0], 2 * BLOCK, HUGEMAP_ADVICE_DONTNEED));
		for (i = 0; i < 2; i++)
			if (p == 2 || i != p)
				assert_int_equal(stat_of(at[i]).resident_bytes, 0);
		ok(hugemap_prefetch(at[0], 2 * BLOCK));
		for (i = 0; i < 2; i++) {
			assert_true(stat_of(at[i]).resident_bytes >= BLOCK);
			assert_int_equal(pattern_differs(at[i], SEED, 0, PAGE), PAGE);
		}
		ok(hugemap_unmap(at[0], 2 * BLOCK + PAGE));
		assert_int_equal(hugemap_sync(at[0], 2 * BLOCK, MS_SYNC), -EINVAL);
		assert_int_equal(hugemap_prefetch(at[0], 2 * BLOCK), -EINVAL);
	}
	for (i = 0; i < 2; i++) {
		file_close(&files[i]);
		pool_free(pools[i]);
	}
}

/* A scan must not push out what is used again and again. */
static void test_priority_and_scans(void **state)
{
	struct hugemap_pool *pool = pool_new(MB(128));
	struct hugemap_stat before, after;
	struct file hot, scan;
	char *a, *b;
	size_t at;
	int i;

	file_pattern(&hot, MB(20), SEED);
	file_pattern(&scan, MB(300), SEED);
	a = map_file(&hot, pool, PROT_READ);
	ok(hugemap_advise(a, MB(20), HUGEMAP_ADVICE_PRIORITY_HIGH));
	b = map_file(&scan, pool, PROT_READ);
	ok(hugemap_advise(b, MB(300), HUGEMAP_ADVICE_PRIORITY_LOW));
	assert_int_equal(pattern_differs(a, SEED, 0, MB(20)), MB(20));
	before = stat_of(a);
	for (i = 0; i < 2; i++) {
		for (at = 0; at < MB(300); at += BLOCK)
			(void)*(volatile char *)(b + at);
	}
	after = stat_of(a);
	assert_true(after.evictions - before.evictions > 100);
	before = after;
	assert_int_equal(pattern_differs(a, SEED, 0, MB(20)), MB(20));
	assert_int_equal(stat_of(a).read_bytes, before.read_bytes);
	ok(hugemap_unmap(a, MB(20)));
	ok(hugemap_unmap(b, MB(300)));
	file_close(&hot);
	file_close(&scan);
	pool_free(pool);
}

static void test_many_mappings_of_a_file(void **state)
{
	struct hugemap_pool *pool = pool_new(MB(32));
	size_t size = 4 * BLOCK + 5 * PAGE, i;
	struct file file;
	char *a, *b, *c;

	file_pattern(&file, size, SEED);
	a = map_file(&file, pool, PROT_READ | PROT_WRITE);
	b = map_range(&file, BLOCK, 2 * BLOCK, pool, PROT_READ);
	c = map_file(&file, pool, PROT_READ | PROT_WRITE);
	for (i = 0; i < 300; i++) {
		size_t at = BLOCK + i * 7919 % (2 * BLOCK);

		a[at] = (char)i;
		assert_int_equal(b[at - BLOCK], (char)i);
		assert_int_equal(c[at], (char)i);
		c[at] = (char)(i + 1);
		assert_int_equal(a[at], (char)(i + 1));
		assert_int_equal(b[at - BLOCK], (char)(i + 1));
		/* The last block is the kernel's, in both. */
		a[4 * BLOCK + i] = (char)i;
		assert_int_equal(c[4 * BLOCK + i], (char)i);
	}
	ok(hugemap_unmap(a, size));
	assert_int_equal(c[BLOCK + 299 * 7919 % (2 * BLOCK)], (char)300);
	ok(hugemap_unmap(b, 2 * BLOCK));
	ok(hugemap_unmap(c, size));
	file_close(&file);
	pool_free(pool);
}

static void test_refusals(void **state)
{
	struct hugemap_options options = { .size = sizeof(options) };
	struct hugemap_stat stat = { .size = sizeof(stat) };
	struct hugemap_pool_options pool_options = { .size = sizeof(pool_options) };
	struct hugemap_pool *pool = pool_new(MB(16)), *none;
	struct file file;
	int read_only, write_only, fds[2];
	char *addr;

	file_pattern(&file, 2 * BLOCK, SEED);
	read_only = open(file.path, O_RDONLY);
	write_only = open(file.path, O_WRONLY);
	assert_int_equal(pipe(fds), 0);
	options.pool = pool;

#define REFUSED(err, ...) assert_int_equal(hugemap_error(hugemap_map(__VA_ARGS__)), err)
	REFUSED(-EBADF, -1, 0, PAGE, PROT_READ, 0, &options);
	REFUSED(-EACCES, write_only, 0, PAGE, PROT_READ, 0, &options);
	REFUSED(-EACCES, read_only, 0, PAGE, PROT_READ | PROT_WRITE, 0, &options);
	REFUSED(-EINVAL, file.fd, 100, PAGE, PROT_READ, 0, &options);
	REFUSED(-EINVAL, file.fd, -4096, PAGE, PROT_READ, 0, &options);
	REFUSED(-EINVAL, file.fd, 0, PAGE, PROT_READ | PROT_EXEC, 0, &options);
	REFUSED(-EINVAL, file.fd, 0, PAGE, PROT_WRITE, 0, &options);
	REFUSED(-EINVAL, file.fd, 0, PAGE, PROT_READ, 0x80, &options);
	REFUSED(-EINVAL, file.fd, 2 * BLOCK, 0, PROT_READ, 0, &options);
	REFUSED(-EOVERFLOW, file.fd, 0, SIZE_MAX / 2, PROT_READ, 0, &options);
	REFUSED(-ENODEV, fds[0], 0, PAGE, PROT_READ, 0, &options);
	options.size = 3;
	REFUSED(-EINVAL, file.fd, 0, PAGE, PROT_READ, 0, &options);
	options.size = sizeof(options);
	options.priority = (enum hugemap_priority)7;
	REFUSED(-EINVAL, file.fd, 0, PAGE, PROT_READ, 0, &options);
	options.priority = HUGEMAP_PRIORITY_NORMAL;
	assert_true(strlen(hugemap_reason()) > 10);

	addr = map_file(&file, pool, PROT_READ);
	assert_int_equal(hugemap_unmap(addr + 1, PAGE), -EINVAL);
	assert_int_equal(hugemap_unmap(addr, 0), -EINVAL);
	assert_int_equal(hugemap_unmap((char *)&options - (uintptr_t)&options % PAGE, PAGE),
			 -EINVAL);
	assert_int_equal(hugemap_sync(addr, PAGE, MS_SYNC | MS_ASYNC), -EINVAL);
	assert_int_equal(hugemap_sync(addr, PAGE, 1 << 20), -EINVAL);
	assert_int_equal(hugemap_sync(addr + 8, PAGE, MS_SYNC), -EINVAL);
	stat.size = 5;
	assert_int_equal(hugemap_stat(addr, &stat), -EINVAL);
	stat.size = sizeof(stat);
	assert_int_equal(hugemap_stat(&stat, &stat), -EINVAL);
	assert_int_equal(hugemap_pool_destroy(pool), -EBUSY);
	assert_int_equal(hugemap_pread(file.fd, &stat, 1, -1), -EINVAL);
	assert_int_equal(hugemap_truncate(file.fd, -1), -EINVAL);
	assert_int_equal(hugemap_punch(file.fd, 0, 0), -EINVAL);

	pool_options.bytes = MB(2);
	assert_int_equal(hugemap_pool_create(&pool_options, &none), -EINVAL);
	pool_options.bytes = 1ull << 50;
	assert_int_equal(hugemap_pool_create(&pool_options, &none), -ENOMEM);
	pool_options.bytes = MB(16);
	pool_options.queue_depth = 3;
	assert_int_equal(hugemap_pool_create(&pool_options, &none), -EINVAL);
	pool_options.queue_depth = 0;
	pool_options.dirty_ratio = 99;
	assert_int_equal(hugemap_pool_create(&pool_options, &none), -EINVAL);
	assert_true(strlen(hugemap_reason()) > 10);

	ok(hugemap_unmap(addr, 2 * BLOCK));
	close(read_only);
	close(write_only);
	close(fds[0]);
	close(fds[1]);
	file_close(&file);
	pool_free(pool);
}

static size_t resident_memory(void)
{
	FILE *file = fopen("/proc/self/statm", "r");
	size_t n;

	assert_non_null(file);
	assert_int_equal(fscanf(file, "%*u %zu", &n), 1);
	fclose(file);
	return n * PAGE;
}

/* A program that reads a few blocks does not pay for a large pool, unless asked to. */
static void test_memory_is_taken_as_it_is_used(void **state)
{
	struct hugemap_pool_options options = { .bytes = MB(256), .prefault = true };
	size_t before = resident_memory(), i;
	struct hugemap_pool *pool;
	struct file file;
	char *addr;

	file_pattern(&file, MB(120), SEED);
	pool = pool_new(MB(256));
	addr = map_file(&file, pool, PROT_READ);
	assert_int_equal((unsigned char)addr[MB(3)], pattern_byte(SEED, MB(3)));
	usleep(200000); /* for what would be taken in the background */
	assert_true(resident_memory() - before < MB(100));
	for (i = 0; i < MB(120); i += BLOCK)
		assert_int_equal((unsigned char)addr[i], pattern_byte(SEED, i));
	eventually(resident_memory() - before >= MB(120));
	ok(hugemap_unmap(addr, MB(120)));
	pool_free(pool);
	file_close(&file);

	before = resident_memory();
	pool = pool_new_options(&options);
	assert_true(resident_memory() - before > MB(250));
	pool_free(pool);
}

/* How often the pool's threads have gone to sleep. */
static unsigned long sleeps(void)
{
	unsigned long sum = 0, n;
	char path[300], line[128];
	const struct dirent *task;
	DIR *tasks = opendir("/proc/self/task");
	bool ours;

	assert_non_null(tasks);
	while ((task = readdir(tasks))) {
		FILE *status;

		snprintf(path, sizeof(path), "/proc/self/task/%s/status", task->d_name);
		status = fopen(path, "re");
		ours = false;
		while (status && fgets(line, sizeof(line), status)) {
			ours |= !strcmp(line, "Name:\thugemap\n");
			if (ours && sscanf(line, "voluntary_ctxt_switches: %lu", &n) == 1)
				sum += n;
		}
		if (status)
			fclose(status);
	}
	closedir(tasks);
	return sum;
}

/* Nothing for half a second, which may have to be waited for. */
static bool sleeps_on(void)
{
	unsigned long before;
	int tries;

	for (tries = 0; tries < 20; tries++) {
		before = sleeps();
		usleep(500000);
		if (sleeps() == before)
			return true;
	}
	return false;
}

/* Broken by: numbers that are published again and again; by calls that wake nobody. */
static void test_an_idle_pool_sleeps(void **state)
{
	struct hugemap_pool_options options = { .bytes = MB(16), .dirty_expire_ms = 200 };
	struct hugemap_pool *pool = pool_new_options(&options);
	char *addr, *data = malloc(BLOCK), byte = 0;
	struct file file;

	file_pattern(&file, 2 * BLOCK, SEED);
	memset(data, 'd', BLOCK);
	addr = map_file(&file, pool, PROT_READ | PROT_WRITE);
	addr[7] = 'x';
	ok(hugemap_sync(addr, 2 * BLOCK, MS_SYNC));
	assert_true(sleeps_on());
	/* What a call stores into a block that is cached is written in time all the same. */
	assert_int_equal(hugemap_pwrite(file.fd, data, BLOCK, 0), BLOCK);
	eventually(pread(file.fd, &byte, 1, 9) == 1 && byte == 'd');
	assert_true(sleeps_on());
	ok(hugemap_unmap(addr, 2 * BLOCK));
	free(data);
	file_close(&file);
	pool_free(pool);
}

static void test_errors_have_sentences(void **state)
{
	static const int errors[] = { EACCES, EBADF,  EBUSY,  EINVAL, EIO,   ENODEV,
				      E2BIG,  ENOMEM, ENOSPC, ENOSYS, EPERM, EOPNOTSUPP };
	size_t i;

	for (i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		assert_true(strlen(hugemap_strerror(errors[i])) > 20);
		assert_string_equal(hugemap_strerror(errors[i]), hugemap_strerror(-errors[i]));
		assert_string_not_equal(hugemap_strerror(errors[i]), hugemap_strerror(12345));
	}
	assert_string_equal(hugemap_strerror(0), "success");
	assert_non_null(strchr(hugemap_version(), '.'));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bytes_are_the_files),
		cmocka_unit_test(test_whole_blocks),
		cmocka_unit_test(test_beyond_the_end_is_sigbus),
		cmocka_unit_test(test_pool_smaller_than_the_file),
		cmocka_unit_test(test_huge_pages_are_huge),
		cmocka_unit_test(test_system_calls_touch_it),
		cmocka_unit_test(test_read_only_stays_so),
		cmocka_unit_test(test_holes_are_not_read),
		cmocka_unit_test(test_streams_are_read_ahead),
		cmocka_unit_test(test_advice),
		cmocka_unit_test(test_a_range_of_two_mappings),
		cmocka_unit_test(test_priority_and_scans),
		cmocka_unit_test(test_many_mappings_of_a_file),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_memory_is_taken_as_it_is_used),
		cmocka_unit_test(test_an_idle_pool_sleeps),
		cmocka_unit_test(test_errors_have_sentences),
	};

	return RUN(tests);
}
