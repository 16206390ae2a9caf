// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Devices that fail: reads and writes that end in errors or come back short.
 * Most are injected where the engine gets its results; a full file system is a
 * real one (tmpfs), for those who may mount it.
 */
#include "common.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mount.h>

#include "io.h"

#define SEED 5

/* What goes wrong: operations that touch this range of the file. */
static struct {
	atomic_int type; /* -1: nothing */
	_Atomic uint64_t from, to;
	atomic_int err; /* 0: come back short */
	atomic_int times; /* how often; -1: always */
	atomic_int count;
} fault = { .type = -1 };

static ssize_t inject(const struct io_op *op, ssize_t result)
{
	uint64_t end = op->offset + op->len - op->done;

	if ((int)op->type != atomic_load(&fault.type) || result < 0 || end <= fault.from ||
	    op->offset >= fault.to || !atomic_load(&fault.times))
		return result;
	if (fault.times > 0)
		fault.times--;
	fault.count++;
	if (fault.err)
		return -fault.err;
	return result > 8192 ? result / 3 / 512 * 512 + 512 : result;
}

static void fail_io(enum io_type type, uint64_t from, uint64_t to, int err, int times)
{
	io_inject = inject;
	fault.from = from;
	fault.to = to;
	fault.err = err;
	fault.times = times;
	fault.count = 0;
	fault.type = (int)type;
}

static void works_again(void)
{
	fault.type = -1;
}

/* A block is read as a whole, or not; the others do not suffer. */
static void test_a_bad_block_is_sigbus_there_only(void **state)
{
	struct hugemap_pool *pool = pool_new(MB(32));
	size_t size = 4 * BLOCK + 500, bad = BLOCK + 7 * PAGE, at;
	struct file file;
	void *where;
	char *addr, byte;

	file_pattern(&file, size, SEED);
	addr = map_file(&file, pool, PROT_READ | PROT_WRITE);
	fail_io(IO_READ, bad + 100, bad + 101, EIO, -1);
	assert_int_equal(signal_of_read(addr + bad + 5, &where), SIGBUS);
	assert_ptr_equal((uintptr_t)where & ~(PAGE - 1), addr + bad);
	assert_int_equal(signal_of_read(addr + BLOCK, NULL), SIGBUS);
	for (at = 0; at < size; at += 511)
		if (at / BLOCK != bad / BLOCK)
			assert_int_equal((unsigned char)addr[at], pattern_byte(SEED, at));
	assert_int_equal(signal_of_write(addr + bad, NULL), SIGBUS);
	assert_int_equal(hugemap_prefetch(addr, size), -EIO);
	assert_int_equal(write(file.fd, addr + bad, 1), -1);
	assert_int_equal(errno, EFAULT);
	assert_true(stat_of(addr).read_errors > 0);
	/* What can be read of it, can be read by the call. */
	assert_int_equal(hugemap_pread(file.fd, &byte, 1, (off_t)bad), 1);
	assert_int_equal((unsigned char)byte, pattern_byte(SEED, bad));
	/* It is tried again. */
	works_again();
	eventually(signal_of_read(addr + bad, NULL) == 0);
	assert_int_equal(pattern_differs(addr, SEED, 0, size), size);
	ok(hugemap_unmap(addr, size));
	file_close(&file);
	pool_free(pool);
}

/* Streams go on behind a block that cannot be read ahead. */
static void test_reading_ahead_into_a_bad_block(void **state)
{
	struct hugemap_pool *pool = pool_new(MB(64));
	size_t size = MB(60), bad = MB(31), p, at;
	struct file file;

	file_pattern(&file, size, SEED);
	for (p = 0; p < 2; p++) {
		char *addr = map_file(&file, pool, PROT_READ);

		fail_io(IO_READ, bad, bad + 1, EIO, -1);
		at = bad / BLOCK * BLOCK;
		assert_int_equal(pattern_differs(addr, SEED, 0, at), at);
		assert_int_equal(signal_of_read(addr + bad, NULL), SIGBUS);
		at = (bad / BLOCK + 1) * BLOCK;
		assert_int_equal(pattern_differs(addr + at, SEED, at, size - at), size - at);
		works_again();
		ok(hugemap_unmap(addr, size));
	}
	file_close(&file);
	pool_free(pool);
}

static void test_short_io_is_continued(void **state)
{
	struct hugemap_pool *pool = pool_new(MB(32));
	size_t size = MB(20) + 1000, p, n;

	for (p = 0; p < 2; p++) {
		unsigned char *now;
		struct file file;
		char *addr;

		file_pattern(&file, size, SEED);
		addr = map_file(&file, pool, PROT_READ | PROT_WRITE);
		fail_io(IO_READ, 0, size, 0, -1);
		assert_int_equal(pattern_differs(addr, SEED, 0, size), size);
		assert_true(fault.count > 0);
		fail_io(IO_WRITE, 0, size, 0, -1);
		pattern_fill(addr, SEED + 1, 0, size);
		ok(hugemap_sync(addr, size, MS_SYNC));
		assert_true(fault.count > 0);
		works_again();
		now = file_read(&file, &n);
		assert_int_equal(n, size);
		assert_int_equal(pattern_differs(now, SEED + 1, 0, n), n);
		free(now);
		ok(hugemap_unmap(addr, size));
		file_close(&file);
	}
	pool_free(pool);
}

static void test_a_failed_write_is_told_and_retried(void **state)
{
	struct hugemap_pool *pool = pool_new(MB(32));
	size_t size = MB(10), p, n;

	for (p = 0; p < 2; p++) {
		unsigned char *now;
		struct file file;
		char *a, *b;

		file_pattern(&file, size, SEED);
		a = map_file(&file, pool, PROT_READ | PROT_WRITE);
		b = map_file(&file, pool, PROT_READ | PROT_WRITE);
		memset(a + MB(3), 'x', MB(2));
		fail_io(IO_WRITE, MB(4), MB(5), EIO, -1);
		assert_int_equal(hugemap_sync(a, size, MS_SYNC), -EIO);
		assert_true(strlen(hugemap_reason()) > 10);
		/* The other mapping is told as well, and once. */
		works_again();
		assert_int_equal(hugemap_sync(b, size, MS_SYNC), -EIO);
		ok(hugemap_sync(b, size, MS_SYNC));
		ok(hugemap_sync(a, size, MS_SYNC));
		assert_int_equal(stat_of(a).dirty_bytes, 0);
		assert_true(stat_of(a).write_errors > 0);
		now = file_read(&file, &n);
		for (n = MB(3); n < MB(5); n++)
			assert_int_equal(now[n], 'x');
		free(now);

		/* an error of the background is told by the next sync */
		a[MB(4)] = 'y';
		fail_io(IO_WRITE, MB(4), MB(5), ENOSPC, -1);
		ok(hugemap_sync(a, size, MS_ASYNC));
		eventually(fault.count > 0);
		works_again();
		assert_int_equal(hugemap_sync(a, size, MS_SYNC), -ENOSPC);
		ok(hugemap_sync(a, size, MS_SYNC));
		/* by itself, too */
		a[MB(4)] = 'z';
		fail_io(IO_WRITE, MB(4), MB(5), EIO, 2);
		ok(hugemap_sync(a, size, MS_ASYNC));
		eventually(stat_of(a).dirty_bytes == 0);
		ok(hugemap_unmap(b, size) == -EIO ? 0 : -1);
		hugemap_unmap(a, size);
		now = file_read(&file, &n);
		assert_int_equal(now[MB(4)], 'z');
		free(now);
		file_close(&file);
	}
	pool_free(pool);
}

/*
 * A write that is under way takes its data from the slot of a unit that was
 * stored to by a call and is mapped nowhere. A load must not take it from there.
 */
static struct {
	char *addr;
	atomic_bool started, loaded;
} slow;

static ssize_t slow_write(const struct io_op *op, ssize_t result)
{
	int i;

	if (op->type != IO_WRITE || atomic_exchange(&slow.started, true))
		return result;
	for (i = 0; i < 150 && !atomic_load(&slow.loaded); i++)
		usleep(1000);
	return result > 8192 ? 4096 : result; /* the rest is still to be written */
}

static void *load_while_written(void *arg)
{
	while (!atomic_load(&slow.started))
		usleep(100);
	assert_int_equal(*(volatile char *)slow.addr, 'w');
	atomic_store(&slow.loaded, true);
	return NULL;
}

static void test_a_load_beside_a_write_from_a_slot(void **state)
{
	struct hugemap_pool_options options = {
		.bytes = MB(32),
		.handlers = 2,
		.dirty_expire_ms = 3600000,
	};
	struct hugemap_pool *pool;
	char *data = malloc(BLOCK);
	size_t p;

	memset(data, 'w', BLOCK);
	options.size = sizeof(options);
	ok(hugemap_pool_create(&options, &pool)); /* of two, whatever the setting is */
	/* The fault may wake the handler that writes: then a round shows nothing. */
	for (p = 0; p < 6; p++) {
		struct file file;
		unsigned char *now;
		pthread_t loader;
		size_t n;
		char *addr;

		file_pattern(&file, 2 * BLOCK, SEED);
		addr = map_file(&file, pool, PROT_READ | PROT_WRITE);
		ok(hugemap_advise(addr, BLOCK, HUGEMAP_ADVICE_WILLNEED));
		eventually(stat_of(addr).resident_bytes == BLOCK);
		assert_int_equal(hugemap_pwrite(file.fd, data, BLOCK, 0), BLOCK);
		slow.addr = addr;
		slow.started = slow.loaded = false;
		io_inject = slow_write;
		assert_int_equal(pthread_create(&loader, NULL, load_while_written, NULL), 0);
		ok(hugemap_sync(addr, BLOCK, MS_SYNC));
		pthread_join(loader, NULL);
		assert_true(slow.started);
		io_inject = inject;
		now = file_read(&file, &n);
		assert_memory_equal(now, data, BLOCK);
		free(now);
		ok(hugemap_unmap(addr, 2 * BLOCK));
		file_close(&file);
	}
	free(data);
	pool_free(pool);
}

static void test_unmap_tells_a_failed_write(void **state)
{
	struct hugemap_pool *pool = pool_new(MB(32));
	struct file file;
	char *addr;

	file_pattern(&file, MB(4), SEED);
	addr = map_file(&file, pool, PROT_READ | PROT_WRITE);
	addr[5] = 'x';
	fail_io(IO_WRITE, 0, MB(4), EIO, -1);
	assert_int_equal(hugemap_unmap(addr, MB(4)), -EIO);
	works_again();
	file_close(&file);
	pool_free(pool);
}

/* A call that reads what the program has zapped reads it again, and nothing hangs. */
static void test_a_read_of_pages_taken_away(void **state)
{
	struct hugemap_pool *pool = pool_new(MB(32));
	struct file file;
	char *addr, bytes[8];

	file_pattern(&file, MB(4), SEED);
	addr = map_file(&file, pool, PROT_READ | PROT_WRITE);
	assert_int_equal(pattern_differs(addr, SEED, 0, MB(4)), MB(4));
	assert_int_equal(madvise(addr, BLOCK, MADV_DONTNEED), 0);
	assert_int_equal(hugemap_pread(file.fd, bytes, 8, 80), 8);
	assert_int_equal(pattern_differs(bytes, SEED, 80, 8), 8);
	assert_int_equal(pattern_differs(addr, SEED, 0, MB(4)), MB(4));
	ok(hugemap_unmap(addr, MB(4)));
	file_close(&file);
	pool_free(pool);
}

static void *sync_when_cancelled(void *arg)
{
	pthread_cancel(pthread_self());
	ok(hugemap_sync(arg, MB(4), MS_SYNC));
	atomic_store(&slow.loaded, true);
	pthread_testcancel();
	return NULL;
}

/* A thread that is cancelled finishes its call, and the next one works. */
static void test_a_cancelled_thread(void **state)
{
	struct hugemap_pool *pool = pool_new(MB(32));
	pthread_t thread;
	struct file file;
	void *result;
	char *addr;

	file_pattern(&file, MB(4), SEED);
	addr = map_file(&file, pool, PROT_READ | PROT_WRITE);
	addr[5] = 'x';
	slow.loaded = false;
	assert_int_equal(pthread_create(&thread, NULL, sync_when_cancelled, addr), 0);
	pthread_join(thread, &result);
	assert_true(slow.loaded);
	assert_ptr_equal(result, PTHREAD_CANCELED);
	addr[5] = 'y';
	ok(hugemap_sync(addr, MB(4), MS_SYNC));
	ok(hugemap_unmap(addr, MB(4)));
	file_close(&file);
	pool_free(pool);
}

/* Zeros over a hole are not written, but those over what a failed write has left are. */
static void test_zeros_after_a_failed_write(void **state)
{
	struct hugemap_pool_options options = { .bytes = MB(32), .dirty_expire_ms = 3600000 };
	struct hugemap_pool *pool = pool_new_options(&options);
	unsigned char *now;
	struct file file;
	size_t size, i;
	char *addr;

	file_new(&file, MB(4));
	addr = map_file(&file, pool, PROT_READ | PROT_WRITE);
	memset(addr, 'x', BLOCK);
	fail_io(IO_WRITE, 0, BLOCK, EIO, 1); /* it has been written nevertheless */
	assert_int_equal(hugemap_sync(addr, MB(4), MS_SYNC), -EIO);
	works_again();
	memset(addr, 0, BLOCK);
	ok(hugemap_sync(addr, MB(4), MS_SYNC));
	now = file_read(&file, &size);
	for (i = 0; i < BLOCK && !now[i]; i++)
		;
	assert_int_equal(i, BLOCK);
	free(now);
	ok(hugemap_unmap(addr, MB(4)));
	file_close(&file);
	pool_free(pool);
}

/* What hugemap_pwrite() left dirty is written, or told, by whatever mapping is the last. */
static void test_a_read_only_mapping_is_the_last(void **state)
{
	struct hugemap_pool_options options = { .bytes = MB(32), .dirty_expire_ms = 3600000 };
	struct hugemap_pool *pool = pool_new_options(&options);
	char *a, *b, *data = malloc(BLOCK);
	struct file file;

	memset(data, 'p', BLOCK);
	file_pattern(&file, MB(4), SEED);
	a = map_file(&file, pool, PROT_READ | PROT_WRITE);
	b = map_file(&file, pool, PROT_READ);
	ok(hugemap_unmap(a, MB(4)));
	assert_int_equal((unsigned char)*(volatile char *)b, pattern_byte(SEED, 0));
	assert_int_equal(hugemap_pwrite(file.fd, data, BLOCK, 0), BLOCK);
	assert_int_equal(stat_of(b).dirty_bytes, BLOCK);
	fail_io(IO_WRITE, 0, MB(4), EIO, -1);
	assert_int_equal(hugemap_unmap(b, MB(4)), -EIO);
	works_again();
	free(data);
	file_close(&file);
	pool_free(pool);
}

/* The pool is full of dirty blocks that cannot be written: no hang. */
static void test_a_pool_that_cannot_be_written(void **state)
{
	struct hugemap_pool *pool = pool_new(MB(16));
	size_t size = MB(40), at;
	int sig = 0, bad = 0;
	struct file file;
	char *addr;

	file_pattern(&file, size, SEED);
	addr = map_file(&file, pool, PROT_READ | PROT_WRITE);
	fail_io(IO_WRITE, 0, size, ENOSPC, -1);
	for (at = 0; at < size && !bad; at += BLOCK) {
		sig = signal_of_write(addr + at, NULL);
		if (sig)
			bad++;
	}
	assert_int_equal(sig, SIGBUS);
	assert_int_equal(hugemap_sync(addr, size, MS_SYNC), -ENOSPC);
	works_again();
	ok(hugemap_sync(addr, size, MS_SYNC));
	eventually(signal_of_write(addr + size - BLOCK, NULL) == 0);
	ok(hugemap_unmap(addr, size));
	file_close(&file);
	pool_free(pool);
}

/*
 * A full file system is told by SIGBUS at the store, or by the call, as with plain mmap:
 * what has been stored can be written. One block in three was read before, and is mapped.
 */
static void test_a_full_file_system(void **state)
{
	struct hugemap_pool *pool;
	char dir[200], path[256];
	char *junk = calloc(1, MB(1));
	size_t size = 6 * BLOCK, n = 0, stored = 0, i;
	struct file file;
	bool has[6];
	int filler;
	char *addr;

	snprintf(dir, sizeof(dir), "%s/hugemap-full-XXXXXX",
		 getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
	assert_non_null(mkdtemp(dir));
	if (mount("hugemap-test", dir, "tmpfs", 0, "size=16m")) {
		rmdir(dir);
		free(junk);
		print_message("skipped: mounting is for root\n");
		skip();
	}
	pool = pool_new(MB(32));
	snprintf(path, sizeof(path), "%s/filler", dir);
	filler = open(path, O_RDWR | O_CREAT, 0600);
	snprintf(file.path, sizeof(file.path), "%s/data", dir);
	file.fd = open(file.path, O_RDWR | O_CREAT, 0600);
	assert_int_equal(ftruncate(file.fd, (off_t)size), 0);
	while (n < 9 && write(filler, junk, MB(1)) == (ssize_t)MB(1))
		n++;

	addr = map_file(&file, pool, PROT_READ | PROT_WRITE);
	ok(hugemap_advise(addr, size, HUGEMAP_ADVICE_RANDOM));
	for (i = 0; i < 6; i++) {
		if (i % 3 == 0)
			assert_int_equal(signal_of_read(addr + i * BLOCK, NULL), 0);
		has[i] = !signal_of_write(addr + i * BLOCK + 7, NULL);
		stored += has[i];
	}
	assert_int_equal(stored, 3);
	while (write(filler, junk, 4096) == 4096)
		;
	assert_int_equal(hugemap_pwrite(file.fd, junk, MB(1), 5 * (off_t)BLOCK), -ENOSPC);
	ok(hugemap_sync(addr, size, MS_SYNC));
	for (i = 0; i < 6; i++)
		if (has[i])
			assert_int_equal(addr[i * BLOCK + 7], 'w');
	assert_int_equal(ftruncate(filler, 0), 0);
	for (i = 0; i < 6; i++)
		eventually(signal_of_write(addr + i * BLOCK + 7, NULL) == 0);
	pattern_fill(addr, SEED, 0, size);
	ok(hugemap_unmap(addr, size));
	addr = map_file(&file, pool, PROT_READ);
	assert_int_equal(pattern_differs(addr, SEED, 0, size), size);
	ok(hugemap_unmap(addr, size));
	close(filler);
	unlink(path);
	file_close(&file);
	pool_free(pool);
	free(junk);
	umount(dir);
	rmdir(dir);
}

/* Pages that vanish: the program unmaps or zaps them behind our back. */
static void test_pages_taken_away(void **state)
{
	struct hugemap_pool *pool = pool_new(MB(32));
	struct file file;
	char *addr;
	int err;

	file_pattern(&file, 8 * BLOCK, SEED);
	addr = map_file(&file, pool, PROT_READ | PROT_WRITE);
	assert_int_equal(pattern_differs(addr, SEED, 0, 8 * BLOCK), 8 * BLOCK);
	addr[5 * BLOCK] = 'x';
	assert_int_equal(madvise(addr + 2 * BLOCK, 4 * BLOCK, MADV_DONTNEED), 0);
	/* The data of clean blocks comes back; the lost store is told. */
	ok(hugemap_advise(addr, 8 * BLOCK, HUGEMAP_ADVICE_DONTNEED));
	eventually(signal_of_read(addr + 2 * BLOCK, NULL) == 0);
	assert_int_equal(pattern_differs(addr, SEED, 0, 5 * BLOCK), 5 * BLOCK);
	err = hugemap_sync(addr, 8 * BLOCK, MS_SYNC);
	assert_true(err == -EIO || err == -EFAULT);
	hugemap_unmap(addr, 8 * BLOCK);
	file_close(&file);
	pool_free(pool);
}

struct writer {
	pthread_t thread;
	atomic_bool stop;
	int fd;
};

static void *write_all_the_time(void *arg)
{
	struct writer *writer = arg;
	char *data = calloc(1, BLOCK);

	while (!atomic_load(&writer->stop))
		assert_int_equal(hugemap_pwrite(writer->fd, data, BLOCK, 15 * BLOCK), BLOCK);
	free(data);
	return NULL;
}

/*
 * Where a file has holes is a guess while calls write it. XFS wants room for a whole range,
 * also where nothing of it is missing. Broken by: a guess that is not asked about again.
 */
static void test_no_room_where_none_is_needed(void **state)
{
	struct hugemap_pool *pool = pool_new(MB(32));
	struct writer writer = { 0 };
	struct file file;
	char *addr;
	int i;

	file_pattern(&file, 16 * BLOCK, SEED);
	writer.fd = file.fd;
	fail_io(IO_ROOM, 0, 8 * BLOCK, ENOSPC, -1);
	assert_int_equal(pthread_create(&writer.thread, NULL, write_all_the_time, &writer), 0);
	for (i = 0; i < 20 || (i < 2000 && !fault.count); i++) {
		addr = map_file(&file, pool, PROT_READ | PROT_WRITE);
		usleep(1000 * (useconds_t)(i % 4));
		assert_int_equal(signal_of_write(addr + 7, NULL), 0);
		ok(hugemap_unmap(addr, 16 * BLOCK));
	}
	atomic_store(&writer.stop, true);
	pthread_join(writer.thread, NULL);
	i = fault.count;
	works_again();
	file_close(&file);
	pool_free(pool);
	/* No fault came while the writer was at it, as on a machine that is slow or busy. */
	if (!i)
		skip();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_bad_block_is_sigbus_there_only),
		cmocka_unit_test(test_reading_ahead_into_a_bad_block),
		cmocka_unit_test(test_short_io_is_continued),
		cmocka_unit_test(test_a_failed_write_is_told_and_retried),
		cmocka_unit_test(test_a_load_beside_a_write_from_a_slot),
		cmocka_unit_test(test_unmap_tells_a_failed_write),
		cmocka_unit_test(test_a_read_of_pages_taken_away),
		cmocka_unit_test(test_a_cancelled_thread),
		cmocka_unit_test(test_zeros_after_a_failed_write),
		cmocka_unit_test(test_a_read_only_mapping_is_the_last),
		cmocka_unit_test(test_a_pool_that_cannot_be_written),
		cmocka_unit_test(test_a_full_file_system),
		cmocka_unit_test(test_no_room_where_none_is_needed),
		cmocka_unit_test(test_pages_taken_away),
	};

	return RUN(tests);
}
