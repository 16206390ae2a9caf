// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Files that grow, shrink and get holes under their mappings. */
#include "common.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <linux/fs.h>

#define SEED 4

static void test_growing(void **state)
{
	struct hugemap_pool *pool = pool_new(MB(32));
	size_t p, at;

	for (p = 0; p < 2; p++) {
		struct file file;
		char *addr;

		file_pattern(&file, 3 * PAGE + 100, SEED);
		addr = map_range(&file, 0, 4 * BLOCK, pool, PROT_READ | PROT_WRITE);
		addr[0] = 'a';
		assert_int_equal(signal_of_read(addr + 5 * PAGE, NULL), SIGBUS);
		assert_int_equal(signal_of_read(addr + BLOCK, NULL), SIGBUS);
		/* stored behind the end, in the last page: must not appear */
		addr[3 * PAGE + 200] = 'x';
		ok(hugemap_truncate(file.fd, 3 * BLOCK + 50));
		assert_int_equal(addr[3 * PAGE + 200], 0);
		assert_int_equal(addr[5 * PAGE], 0);
		assert_int_equal(addr[BLOCK], 0);
		assert_int_equal(addr[3 * BLOCK + 49], 0);
		assert_int_equal(signal_of_read(addr + 3 * BLOCK + PAGE, NULL), SIGBUS);
		assert_int_equal(addr[0], 'a');
		addr[2 * BLOCK + 7] = 'b';
		ok(hugemap_sync(addr, 4 * BLOCK, MS_SYNC));
		assert_int_equal(file_length(&file), 3 * BLOCK + 50);

		ok(hugemap_truncate(file.fd, 4 * BLOCK));
		for (at = 3 * BLOCK + 50; at < 4 * BLOCK; at += 777)
			assert_int_equal(addr[at], 0);
		addr[4 * BLOCK - 1] = 'c';
		ok(hugemap_unmap(addr, 4 * BLOCK));
		assert_int_equal(file_length(&file), 4 * BLOCK);
		file_close(&file);
	}
	pool_free(pool);
}

static void test_appending_by_write(void **state)
{
	struct hugemap_pool *pool = pool_new(MB(32));
	size_t p, at, size = 0;
	char line[777];

	for (p = 0; p < 2; p++) {
		struct file file;
		char *addr;

		file_new(&file, 0);
		addr = map_range(&file, 0, MB(8), pool, PROT_READ | PROT_WRITE);
		for (size = 0; size + sizeof(line) < MB(5); size += sizeof(line)) {
			pattern_fill(line, SEED, size, sizeof(line));
			assert_int_equal(hugemap_pwrite(file.fd, line, sizeof(line), (off_t)size),
					 sizeof(line));
			if (size % 5 == 0)
				assert_int_equal((unsigned char)addr[size + 776],
						 pattern_byte(SEED, size + 776));
		}
		assert_int_equal(pattern_differs(addr, SEED, 0, size), size);
		at = (size + PAGE) & ~(PAGE - 1);
		assert_int_equal(signal_of_read(addr + at, NULL), SIGBUS);
		ok(hugemap_unmap(addr, MB(8)));
		file_close(&file);
	}
	pool_free(pool);
}

static void test_shrinking(void **state)
{
	struct hugemap_pool *pool = pool_new(MB(32));
	size_t p, n;

	for (p = 0; p < 2; p++) {
		unsigned char *now;
		struct file file;
		char *addr;

		file_pattern(&file, 6 * BLOCK, SEED);
		addr = map_file(&file, pool, PROT_READ | PROT_WRITE);
		memset(addr, 'a', 6 * BLOCK);
		/* in the middle of a block that is cached as a whole */
		ok(hugemap_truncate(file.fd, 3 * BLOCK + 9 * PAGE + 10));
		assert_int_equal(file_length(&file), 3 * BLOCK + 9 * PAGE + 10);
		assert_int_equal(signal_of_read(addr + 3 * BLOCK + 10 * PAGE, NULL), SIGBUS);
		assert_int_equal(signal_of_write(addr + 5 * BLOCK, NULL), SIGBUS);
		assert_int_equal(addr[3 * BLOCK + 9 * PAGE + 9], 'a');
		assert_int_equal(addr[3 * BLOCK + 9 * PAGE + 10], 0);
		ok(hugemap_sync(addr, 6 * BLOCK, MS_SYNC));
		assert_int_equal(file_length(&file), 3 * BLOCK + 9 * PAGE + 10);
		/* What was cut off must not come back. */
		ok(hugemap_truncate(file.fd, 6 * BLOCK));
		assert_int_equal(addr[4 * BLOCK], 0);
		assert_int_equal(addr[3 * BLOCK + 10 * PAGE], 0);
		addr[4 * BLOCK] = 'b';
		ok(hugemap_truncate(file.fd, 0));
		assert_int_equal(signal_of_read(addr, NULL), SIGBUS);
		ok(hugemap_truncate(file.fd, BLOCK));
		assert_int_equal(addr[5], 0);
		ok(hugemap_unmap(addr, 6 * BLOCK));
		now = file_read(&file, &n);
		assert_int_equal(n, BLOCK);
		while (n--)
			assert_int_equal(now[n], 0);
		free(now);
		file_close(&file);
	}
	pool_free(pool);
}

/* Broken by: dropping what is cached before the system call has succeeded. */
static void test_a_call_that_fails_changes_nothing(void **state)
{
	struct hugemap_pool *pool = pool_new(MB(32));
	size_t size = 4 * BLOCK + 99;
	int read_only, attributes;
	struct file file;
	char *addr;

	file_pattern(&file, size, SEED);
	read_only = open(file.path, O_RDONLY);
	addr = map_file(&file, pool, PROT_READ | PROT_WRITE);
	pattern_fill(addr, SEED + 1, 0, size);
	assert_int_equal(hugemap_truncate(read_only, 0), -EINVAL);
	assert_int_equal(hugemap_truncate(read_only, BLOCK + 5), -EINVAL);
	assert_int_equal(hugemap_punch(read_only, 0, (off_t)size), -EBADF);
	assert_int_equal(hugemap_punch(read_only, 5, BLOCK), -EBADF);
	if (!ioctl(file.fd, FS_IOC_GETFLAGS, &attributes)) {
		int append = attributes | FS_APPEND_FL;

		if (!ioctl(file.fd, FS_IOC_SETFLAGS, &append)) {
			assert_true(hugemap_truncate(file.fd, BLOCK) < 0);
			assert_true(hugemap_punch(file.fd, 0, BLOCK) < 0);
			ioctl(file.fd, FS_IOC_SETFLAGS, &attributes);
		}
	}
	assert_int_equal(pattern_differs(addr, SEED + 1, 0, size), size);
	ok(hugemap_sync(addr, size, MS_SYNC));
	assert_int_equal(pattern_differs(addr, SEED + 1, 0, size), size);
	ok(hugemap_unmap(addr, size));
	addr = map_file(&file, pool, PROT_READ);
	assert_int_equal(pattern_differs(addr, SEED + 1, 0, size), size);
	ok(hugemap_unmap(addr, size));
	close(read_only);
	file_close(&file);
	pool_free(pool);
}

static void test_punching(void **state)
{
	struct hugemap_pool *pool = pool_new(MB(32));
	uint64_t random = 8;
	size_t p, i, n;

	for (p = 0; p < 2; p++) {
		size_t size = 5 * BLOCK + 300;
		unsigned char *model = malloc(size), *now;
		struct file file;
		char *addr;

		file_pattern(&file, size, SEED);
		pattern_fill(model, SEED, 0, size);
		addr = map_file(&file, pool, PROT_READ | PROT_WRITE);
		for (i = 0; i < 40; i++) {
			size_t at = next_random(&random) % size;
			size_t length = next_random(&random) % (i % 2 ? 3 * PAGE : 3 * BLOCK) + 1;
			size_t store = next_random(&random) % size;

			addr[store] = (char)i;
			model[store] = (unsigned char)i;
			ok(hugemap_punch(file.fd, (off_t)at, (off_t)length));
			memset(model + at, 0, length < size - at ? length : size - at);
			assert_memory_equal(addr, model, size);
		}
		ok(hugemap_unmap(addr, size));
		now = file_read(&file, &n);
		assert_int_equal(n, size);
		assert_memory_equal(now, model, n);
		free(now);
		free(model);
		file_close(&file);
	}
	pool_free(pool);
}

struct stores {
	_Atomic uint64_t *words;
	size_t n;
	atomic_bool stop;
	uint64_t last;
};

static void *store_all_the_time(void *arg)
{
	struct stores *stores = arg;

	while (!atomic_load(&stores->stop)) {
		size_t i;

		stores->last++;
		for (i = 0; i < stores->n; i += 512)
			stores->words[i] = stores->last;
	}
	return NULL;
}

/* A thread stores below the part that comes and goes, and loses nothing. */
static void test_stores_while_resizing(void **state)
{
	struct hugemap_pool *pool = pool_new(MB(32));
	struct stores stores = { .n = (BLOCK + 5 * PAGE) / 8 };
	struct file file;
	pthread_t thread;
	size_t i;
	char *addr;

	file_new(&file, 4 * BLOCK);
	addr = map_file(&file, pool, PROT_READ | PROT_WRITE);
	stores.words = (_Atomic uint64_t *)addr;
	assert_int_equal(pthread_create(&thread, NULL, store_all_the_time, &stores), 0);
	for (i = 0; i < 30; i++) {
		ok(hugemap_truncate(file.fd, (off_t)(BLOCK + 5 * PAGE + i * 100)));
		ok(hugemap_truncate(file.fd, 4 * BLOCK));
		ok(hugemap_punch(file.fd, BLOCK + 6 * PAGE, BLOCK));
		memset(addr + 2 * BLOCK, 'x', BLOCK);
	}
	atomic_store(&stores.stop, true);
	pthread_join(thread, NULL);
	for (i = 0; i < stores.n; i += 512)
		assert_int_equal(stores.words[i], stores.last);
	ok(hugemap_unmap(addr, 4 * BLOCK));
	file_close(&file);
	pool_free(pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_growing),
		cmocka_unit_test(test_appending_by_write),
		cmocka_unit_test(test_shrinking),
		cmocka_unit_test(test_a_call_that_fails_changes_nothing),
		cmocka_unit_test(test_punching),
		cmocka_unit_test(test_stores_while_resizing),
	};

	return RUN(tests);
}
