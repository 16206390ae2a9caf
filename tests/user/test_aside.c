// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * What `hugemap run` asks of the library: to give a file over to the kernel
 * while it is used, to write what others are about to read, to make a mapping
 * longer, and numbers of a single mapping.
 */
#include "common.h"

#include <pthread.h>
#include <stdatomic.h>

#define SEED 5

/* Which bytes of memory differ from the file as the kernel sees it? */
static void same_as_file(const char *addr, const struct file *file)
{
	size_t size;
	unsigned char *bytes = file_read(file, &size);

	assert_memory_equal(addr, bytes, size);
	free(bytes);
}

static char *map_with(const struct file *file, struct hugemap_pool *pool, int flags)
{
	struct hugemap_options options = {
		.size = sizeof(options),
		.pool = pool,
		.engine = HUGEMAP_ENGINE_USER,
	};
	char *addr = hugemap_map(file->fd, 0, 0, PROT_READ | PROT_WRITE, flags, &options);

	ok(hugemap_error(addr));
	return addr;
}

/* Is an address in a mapping of the user-space engine? */
static bool is_ours(const void *addr)
{
	struct hugemap_map_stat stat = { .size = sizeof(stat) };

	return !hugemap_map_stat(addr, &stat);
}

struct storer {
	atomic_bool stop;
	_Atomic uint64_t *word;
	uint64_t stored;
};

static void *store_all_the_time(void *arg)
{
	struct storer *storer = arg;

	do
		atomic_store(storer->word, ++storer->stored);
	while (!atomic_load(&storer->stop));
	return NULL;
}

/* Broken by: not waiting for stores between the last write and the replacement. */
static void test_no_store_is_lost_when_it_steps_aside(void **state)
{
	struct hugemap_pool *pool = pool_new(MB(16));
	uint64_t in_file;
	struct file file;
	unsigned int i;

	file_pattern(&file, 3 * BLOCK + 100, SEED);
	for (i = 0; i < 20; i++) {
		char *addr = map_with(&file, pool, HUGEMAP_HANDOVER);
		struct storer storer = { .word = (void *)(addr + BLOCK) };
		pthread_t thread;

		addr[5] = (char)i;
		assert_int_equal(pthread_create(&thread, NULL, store_all_the_time, &storer), 0);
		usleep(500 * (i % 5));
		ok(hugemap_step_aside(file.fd, "a test"));
		assert_false(is_ours(addr));
		assert_int_equal(addr[5], (char)i);
		usleep(200);
		atomic_store(&storer.stop, true);
		pthread_join(thread, NULL);
		assert_int_equal(pread(file.fd, &in_file, 8, BLOCK), 8);
		assert_int_equal(in_file, storer.stored);
		same_as_file(addr, &file);
		/* The kernel's: what the file gets is seen at once. */
		assert_int_equal(pwrite(file.fd, "x", 1, 7), 1);
		assert_int_equal(addr[7], 'x');
		assert_int_equal(munmap(addr, file_length(&file)), 0);
	}
	pool_free(pool);
	file_close(&file);
}

/* Broken by: leaving a mapping that was handed over in the library's list. */
static void test_what_was_handed_over_is_forgotten(void **state)
{
	struct hugemap_stat stat = { .size = sizeof(stat) };
	struct hugemap_pool *pool = pool_new(MB(16));
	struct file file;
	char *addr;

	file_pattern(&file, BLOCK, SEED);
	addr = map_with(&file, pool, HUGEMAP_HANDOVER);
	ok(hugemap_step_aside(file.fd, "a test"));
	assert_int_equal(hugemap_stat(addr, &stat), -EINVAL);
	assert_int_equal(munmap(addr, BLOCK), 0);
	addr = map_with(&file, pool, 0);
	ok(hugemap_step_aside(file.fd, "another test"));
	ok(hugemap_stat(addr, &stat));
	assert_int_equal(stat.engine, HUGEMAP_ENGINE_MMAP);
	assert_string_equal(stat.reason, "another test");
	ok(hugemap_unmap(addr, BLOCK));
	ok(hugemap_step_aside(file.fd, "nothing to do"));
	pool_free(pool);
	file_close(&file);
}

static void test_a_flush_shows_stores_to_others(void **state)
{
	struct hugemap_pool *pool = pool_new(MB(16));
	struct file file;
	char *addr, byte;

	file_pattern(&file, 3 * BLOCK, SEED);
	addr = map_with(&file, pool, 0);
	addr[100] = 'a';
	addr[2 * BLOCK + 1] = 'b';
	ok(hugemap_flush(file.fd, 100, 1));
	assert_int_equal(pread(file.fd, &byte, 1, 100), 1);
	assert_int_equal(byte, 'a');
	ok(hugemap_flush(file.fd, 0, 0));
	assert_int_equal(pread(file.fd, &byte, 1, 2 * BLOCK + 1), 1);
	assert_int_equal(byte, 'b');
	assert_int_equal(hugemap_flush(file.fd, -1, 0), -EINVAL);
	ok(hugemap_unmap(addr, 3 * BLOCK));
	pool_free(pool);
	file_close(&file);
}

static void test_a_mapping_grows_and_shrinks(void **state)
{
	struct hugemap_pool *pool = pool_new(MB(16));
	char *addr, *longer;
	struct file file;
	size_t size;

	file_pattern(&file, 4 * BLOCK, SEED);
	addr = map_with(&file, pool, 0);
	ok(hugemap_unmap(addr + BLOCK, 3 * BLOCK));
	addr[9] = 'x';
	assert_int_equal(hugemap_error(hugemap_remap(addr + PAGE, PAGE, BLOCK)), -EINVAL);
	assert_int_equal(hugemap_error(hugemap_remap(addr, BLOCK, 0)), -EINVAL);
	longer = hugemap_remap(addr, BLOCK, 4 * BLOCK);
	ok(hugemap_error(longer));
	assert_int_equal(longer[9], 'x');
	assert_int_equal((unsigned char)longer[3 * BLOCK + 3], pattern_byte(SEED, 3 * BLOCK + 3));
	assert_false(is_ours(addr));
	longer[3 * BLOCK] = 'y';
	assert_ptr_equal(hugemap_remap(longer, 4 * BLOCK, 3 * PAGE), longer);
	assert_false(is_ours(longer + 3 * PAGE));
	assert_int_equal(longer[9], 'x');
	ok(hugemap_unmap(longer, 3 * PAGE));
	longer = (char *)file_read(&file, &size);
	assert_int_equal(longer[9], 'x');
	assert_int_equal(longer[3 * BLOCK], 'y');
	free(longer);
	pool_free(pool);
	file_close(&file);
}

/* Broken by: asking the kernel by the caller's descriptor. */
static void test_descriptors_that_append_or_are_direct(void **state)
{
	struct hugemap_pool *pool = pool_new(MB(16));
	struct file file;
	int append, direct;
	char *addr, bytes[10];

	file_pattern(&file, 2 * BLOCK, SEED);
	append = open(file.path, O_WRONLY | O_APPEND);
	direct = open(file.path, O_RDWR | O_DIRECT);
	assert_true(append >= 0 && direct >= 0);
	addr = map_with(&file, pool, 0);
	assert_int_equal(hugemap_pwrite(append, "here", 4, 77), 4);
	assert_int_equal(file_length(&file), 2 * BLOCK);
	assert_memory_equal(addr + 77, "here", 4);
	assert_int_equal(hugemap_pread(direct, bytes, 3, BLOCK + 5), 3);
	assert_int_equal((unsigned char)bytes[0], pattern_byte(SEED, BLOCK + 5));
	assert_int_equal(hugemap_pwrite(direct, "odd", 3, BLOCK + 9), 3);
	assert_memory_equal(addr + BLOCK + 9, "odd", 3);
	assert_int_equal(hugemap_pread(append, bytes, 3, 0), -EBADF);
	ok(hugemap_unmap(addr, 2 * BLOCK));
	close(append);
	close(direct);
	pool_free(pool);
	file_close(&file);
}

/* Broken by: mapping a unit of 2 MB where a mapping has lost a part of the block. */
static void test_a_part_of_a_block_that_is_cached_whole(void **state)
{
	struct hugemap_pool *pool = pool_new(MB(16));
	char *whole, *part;
	struct file file;

	file_pattern(&file, 3 * BLOCK, SEED);
	whole = map_with(&file, pool, 0);
	part = map_with(&file, pool, 0);
	ok(hugemap_unmap(part + BLOCK + 4 * PAGE, BLOCK - 4 * PAGE));
	whole[BLOCK + 3] = 'x'; /* cached, and dirty, in one piece */
	assert_int_equal(part[BLOCK + 3], 'x');
	part[BLOCK + 4] = 'y';
	assert_int_equal(whole[BLOCK + 4], 'y');
	assert_int_equal((unsigned char)whole[BLOCK + MB(1)], pattern_byte(SEED, BLOCK + MB(1)));
	ok(hugemap_unmap(part, BLOCK));
	ok(hugemap_unmap(part + BLOCK, 4 * PAGE));
	ok(hugemap_unmap(part + 2 * BLOCK, BLOCK));
	ok(hugemap_unmap(whole, 3 * BLOCK));
	pool_free(pool);
	file_close(&file);
}

static void test_a_mapping_counts_its_own_faults(void **state)
{
	struct hugemap_map_stat stat = { .size = sizeof(stat) }, other = stat, wrong = {};
	struct hugemap_pool *pool = pool_new(MB(32));
	struct file file, second;
	char *addr, *untouched;

	file_pattern(&file, 4 * BLOCK, SEED);
	file_pattern(&second, BLOCK, SEED);
	addr = map_with(&file, pool, 0);
	untouched = map_with(&second, pool, 0);
	*(volatile char *)addr;
	addr[0] = 1;
	/* The last fault is counted after its thread is woken. */
	eventually(!hugemap_map_stat(addr, &stat) && stat.faults >= 2);
	assert_int_equal(stat.bytes, 4 * BLOCK);
	assert_true(stat.hits >= 1 && stat.hits < stat.faults);
	assert_true(stat.wait_ns > 0);
	ok(hugemap_map_stat(untouched, &other));
	assert_int_equal(other.faults, 0);
	assert_int_equal(hugemap_map_stat(addr, &wrong), -EINVAL);
	assert_int_equal(hugemap_map_stat(&stat, &stat), -EINVAL);
	ok(hugemap_unmap(addr, 4 * BLOCK));
	ok(hugemap_unmap(untouched, BLOCK));
	pool_free(pool);
	file_close(&file);
	file_close(&second);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_store_is_lost_when_it_steps_aside),
		cmocka_unit_test(test_what_was_handed_over_is_forgotten),
		cmocka_unit_test(test_a_flush_shows_stores_to_others),
		cmocka_unit_test(test_a_mapping_grows_and_shrinks),
		cmocka_unit_test(test_descriptors_that_append_or_are_direct),
		cmocka_unit_test(test_a_part_of_a_block_that_is_cached_whole),
		cmocka_unit_test(test_a_mapping_counts_its_own_faults),
	};

	return RUN(tests);
}
