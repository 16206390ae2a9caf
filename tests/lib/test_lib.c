// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* The calls of libhugemap keep the guarantees of mmap(2), and errors change nothing. */
#include "common.h"

#include <signal.h>
#include <sys/syscall.h>

#define SEED 17
#define BOTH (PROT_READ | PROT_WRITE)

static char *map_range(const struct file *file, off_t offset, size_t length, int prot, int flags)
{
	char *addr = hugemap_map(file->fd, offset, length, prot, flags);

	ok(hugemap_error(addr));
	assert_int_equal(((uintptr_t)addr - (uintptr_t)offset) % BLOCK, 0);
	return addr;
}

static void test_map_keeps_the_alignment_to_the_file(void **state)
{
	size_t size = 3 * BLOCK + 777, i;
	uint64_t random = 42;
	struct file file;

	file_pattern(&file, size, SEED);
	for (i = 0; i < 60; i++) {
		size_t offset = next_random(&random) % size / PAGE * PAGE;
		size_t length = next_random(&random) % (size - offset) + 1;
		char *addr = map_range(&file, (off_t)offset, length, PROT_READ, 0);

		assert_int_equal(pattern_differs(addr, SEED, offset, length), length);
		ok(hugemap_unmap(addr, length));
		assert_int_equal(signal_of_read(addr), SIGSEGV);
	}
	file_close(&file);
}

static void test_mapping_and_system_calls_agree(void **state)
{
	struct file file;
	char *addr, byte;

	file_pattern(&file, 2 * BLOCK, SEED);
	addr = map_range(&file, 0, 0, BOTH, 0);
	assert_int_equal(pwrite(file.fd, "w", 1, MB(1)), 1);
	assert_int_equal(addr[MB(1)], 'w');
	addr[MB(3)] = 's';
	assert_int_equal(pread(file.fd, &byte, 1, MB(3)), 1);
	assert_int_equal(byte, 's');
	assert_int_equal(ftruncate(file.fd, (off_t)(BLOCK + 100)), 0);
	assert_int_equal(signal_of_read(addr + BLOCK + PAGE), SIGBUS);
	assert_int_equal(ftruncate(file.fd, 2 * BLOCK), 0);
	assert_int_equal(addr[BLOCK + PAGE], 0);
	ok(hugemap_unmap(addr, 2 * BLOCK));
	file_close(&file);
}

static void store_in_child(void *arg)
{
	struct hugemap_stat stat = { .size = sizeof(stat) };
	char *addr = arg;

	must(addr[5] == 'p');
	addr[BLOCK] = 'c';
	must(!hugemap_stat(addr, &stat) && stat.mapped_bytes == 2 * BLOCK);
	must(!hugemap_sync(addr, 2 * BLOCK, MS_SYNC));
	must(!hugemap_unmap(addr, 2 * BLOCK));
}

static void test_child_shares_the_mapping(void **state)
{
	struct file file;
	char *addr;

	file_pattern(&file, 2 * BLOCK, SEED);
	addr = map_range(&file, 0, 0, BOTH, 0);
	addr[5] = 'p';
	assert_int_equal(status_of_child(store_in_child, addr), 0);
	assert_int_equal(addr[BLOCK], 'c');
	ok(hugemap_unmap(addr, 2 * BLOCK));
	file_close(&file);
}

static void test_private_mapping_keeps_its_stores(void **state)
{
	struct file file;
	char *addr;

	file_pattern(&file, 2 * BLOCK, SEED);
	addr = map_range(&file, 0, 0, BOTH, HUGEMAP_PRIVATE);
	addr[7] = 'x';
	ok(hugemap_sync(addr, 2 * BLOCK, MS_SYNC));
	ok(hugemap_advise(addr, 2 * BLOCK, HUGEMAP_ADVICE_DONTNEED));
	assert_int_equal(addr[7], 'x');
	ok(hugemap_unmap(addr, 2 * BLOCK));
	addr = map_range(&file, 0, 0, PROT_READ, 0);
	assert_int_equal(pattern_differs(addr, SEED, 0, 2 * BLOCK), 2 * BLOCK);
	ok(hugemap_unmap(addr, 2 * BLOCK));
	file_close(&file);
}

static void test_map_refuses_bad_arguments(void **state)
{
	struct file file;
	int fd;

#define refused(err, fd, offset, length, prot, flags)                                         \
	do {                                                                                  \
		assert_int_equal(hugemap_error(hugemap_map(fd, offset, length, prot, flags)), \
				 -(err));                                                     \
		assert_string_not_equal(hugemap_reason(), "");                                \
	} while (0)

	file_pattern(&file, BLOCK, SEED);
	refused(EBADF, -1, 0, 0, PROT_READ, 0);
	refused(EINVAL, file.fd, 1, 0, PROT_READ, 0);
	refused(EINVAL, file.fd, -4096, 0, PROT_READ, 0);
	refused(EINVAL, file.fd, 0, 0, PROT_READ | PROT_EXEC, 0);
	refused(EINVAL, file.fd, 0, 0, PROT_NONE, 0);
	refused(EINVAL, file.fd, 0, 0, PROT_READ, 0x80);
	refused(EINVAL, file.fd, BLOCK, 0, PROT_READ, 0); /* nothing to map */
	refused(EOVERFLOW, file.fd, 0, SIZE_MAX / 2, PROT_READ, 0);
	refused(ENOMEM, file.fd, 0, SIZE_MAX / 8, PROT_READ, 0);
	fd = open(file.path, O_RDONLY);
	refused(EACCES, fd, 0, 0, BOTH, 0);
	ok(hugemap_unmap(map_range(&(struct file){ .fd = fd }, 0, 0, BOTH, HUGEMAP_PRIVATE),
			 BLOCK));
	close(fd);
	fd = open(file.path, O_WRONLY);
	refused(EACCES, fd, 0, 0, PROT_READ, 0);
	close(fd);
	fd = open(file.path, O_PATH);
	refused(EBADF, fd, 0, 0, PROT_READ, 0);
	close(fd);
	fd = open("/", O_RDONLY);
	refused(ENODEV, fd, 0, PAGE, PROT_READ, 0);
	close(fd);
	file_close(&file);
}

static void test_ranges_are_checked(void **state)
{
	struct file file;
	char *addr;

	file_pattern(&file, 2 * BLOCK, SEED);
	addr = map_range(&file, 0, 0, BOTH, 0);
	assert_int_equal(hugemap_unmap(addr + 1, PAGE), -EINVAL);
	assert_int_equal(hugemap_unmap(addr, 0), -EINVAL);
	assert_int_equal(hugemap_unmap(addr, SIZE_MAX), -EINVAL);
	assert_int_equal(hugemap_sync(addr + 1, PAGE, MS_SYNC), -EINVAL);
	assert_int_equal(hugemap_sync(addr, PAGE, MS_SYNC | MS_ASYNC), -EINVAL);
	assert_int_equal(hugemap_sync(addr, PAGE, 0), -EINVAL);
	assert_int_equal(hugemap_advise(addr, PAGE, (enum hugemap_advice)99), -EINVAL);
	assert_int_equal(hugemap_error(hugemap_remap(addr + 1, PAGE, PAGE)), -EINVAL);
	assert_int_equal(hugemap_error(hugemap_remap(addr, PAGE, 0)), -EINVAL);
	ok(hugemap_unmap(addr + BLOCK, PAGE));
	assert_int_equal(hugemap_sync(addr, 2 * BLOCK, MS_SYNC), -EINVAL);
	assert_int_equal(hugemap_prefetch(addr, 2 * BLOCK), -EINVAL);
	assert_int_equal(hugemap_advise(addr, 2 * BLOCK, HUGEMAP_ADVICE_WILLNEED), -EINVAL);
	assert_int_equal(pattern_differs(addr, SEED, 0, BLOCK), BLOCK);
	ok(hugemap_unmap(addr, 2 * BLOCK));
	file_close(&file);
}

static void test_stat_counts_what_is_mapped(void **state)
{
	size_t size = 3 * BLOCK + 100;
	struct hugemap_stat stat;
	struct file file;
	char *addr;
	int advice, tries = 100;

	file_pattern(&file, size, SEED);
	addr = map_range(&file, 0, 0, BOTH, 0);
	ok(hugemap_prefetch(addr, size));
	stat = stat_of(addr + BLOCK);
	assert_int_equal(stat.engine, HUGEMAP_ENGINE_STEER);
	assert_int_equal(stat.mapped_bytes, 3 * BLOCK + PAGE);
	assert_int_equal(stat.resident_bytes, 3 * BLOCK + PAGE);
	assert_true(stat.huge_bytes <= stat.resident_bytes);
	for (advice = 0; advice <= HUGEMAP_ADVICE_DONTNEED; advice++)
		ok(hugemap_advise(addr + 5, size - 5, (enum hugemap_advice)advice));
	/* Linux may write the page back at any time, so store again. */
	do
		addr[9] = 'a';
	while (stat_of(addr).dirty_bytes < PAGE && --tries);
	assert_true(tries);
	ok(hugemap_sync(addr, size, MS_ASYNC));
	ok(hugemap_sync(addr, size, MS_SYNC));
	assert_int_equal(stat_of(addr).dirty_bytes, 0);
	/* Parts with different advice are separate areas; their numbers are added. */
	ok(hugemap_advise(addr, BLOCK, HUGEMAP_ADVICE_RANDOM));
	assert_int_equal(stat_of(addr + 2 * BLOCK).mapped_bytes, 3 * BLOCK + PAGE);
	ok(hugemap_unmap(addr + BLOCK + 5 * PAGE, 7 * PAGE));
	assert_int_equal(stat_of(addr).mapped_bytes, BLOCK + 5 * PAGE);
	assert_int_equal(stat_of(addr + 2 * BLOCK).mapped_bytes, 2 * BLOCK - 11 * PAGE);
	assert_int_equal(signal_of_read(addr + BLOCK + 5 * PAGE), SIGSEGV);
	ok(hugemap_unmap(addr, size));
	assert_int_equal(hugemap_stat(addr, &stat), -EINVAL);
	assert_int_equal(hugemap_stat(&file, &stat), -EINVAL); /* anonymous memory */
	file_close(&file);
}

static void test_prefetch_ends_with_the_file(void **state)
{
	size_t size = 3 * BLOCK + 100;
	struct file file;
	char *addr;

	file_pattern(&file, size, SEED);
	addr = map_range(&file, 0, 5 * BLOCK, PROT_READ, 0);
	ok(hugemap_prefetch(addr, 5 * BLOCK));
	assert_int_equal(stat_of(addr).resident_bytes, 3 * BLOCK + PAGE);
	ok(hugemap_prefetch(addr + 4 * BLOCK, BLOCK));
	assert_int_equal(ftruncate(file.fd, BLOCK), 0);
	ok(hugemap_prefetch(addr, 5 * BLOCK));
	assert_int_equal(stat_of(addr).resident_bytes, BLOCK);
	ok(hugemap_unmap(addr, 5 * BLOCK));
	file_close(&file);
}

/* A range of two mappings, where the first one reaches beyond the end of its file. */
static void test_prefetch_of_two_mappings(void **state)
{
	struct file file;
	char *addr;

	file_pattern(&file, BLOCK + 5, SEED);
	addr = map_range(&file, 0, 4 * BLOCK, PROT_READ, 0);
	assert_ptr_equal(mmap(addr + 3 * BLOCK, BLOCK, PROT_READ, MAP_SHARED | MAP_FIXED, file.fd,
			      0),
			 addr + 3 * BLOCK);
	ok(hugemap_prefetch(addr, 4 * BLOCK));
	assert_int_equal(stat_of(addr + 3 * BLOCK).resident_bytes, BLOCK);
	ok(hugemap_unmap(addr, 4 * BLOCK));
	file_close(&file);
}

/* MADV_POPULATE_READ fails, like on a kernel before 5.14. */
static void prefetch_without_populate(void *arg)
{
	struct hugemap_stat stat = { .size = sizeof(stat) };
	struct file *file = arg;
	char *addr = hugemap_map(file->fd, 0, 3 * BLOCK, PROT_READ, 0);

	must(!hugemap_error(addr));
	forbid(SYS_madvise, 2, 22 /* MADV_POPULATE_READ */, EINVAL);
	must(!hugemap_prefetch(addr + PAGE, 3 * BLOCK - PAGE));
	must(!hugemap_stat(addr, &stat));
	must(stat.resident_bytes >= BLOCK + PAGE && stat.resident_bytes <= BLOCK + 2 * PAGE);
	must(!ftruncate(file->fd, 100) && !hugemap_prefetch(addr, 3 * BLOCK));
}

static void test_prefetch_without_populate(void **state)
{
	struct file file;

	file_pattern(&file, BLOCK + PAGE + 5, SEED);
	assert_int_equal(status_of_child(prefetch_without_populate, &file), 0);
	file_close(&file);
}

static void test_remap_moves_and_keeps_the_alignment(void **state)
{
	char *addr, *longer, *wall;
	struct file file;

	file_pattern(&file, 5 * BLOCK, SEED);
	addr = map_range(&file, 0, 2 * BLOCK, BOTH, 0);
	addr[9] = 'x';
	/* A page behind the mapping forces it to move. */
	wall = mmap(addr + 2 * BLOCK, PAGE, PROT_NONE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	longer = hugemap_remap(addr, 2 * BLOCK, 5 * BLOCK);
	ok(hugemap_error(longer));
	assert_ptr_not_equal(longer, addr);
	assert_int_equal((uintptr_t)longer % BLOCK, 0);
	assert_int_equal(longer[9], 'x');
	assert_int_equal((unsigned char)longer[4 * BLOCK], pattern_byte(SEED, 4 * BLOCK));
	assert_int_equal(signal_of_read(addr), SIGSEGV);
	assert_ptr_equal(hugemap_remap(longer, 5 * BLOCK, 3 * PAGE), longer);
	assert_int_equal(signal_of_read(longer + 3 * PAGE), SIGSEGV);
	ok(hugemap_unmap(longer, 3 * PAGE));
	assert_int_equal(hugemap_error(hugemap_remap(longer, 3 * PAGE, BLOCK)), -EFAULT);
	if (wall != MAP_FAILED)
		munmap(wall, PAGE);
	file_close(&file);
}

/* The number of areas (VMAs) in a range. */
static int areas_of(const char *at, size_t length)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	unsigned long start, end;
	char line[512];
	int n = 0;

	assert_non_null(maps);
	while (fgets(line, sizeof(line), maps))
		if (sscanf(line, "%lx-%lx", &start, &end) == 2)
			n += start < (unsigned long)(at + length) && end > (unsigned long)at;
	fclose(maps);
	return n;
}

/* mremap() accepts one area only; the monitor thread has split this mapping by advice. */
static void test_remap_of_a_mapping_with_advised_parts(void **state)
{
	size_t size = MB(64), i, n;
	char *addr, *longer;
	struct file file;

	file_pattern(&file, size, SEED);
	addr = map_range(&file, 0, 0, PROT_READ, 0);
	for (n = 0; n < 2000 && areas_of(addr, size) < 2; n++) {
		if (n % 20 == 0)
			madvise(addr, size, MADV_DONTNEED);
		for (i = n % 20 * (MB(1) / 8); i < (n % 20 + 1) * (MB(1) / 8); i += PAGE)
			assert_int_equal((unsigned char)addr[i], pattern_byte(SEED, i));
		usleep(1000);
	}
	if (areas_of(addr, size) < 2) {
		print_message("skipped: steering gives no advice here\n");
		ok(hugemap_unmap(addr, size));
		file_close(&file);
		skip();
	}
	assert_int_equal(ftruncate(file.fd, 2 * (off_t)size), 0);
	longer = hugemap_remap(addr, size, 2 * size);
	ok(hugemap_error(longer));
	assert_int_equal(pattern_differs(longer, SEED, 0, size), size);
	assert_int_equal(longer[2 * size - 1], 0);
	ok(hugemap_unmap(longer, 2 * size));
	file_close(&file);
}

/* hugemap_stat() reports the decisions of steering and their reasons. */
static void test_stat_explains_steering(void **state)
{
	struct hugemap_stat stat;
	size_t size = MB(64), i;
	struct file file;
	char *addr;
	int n;

	file_pattern(&file, size, SEED);
	addr = map_range(&file, 0, 0, PROT_READ, 0);
	for (n = 0; n < 200; n++) {
		for (i = 0; i < size; i += PAGE)
			assert_int_equal((unsigned char)addr[i], pattern_byte(SEED, i));
		stat = stat_of(addr);
		if (stat.reason[0])
			break;
		madvise(addr, size, MADV_DONTNEED);
		usleep(10000);
	}
	if (!stat.reason[0]) {
		print_message("skipped: there is no monitor thread here\n");
		ok(hugemap_unmap(addr, size));
		file_close(&file);
		skip();
	}
	assert_int_not_equal(stat.accessed_bytes, 0);
	assert_string_not_equal(stat.pattern, "");
	ok(hugemap_unmap(addr, size));
	file_close(&file);
}

static void test_errno_does_not_change(void **state)
{
	struct file file;
	char *addr;

	file_pattern(&file, BLOCK, SEED);
	errno = 77;
	addr = hugemap_map(file.fd, 0, 0, BOTH, 0);
	ok(hugemap_error(addr));
	assert_int_equal(hugemap_error(hugemap_map(-1, 0, 0, BOTH, 0)), -EBADF);
	assert_int_equal(hugemap_sync(NULL, PAGE, MS_SYNC), -EINVAL);
	ok(hugemap_prefetch(addr, BLOCK));
	stat_of(addr);
	ok(hugemap_unmap(addr, BLOCK));
	assert_int_equal(errno, 77);
	file_close(&file);
}

/* Programs that were built for an older or a newer library. */
static void test_stat_of_another_version(void **state)
{
	struct {
		struct hugemap_stat stat;
		uint64_t unknown;
	} newer = { .stat.size = sizeof(newer), .unknown = 5 };
	struct {
		size_t size;
		enum hugemap_engine engine;
		char pattern[16];
	} older = { .size = sizeof(older) };
	struct hugemap_stat none = { 0 };
	struct file file;
	unsigned int tries;
	char *addr;

	file_pattern(&file, BLOCK, SEED);
	addr = map_range(&file, 0, 0, PROT_READ, 0);
	older.engine = (enum hugemap_engine)99;
	/* The monitor may not know yet that an older mapping at this address has ended. */
	for (tries = 0; tries < 20000 && strcmp(older.pattern, "unknown"); tries++) {
		ok(hugemap_stat(addr, (struct hugemap_stat *)&older));
		usleep(1000);
	}
	assert_int_equal(older.engine, HUGEMAP_ENGINE_STEER);
	assert_int_equal(older.size, sizeof(older));
	assert_string_equal(older.pattern, "unknown");
	ok(hugemap_stat(addr, &newer.stat));
	assert_int_equal(newer.unknown, 0);
	assert_int_equal(newer.stat.mapped_bytes, BLOCK);
	assert_int_equal(hugemap_stat(addr, &none), -EINVAL);
	ok(hugemap_unmap(addr, BLOCK));
	file_close(&file);
}

static void test_every_error_has_a_sentence(void **state)
{
	assert_string_equal(hugemap_strerror(0), "success");
	assert_string_equal(hugemap_strerror(-EACCES), hugemap_strerror(EACCES));
	assert_string_not_equal(hugemap_strerror(12345), "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_map_keeps_the_alignment_to_the_file),
		cmocka_unit_test(test_mapping_and_system_calls_agree),
		cmocka_unit_test(test_child_shares_the_mapping),
		cmocka_unit_test(test_private_mapping_keeps_its_stores),
		cmocka_unit_test(test_map_refuses_bad_arguments),
		cmocka_unit_test(test_ranges_are_checked),
		cmocka_unit_test(test_stat_counts_what_is_mapped),
		cmocka_unit_test(test_prefetch_ends_with_the_file),
		cmocka_unit_test(test_prefetch_of_two_mappings),
		cmocka_unit_test(test_prefetch_without_populate),
		cmocka_unit_test(test_remap_moves_and_keeps_the_alignment),
		cmocka_unit_test(test_remap_of_a_mapping_with_advised_parts),
		cmocka_unit_test(test_stat_explains_steering),
		cmocka_unit_test(test_errno_does_not_change),
		cmocka_unit_test(test_stat_of_another_version),
		cmocka_unit_test(test_every_error_has_a_sentence),
	};

	return RUN(tests);
}
