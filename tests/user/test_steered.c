// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Mappings without a pool: what mmap(2) promises holds, and all calls work on them. */
#include "common.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define SEED 17
#define BOTH (PROT_READ | PROT_WRITE)

static char *map_plain(const struct file *file, off_t offset, size_t length, int prot, int flags)
{
	char *addr = hugemap_map(file->fd, offset, length, prot, flags, NULL);

	ok(hugemap_error(addr));
	assert_int_equal(((uintptr_t)addr - (uintptr_t)offset) % BLOCK, 0);
	return addr;
}

static void test_any_offset_and_length(void **state)
{
	size_t size = 3 * BLOCK + 777, i;
	uint64_t random = 42;
	struct file file;

	file_pattern(&file, size, SEED);
	for (i = 0; i < 60; i++) {
		size_t offset = next_random(&random) % size / PAGE * PAGE;
		size_t length = next_random(&random) % (size - offset) + 1;
		char *addr = map_plain(&file, (off_t)offset, length, PROT_READ, 0);

		assert_int_equal(pattern_differs(addr, SEED, offset, length), length);
		ok(hugemap_unmap(addr, length));
		assert_int_equal(signal_of_read(addr, NULL), SIGSEGV);
	}
	file_close(&file);
}

/* Every way to see or change the file agrees, at once. */
static void test_plain_calls_agree_with_it(void **state)
{
	struct file file;
	char *addr, byte;

	file_pattern(&file, 2 * BLOCK, SEED);
	addr = map_plain(&file, 0, 0, BOTH, 0);
	assert_int_equal(pwrite(file.fd, "w", 1, MB(1)), 1);
	assert_int_equal(addr[MB(1)], 'w');
	addr[MB(3)] = 's';
	assert_int_equal(pread(file.fd, &byte, 1, MB(3)), 1);
	assert_int_equal(byte, 's');
	assert_int_equal(ftruncate(file.fd, (off_t)(BLOCK + 100)), 0);
	assert_int_equal(signal_of_read(addr + BLOCK + PAGE, NULL), SIGBUS);
	assert_int_equal(ftruncate(file.fd, 2 * BLOCK), 0);
	assert_int_equal(addr[BLOCK + PAGE], 0);
	ok(hugemap_unmap(addr, 2 * BLOCK));
	file_close(&file);
}

static void store_in_child(void *arg)
{
	char *addr = arg;
	struct hugemap_stat stat = { .size = sizeof(stat) };

	must(addr[5] == 'p');
	addr[BLOCK] = 'c';
	must(!hugemap_stat(addr, &stat) && stat.engine == HUGEMAP_ENGINE_STEER);
	must(!hugemap_sync(addr, 2 * BLOCK, MS_SYNC));
	must(!hugemap_unmap(addr, 2 * BLOCK));
}

static void test_a_child_shares_it(void **state)
{
	struct file file;
	char *addr;

	file_pattern(&file, 2 * BLOCK, SEED);
	addr = map_plain(&file, 0, 0, BOTH, 0);
	addr[5] = 'p';
	assert_int_equal(status_of_child(store_in_child, addr), 0);
	assert_int_equal(addr[BLOCK], 'c');
	ok(hugemap_unmap(addr, 2 * BLOCK));
	file_close(&file);
}

static void test_a_private_copy(void **state)
{
	struct file file;
	char *addr;

	file_pattern(&file, 2 * BLOCK, SEED);
	addr = map_plain(&file, 0, 0, BOTH, HUGEMAP_PRIVATE);
	addr[7] = 'x';
	ok(hugemap_sync(addr, 2 * BLOCK, MS_SYNC));
	/* Advice takes nothing away. */
	ok(hugemap_advise(addr, 2 * BLOCK, HUGEMAP_ADVICE_DONTNEED));
	assert_int_equal(addr[7], 'x');
	ok(hugemap_unmap(addr, 2 * BLOCK));
	addr = map_plain(&file, 0, 0, PROT_READ, 0);
	assert_int_equal(pattern_differs(addr, SEED, 0, 2 * BLOCK), 2 * BLOCK);
	ok(hugemap_unmap(addr, 2 * BLOCK));
	file_close(&file);
}

static void test_all_calls_work(void **state)
{
	struct hugemap_map_stat one = { .size = sizeof(one) };
	size_t size = 3 * BLOCK + 100;
	struct hugemap_stat stat;
	struct file file;
	char *addr, bytes[4];
	int advice;

	file_pattern(&file, size, SEED);
	addr = map_plain(&file, 0, 0, BOTH, 0);
	ok(hugemap_prefetch(addr, size));
	stat = stat_of(addr);
	assert_int_equal(stat.engine, HUGEMAP_ENGINE_STEER);
	assert_int_equal(stat.mapped_bytes, 3 * BLOCK + PAGE);
	assert_int_equal(stat.resident_bytes, 3 * BLOCK + PAGE);
	assert_int_equal(stat.huge_pages * BLOCK + stat.base_pages * PAGE, 3 * BLOCK + PAGE);
	for (advice = 0; advice <= HUGEMAP_ADVICE_PRIORITY_LOW; advice++)
		ok(hugemap_advise(addr + 5, size - 5, (enum hugemap_advice)advice));
	assert_int_equal(hugemap_advise(addr, size, (enum hugemap_advice)99), -EINVAL);
	addr[9] = 'a';
	assert_true(stat_of(addr).dirty_bytes >= PAGE);
	ok(hugemap_sync(addr, size, MS_ASYNC));
	ok(hugemap_sync(addr, size, MS_SYNC));
	assert_int_equal(stat_of(addr).dirty_bytes, 0);
	assert_int_equal(hugemap_sync(addr, size, MS_SYNC | MS_ASYNC), -EINVAL);
	assert_int_equal(hugemap_pread(file.fd, bytes, 3, 8), 3);
	assert_int_equal(bytes[1], 'a');
	assert_int_equal(hugemap_pwrite(file.fd, "bcd", 3, MB(3)), 3);
	assert_memory_equal(addr + MB(3), "bcd", 3);
	ok(hugemap_flush(file.fd, 0, 0));
	ok(hugemap_punch(file.fd, BLOCK, BLOCK));
	assert_int_equal(addr[MB(3)], 0);
	ok(hugemap_truncate(file.fd, BLOCK));
	assert_int_equal(signal_of_read(addr + BLOCK, NULL), SIGBUS);
	ok(hugemap_prefetch(addr, size)); /* as much as there is */
	ok(hugemap_prefetch(addr + 2 * BLOCK, BLOCK));
	assert_int_equal(hugemap_map_stat(addr, &one), -EINVAL);
	ok(hugemap_unmap(addr, size));
	assert_int_equal(hugemap_unmap(addr, size), -EINVAL);
	assert_int_equal(hugemap_stat(addr, &stat), -EINVAL);
	file_close(&file);
}

/* A kernel from before 5.14, as far as a program can tell. */
static void prefetch_in_an_old_kernel(void *arg)
{
	struct file *file = arg;
	char *addr = hugemap_map(file->fd, 0, 3 * BLOCK, PROT_READ, 0, NULL);
	struct hugemap_stat stat = { .size = sizeof(stat) };

	must(!hugemap_error(addr));
	forbid(SYS_madvise, 2, 22 /* MADV_POPULATE_READ */, EINVAL);
	must(!hugemap_prefetch(addr + PAGE, 3 * BLOCK - PAGE));
	must(!hugemap_stat(addr, &stat));
	must(stat.resident_bytes >= BLOCK + PAGE && stat.resident_bytes <= BLOCK + 2 * PAGE);
	must(!ftruncate(file->fd, 100) && !hugemap_prefetch(addr, 3 * BLOCK));
}

static void test_prefetch_in_an_old_kernel(void **state)
{
	struct file file;

	file_pattern(&file, BLOCK + PAGE + 5, SEED);
	assert_int_equal(status_of_child(prefetch_in_an_old_kernel, &file), 0);
	file_close(&file);
}

static void test_parts_go_one_by_one(void **state)
{
	struct file file;
	char *addr;

	file_pattern(&file, 3 * BLOCK, SEED);
	addr = map_plain(&file, 0, 0, BOTH, 0);
	ok(hugemap_unmap(addr + BLOCK + 5 * PAGE, 7 * PAGE)); /* a hole inside */
	assert_int_equal(signal_of_read(addr + BLOCK + 5 * PAGE, NULL), SIGSEGV);
	assert_int_equal(stat_of(addr).mapped_bytes, BLOCK + 5 * PAGE);
	assert_int_equal(stat_of(addr + 2 * BLOCK).mapped_bytes, 2 * BLOCK - 12 * PAGE);
	addr[BLOCK + 5 * PAGE - 1] = 'a';
	addr[BLOCK + 12 * PAGE] = 'b';
	ok(hugemap_unmap(addr, 3 * BLOCK)); /* all that is left */
	assert_int_equal(signal_of_read(addr, NULL), SIGSEGV);
	assert_int_equal(signal_of_read(addr + 2 * BLOCK, NULL), SIGSEGV);
	file_close(&file);
}

static void test_it_grows_and_shrinks(void **state)
{
	char *addr, *longer, *wall;
	struct file file;

	file_pattern(&file, 5 * BLOCK, SEED);
	addr = map_plain(&file, 0, 2 * BLOCK, BOTH, 0);
	addr[9] = 'x';
	/* Something is in the way: it moves, and lies to the file as before. */
	wall = mmap(addr + 2 * BLOCK, PAGE, PROT_NONE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	assert_int_equal(hugemap_error(hugemap_remap(addr + PAGE, PAGE, BLOCK)), -EINVAL);
	longer = hugemap_remap(addr, 2 * BLOCK, 5 * BLOCK);
	ok(hugemap_error(longer));
	assert_ptr_not_equal(longer, addr);
	assert_int_equal((uintptr_t)longer % BLOCK, 0);
	assert_int_equal(longer[9], 'x');
	assert_int_equal((unsigned char)longer[4 * BLOCK], pattern_byte(SEED, 4 * BLOCK));
	assert_int_equal(hugemap_unmap(addr, PAGE), -EINVAL);
	assert_ptr_equal(hugemap_remap(longer, 5 * BLOCK, 3 * PAGE), longer);
	assert_int_equal(signal_of_read(longer + 3 * PAGE, NULL), SIGSEGV);
	ok(hugemap_unmap(longer, 3 * PAGE));
	if (wall != MAP_FAILED)
		munmap(wall, PAGE);
	file_close(&file);
}

/* Areas that the kernel has for a mapping. */
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

/* Broken by: an mremap() that takes one area only, where the watcher has advised a part. */
static void test_it_grows_with_advice_for_a_part(void **state)
{
	size_t size = MB(64), i, n;
	char *addr, *longer;
	struct file file;

	file_pattern(&file, size, SEED);
	addr = map_plain(&file, 0, 0, PROT_READ, 0);
	/* It advises what lies before a stream. */
	for (n = 0; n < 2000 && areas_of(addr, size) < 2; n++) {
		if (n % 20 == 0)
			madvise(addr, size, MADV_DONTNEED);
		for (i = n % 20 * (MB(1) / 8); i < (n % 20 + 1) * (MB(1) / 8); i += PAGE)
			assert_int_equal((unsigned char)addr[i], pattern_byte(SEED, i));
		usleep(1000);
	}
	if (areas_of(addr, size) < 2) {
		print_message("skipped: nothing is advised here\n");
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

static void test_many(void **state)
{
	char *at[200];
	struct file file;
	size_t i;

	file_pattern(&file, BLOCK, SEED);
	for (i = 0; i < 200; i++)
		at[i] = map_plain(&file, (off_t)(i * PAGE), PAGE, PROT_READ, 0);
	for (i = 0; i < 200; i++)
		ok(hugemap_unmap(at[i * 77 % 200], PAGE));
	for (i = 0; i < 200; i++)
		assert_int_equal(hugemap_unmap(at[i], PAGE), -EINVAL);
	file_close(&file);
}

/* errno is the program's, whatever a call comes upon. */
static void test_errno_is_left_alone(void **state)
{
	struct file file;
	char *addr;

	file_pattern(&file, BLOCK, SEED);
	errno = 77;
	addr = hugemap_map(file.fd, 0, 0, BOTH, 0, NULL);
	ok(hugemap_error(addr));
	assert_int_equal(hugemap_error(hugemap_map(-1, 0, 0, BOTH, 0, NULL)), -EBADF);
	assert_int_equal(hugemap_truncate(-1, 5), -EBADF);
	assert_int_equal(hugemap_pread(-1, addr, 5, 0), -EBADF);
	ok(hugemap_prefetch(addr, BLOCK));
	stat_of(addr);
	ok(hugemap_unmap(addr, BLOCK));
	assert_int_equal(errno, 77);
	file_close(&file);
}

/* Programs that were built for another version of the library, as clone3(2) has it. */
static void test_sizes_of_structures(void **state)
{
	struct {
		struct hugemap_options options;
		uint64_t unknown;
	} newer = { .options.size = sizeof(newer) };
	struct hugemap_options none = { 0 };
	struct {
		size_t size;
		enum hugemap_engine engine;
		char reason[16];
	} older = { .size = sizeof(older) };
	struct file file;
	char *addr;

	file_pattern(&file, BLOCK, SEED);
	assert_int_equal(hugemap_error(hugemap_map(file.fd, 0, 0, PROT_READ, 0, &none)), -EINVAL);
	newer.unknown = 1;
	assert_int_equal(hugemap_error(hugemap_map(file.fd, 0, 0, PROT_READ, 0, &newer.options)),
			 -E2BIG);
	newer.unknown = 0;
	addr = hugemap_map(file.fd, 0, 0, PROT_READ, 0, &newer.options);
	ok(hugemap_error(addr));
	older.engine = (enum hugemap_engine)99;
	ok(hugemap_stat(addr, (struct hugemap_stat *)&older));
	assert_int_equal(older.engine, HUGEMAP_ENGINE_STEER);
	assert_int_equal(older.size, sizeof(older));
	ok(hugemap_unmap(addr, BLOCK));
	file_close(&file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_any_offset_and_length),
		cmocka_unit_test(test_plain_calls_agree_with_it),
		cmocka_unit_test(test_a_child_shares_it),
		cmocka_unit_test(test_a_private_copy),
		cmocka_unit_test(test_all_calls_work),
		cmocka_unit_test(test_prefetch_in_an_old_kernel),
		cmocka_unit_test(test_parts_go_one_by_one),
		cmocka_unit_test(test_it_grows_and_shrinks),
		cmocka_unit_test(test_it_grows_with_advice_for_a_part),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_errno_is_left_alone),
		cmocka_unit_test(test_sizes_of_structures),
	};

	return RUN_ANYWHERE(tests);
}
