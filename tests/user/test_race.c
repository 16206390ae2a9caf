// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Many threads at once. Above all: no store may be lost, whatever the engine
 * does with a block at that moment.
 */
#include "common.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>

#define SEED 3
#define THREADS 4

struct job {
	struct hugemap_pool *pool;
	char *addr;
	size_t size;
	uint64_t *model; /* each thread has words of its own */
	unsigned int index;
	unsigned int rounds;
	atomic_bool *stop;
	const struct file *file;
};

static void run_threads(struct job *base, void *(*work)(void *), unsigned int n)
{
	pthread_t threads[16];
	struct job jobs[16];
	unsigned int i;

	for (i = 0; i < n; i++) {
		jobs[i] = *base;
		jobs[i].index = i;
		assert_int_equal(pthread_create(&threads[i], NULL, work, &jobs[i]), 0);
	}
	for (i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
}

/*
 * The window between UFFDIO_MOVE and write protection: one thread reads in
 * sequence, so that blocks are mapped ahead of it and beside its faults, while
 * the others store into blocks that are just coming in.
 */
static void *store_where_it_is_read(void *arg)
{
	struct job *job = arg;
	_Atomic uint64_t *words = (_Atomic uint64_t *)job->addr;
	size_t n = job->size / 8, i;
	uint64_t random = job->index * 77 + 1;
	volatile uint64_t sum = 0;
	unsigned int round;

	for (round = 0; round < job->rounds; round++) {
		if (job->index == 0) {
			for (i = 0; i < n; i += 64)
				sum += words[i];
			continue;
		}
		/* Each block once a round, close behind and ahead of the reader. */
		for (i = 0; i < job->size / BLOCK; i++) {
			size_t at = (i * (BLOCK / 8) + next_random(&random) % (BLOCK / 8)) /
					    THREADS * THREADS +
				    job->index;

			if (at >= n)
				continue;
			words[at] = words[at] + 1;
			job->model[at]++;
		}
	}
	return NULL;
}

static void stores_beside_reads(size_t pool_bytes, size_t size)
{
	struct hugemap_pool *pool = pool_new(pool_bytes);
	struct job job = { .pool = pool, .size = size, .rounds = 6 };
	struct file file;
	uint64_t *now;
	size_t i, n;

	file_new(&file, 0);
	job.model = calloc(size / 8, 8);
	for (i = 0; i < size / 8; i++)
		job.model[i] = i;
	assert_int_equal(pwrite(file.fd, job.model, size, 0), size);
	fsync(file.fd);
	job.addr = map_file(&file, pool, PROT_READ | PROT_WRITE);
	run_threads(&job, store_where_it_is_read, THREADS);
	assert_memory_equal(job.addr, job.model, size);
	ok(hugemap_sync(job.addr, size, MS_SYNC));
	now = (uint64_t *)file_read(&file, &n);
	assert_int_equal(n, size);
	assert_memory_equal(now, job.model, size);
	free(now);
	ok(hugemap_unmap(job.addr, size));
	free(job.model);
	file_close(&file);
	pool_free(pool);
}

static void test_no_store_is_lost_while_read_ahead(void **state)
{
	stores_beside_reads(MB(256), MB(120));
}

static void test_no_store_is_lost_beyond_the_pool(void **state)
{
	stores_beside_reads(MB(32), MB(120));
}

/* Every thread counts in words of its own, anywhere; another one syncs. */
static void *count_at_random(void *arg)
{
	struct job *job = arg;
	_Atomic uint64_t *words = (_Atomic uint64_t *)job->addr;
	size_t n = job->size / 8;
	uint64_t random = job->index * 1234567 + 1;
	unsigned int i;

	for (i = 0; i < job->rounds; i++) {
		size_t at = next_random(&random) % n / THREADS * THREADS + job->index;

		if (at >= n)
			continue;
		if (words[at] != job->model[at]) {
			print_error("word %zu: %llu, expected %llu\n", at,
				    (unsigned long long)words[at],
				    (unsigned long long)job->model[at]);
			abort();
		}
		words[at]++;
		job->model[at]++;
	}
	return NULL;
}

static void *sync_all_the_time(void *arg)
{
	struct job *job = arg;
	uint64_t random = 5;

	while (!atomic_load(job->stop)) {
		size_t at = next_random(&random) % job->size / PAGE * PAGE;

		check_ok(hugemap_sync(job->addr + at, job->size - at, MS_SYNC), "sync", __FILE__,
			 __LINE__);
	}
	return NULL;
}

static void test_counting_while_syncing(void **state)
{
	size_t size = MB(48), p, n;

	for (p = 0; p < 2; p++) {
		struct hugemap_pool *pool = pool_new(MB(24));
		atomic_bool stop = false;
		struct job job = {
			.pool = pool, .size = size, .rounds = ROUNDS(800), .stop = &stop
		};
		struct file file;
		pthread_t syncer;
		unsigned char *now;

		file_new(&file, size);
		job.model = calloc(size / 8, 8);
		job.addr = map_file(&file, pool, PROT_READ | PROT_WRITE);
		assert_int_equal(pthread_create(&syncer, NULL, sync_all_the_time, &job), 0);
		run_threads(&job, count_at_random, THREADS);
		atomic_store(&stop, true);
		pthread_join(syncer, NULL);
		ok(hugemap_unmap(job.addr, size));
		now = file_read(&file, &n);
		assert_memory_equal(now, job.model, size);
		free(now);
		free(job.model);
		file_close(&file);
		pool_free(pool);
	}
}

/* Two mappings of a file, and read and write calls. */
static void *use_both_mappings(void *arg)
{
	struct job *job = arg;
	uint64_t random = job->index + 9;
	size_t n = job->size / 8;
	unsigned int i;

	for (i = 0; i < job->rounds; i++) {
		size_t at = next_random(&random) % n / THREADS * THREADS + job->index;
		char *addr = i % 2 ? job->addr : (char *)job->pool;
		uint64_t value;

		if (at >= n)
			continue;
		if (i % 5 == 0) {
			value = job->model[at] + 1;
			if (hugemap_pwrite(job->file->fd, &value, 8, (off_t)at * 8) != 8)
				abort();
		} else if (i % 5 == 1) {
			if (hugemap_pread(job->file->fd, &value, 8, (off_t)at * 8) != 8 ||
			    value != job->model[at])
				abort();
			continue;
		} else {
			if (((_Atomic uint64_t *)addr)[at] != job->model[at])
				abort();
			((_Atomic uint64_t *)addr)[at]++;
		}
		job->model[at]++;
	}
	return NULL;
}

static void test_two_mappings_agree(void **state)
{
	struct hugemap_pool *pool = pool_new(MB(16));
	size_t size = MB(12);
	struct job job = { .size = size, .rounds = 400 };
	struct file file;
	char *other;

	file_new(&file, size);
	job.file = &file;
	job.model = calloc(size / 8, 8);
	job.addr = map_file(&file, pool, PROT_READ | PROT_WRITE);
	other = map_file(&file, pool, PROT_READ | PROT_WRITE);
	job.pool = (struct hugemap_pool *)other;
	run_threads(&job, use_both_mappings, THREADS);
	assert_memory_equal(job.addr, job.model, size);
	ok(hugemap_unmap(other, size));
	ok(hugemap_unmap(job.addr, size));
	free(job.model);
	file_close(&file);
	pool_free(pool);
}

/* Mapping, using and unmapping in several threads, with one pool. */
static void *map_and_unmap(void *arg)
{
	struct job *job = arg;
	uint64_t random = job->index + 1;
	unsigned int i;

	for (i = 0; i < job->rounds; i++) {
		size_t offset = next_random(&random) % (job->size / BLOCK) * BLOCK;
		size_t length = job->size - offset;
		char *addr = map_range(job->file, (off_t)offset, length, job->pool, PROT_READ);
		size_t probe = next_random(&random) % length;

		if ((unsigned char)addr[probe] != pattern_byte(SEED, offset + probe))
			abort();
		if (hugemap_unmap(addr, length))
			abort();
	}
	return NULL;
}

/* One writes a file from a mapping larger than the pool; the other maps it now and then. */
static void *write_from_a_mapping(void *arg)
{
	struct job *job = arg;
	unsigned int i;

	for (i = 0; i < job->rounds; i++) {
		char *addr;

		if (!job->index) {
			if (hugemap_pwrite(job->file->fd, job->addr, job->size, 0) !=
			    (ssize_t)job->size)
				abort();
			continue;
		}
		addr = map_file(job->file, job->pool, PROT_READ | PROT_WRITE);
		if ((unsigned char)addr[i % job->size] != pattern_byte(SEED, i % job->size) &&
		    addr[i % job->size])
			abort();
		if (hugemap_unmap(addr, job->size))
			abort();
	}
	return NULL;
}

/*
 * The kernel writes with a lock of the file, and touches the buffer meanwhile. Broken by: a
 * pwrite() that faults there for what a handler serves who asks for holes of the file.
 */
static void test_a_file_is_mapped_while_it_is_written_from_a_mapping(void **state)
{
	struct job job = { .pool = pool_new(MB(16)), .size = MB(40), .rounds = ROUNDS(40) };
	struct file from, to;

	file_pattern(&from, job.size, SEED);
	file_new(&to, job.size);
	job.file = &to;
	job.addr = map_file(&from, job.pool, PROT_READ);
	run_threads(&job, write_from_a_mapping, 2);
	ok(hugemap_unmap(job.addr, job.size));
	job.addr = map_file(&to, job.pool, PROT_READ);
	assert_int_equal(pattern_differs(job.addr, SEED, 0, job.size), job.size);
	ok(hugemap_unmap(job.addr, job.size));
	file_close(&from);
	file_close(&to);
	pool_free(job.pool);
}

static void test_mapping_in_many_threads(void **state)
{
	struct hugemap_pool *pool = pool_new(MB(32));
	struct job job = { .pool = pool, .size = MB(30) + 5, .rounds = 60 };
	struct file file;

	file_pattern(&file, job.size, SEED);
	job.file = &file;
	run_threads(&job, map_and_unmap, 6);
	file_close(&file);
	pool_free(pool);
}

/* One instruction that stores into two blocks: it needs both of them at the same time. */
static void test_a_store_into_two_blocks(void **state)
{
	struct hugemap_pool_options pool_options = { .size = sizeof(pool_options),
						     .bytes = MB(8),
						     .dirty_ratio = 1 };
	struct hugemap_options options = { .size = sizeof(options) };
	uint64_t random = 17, now;
	struct file file;
	char *addr;
	int i;

	file_new(&file, MB(16));
	ok(hugemap_pool_create(&pool_options, &options.pool));
	addr = hugemap_map(file.fd, 0, 0, PROT_READ | PROT_WRITE, 0, &options);
	ok(hugemap_error(addr));
	for (i = 1; i < ROUNDS(200); i++) {
		char *at = addr + BLOCK * (1 + next_random(&random) % 7) - 4;

		now = (uint64_t)i << 32 | (uint64_t)i;
		memcpy(at, &now, sizeof(now));
		assert_memory_equal(at, &now, sizeof(now));
	}
	ok(hugemap_unmap(addr, MB(16)));
	file_close(&file);
	pool_free(options.pool);
}

/* A child of just now: has it anything of a pool? */
static int has_userfaultfd(void)
{
	char path[40], target[40];
	ssize_t n;
	int fd;

	for (fd = 0; fd < 200; fd++) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		n = readlink(path, target, sizeof(target) - 1);
		if (n <= 0)
			continue;
		target[n] = 0;
		if (strstr(target, "userfaultfd"))
			return 1;
	}
	return 0;
}

static void *fork_all_the_time(void *arg)
{
	struct job *job = arg;
	int status = 0;

	while (!atomic_load(job->stop)) {
		pid_t child = fork();

		if (!child)
			_exit(has_userfaultfd());
		if (child < 0 || waitpid(child, &status, 0) != child || status)
			return job;
	}
	return NULL;
}

/*
 * A child has nothing of a pool, whatever its parent does with it at that moment. Broken by:
 * a pool that is off the list before its descriptors are closed.
 */
static void test_children_beside_pools_that_go(void **state)
{
	atomic_bool stop = false;
	struct job job = { .stop = &stop };
	pthread_t thread;
	unsigned int i;
	void *failed;

	assert_int_equal(pthread_create(&thread, NULL, fork_all_the_time, &job), 0);
	for (i = 0; i < ROUNDS(300); i++)
		pool_free(pool_new(MB(16)));
	atomic_store(&stop, true);
	pthread_join(thread, &failed);
	assert_null(failed);
}

/* --- fork() beside faults ----------------------------------------------------------- */

static pthread_mutex_t others_lock = PTHREAD_MUTEX_INITIALIZER;
static char *cold; /* larger than its pool */
static _Atomic size_t cold_at;
#define COLD_BLOCKS 32

static void touch_cold(void)
{
	size_t i = atomic_fetch_add(&cold_at, 1) % COLD_BLOCKS;

	(void)*(volatile char *)(cold + i * BLOCK);
}

/* Registered before the library's own: before a fork this comes after that. */
static void others_before_fork(void)
{
	pthread_mutex_lock(&others_lock);
}

static void others_after_fork(void)
{
	pthread_mutex_unlock(&others_lock);
}

static void *touch_under_a_lock(void *arg)
{
	atomic_bool *stop = arg;

	while (!atomic_load(stop)) {
		pthread_mutex_lock(&others_lock);
		touch_cold();
		pthread_mutex_unlock(&others_lock);
		usleep(1);
	}
	return NULL;
}

static void on_usr1(int sig)
{
	touch_cold();
}

struct signaller {
	pthread_t to;
	atomic_bool *stop;
};

static void *signal_all_the_time(void *arg)
{
	struct signaller *signaller = arg;

	while (!atomic_load(signaller->stop)) {
		pthread_kill(signaller->to, SIGUSR1);
		/* Faster than it takes to handle one, nothing else would go on. */
		usleep(5000);
	}
	return NULL;
}

/* Broken by: a fork() that holds what a fault needs. Then this waits for ever. */
static void test_children_beside_faults(void **state)
{
	struct hugemap_pool *pool = pool_new(MB(16));
	struct sigaction action = { .sa_handler = on_usr1, .sa_flags = SA_RESTART }, old;
	atomic_bool stop = false;
	struct signaller signaller = { .to = pthread_self(), .stop = &stop };
	pthread_t threads[2];
	struct file file;
	int i, status;

	file_pattern(&file, COLD_BLOCKS * BLOCK, SEED);
	cold = map_file(&file, pool, PROT_READ);
	ok(hugemap_advise(cold, COLD_BLOCKS * BLOCK, HUGEMAP_ADVICE_RANDOM));
	sigaction(SIGUSR1, &action, &old);
	assert_int_equal(pthread_create(&threads[0], NULL, touch_under_a_lock, &stop), 0);
	assert_int_equal(pthread_create(&threads[1], NULL, signal_all_the_time, &signaller), 0);
	for (i = 0; i < ROUNDS(100); i++) {
		pid_t child = fork();

		if (!child)
			_exit(has_userfaultfd());
		assert_true(child > 0);
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_int_equal(status, 0);
	}
	atomic_store(&stop, true);
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
	sigaction(SIGUSR1, &old, NULL);
	ok(hugemap_unmap(cold, COLD_BLOCKS * BLOCK));
	file_close(&file);
	pool_free(pool);
}

struct lease {
	int fd;
	volatile char *addr; /* of another file */
	atomic_bool mapped;
	bool served; /* a fault, before that */
};

static void *touch_while_it_is_opened(void *arg)
{
	struct lease *lease = arg;

	eventually(fcntl(lease->fd, F_GETLEASE) != F_WRLCK);
	(void)*lease->addr;
	lease->served = !atomic_load(&lease->mapped);
	fcntl(lease->fd, F_SETLEASE, F_UNLCK);
	return NULL;
}

/*
 * A file whose open(2) waits for somebody else, as with a slow server. Broken by: one that
 * is opened with a lock that faults need.
 */
static void test_faults_beside_a_file_that_is_opened(void **state)
{
	struct hugemap_pool *pool = pool_new(MB(16));
	struct lease lease = { 0 };
	struct file file, slow;
	pthread_t thread;
	char *addr;

	file_pattern(&file, BLOCK, SEED);
	file_pattern(&slow, BLOCK, SEED);
	close(slow.fd);
	slow.fd = open(slow.path, O_RDONLY | O_CLOEXEC);
	signal(SIGIO, SIG_IGN);
	lease.fd = slow.fd;
	lease.addr = map_file(&file, pool, PROT_READ);
	if (!fcntl(slow.fd, F_SETLEASE, F_WRLCK)) {
		pthread_create(&thread, NULL, touch_while_it_is_opened, &lease);
		addr = map_file(&slow, pool, PROT_READ);
		atomic_store(&lease.mapped, true);
		pthread_join(thread, NULL);
		assert_true(lease.served);
		assert_int_equal(pattern_differs(addr, SEED, 0, BLOCK), BLOCK);
		ok(hugemap_unmap(addr, BLOCK));
	} else {
		print_message("skipped: no leases here\n");
	}
	ok(hugemap_unmap((char *)lease.addr, BLOCK));
	signal(SIGIO, SIG_DFL);
	file_close(&file);
	file_close(&slow);
	pool_free(pool);
}

struct visit {
	char *_Atomic addr;
	atomic_bool stop;
};

static bool is_served(const char *addr, bool only_numbers)
{
	struct hugemap_map_stat map_stat = { .size = sizeof(map_stat) };
	struct hugemap_stat stat = { .size = sizeof(stat) };
	int err = hugemap_stat(addr, &stat);

	if (!err || err == -EINVAL)
		err = hugemap_map_stat(addr, &map_stat);
	if (!only_numbers && (!err || err == -EINVAL))
		err = hugemap_sync((char *)(uintptr_t)addr, BLOCK, MS_ASYNC);
	if (!only_numbers && (!err || err == -EINVAL))
		err = hugemap_advise((char *)(uintptr_t)addr, BLOCK, HUGEMAP_ADVICE_DONTNEED);
	return !err || err == -EINVAL;
}

static void *ask_all_the_time(void *arg)
{
	struct visit *visit = arg;

	while (!atomic_load(&visit->stop))
		if (!is_served(atomic_load(&visit->addr), true))
			return visit;
	return NULL;
}

static void *call_all_the_time(void *arg)
{
	struct visit *visit = arg;

	while (!atomic_load(&visit->stop))
		if (!is_served(atomic_load(&visit->addr), false))
			return visit;
	return NULL;
}

/* Broken by: a call that has found a pool and not yet done anything to keep it. */
static void test_calls_beside_pools_that_go(void **state)
{
	struct visit visit = { 0 };
	struct file file;
	pthread_t threads[2];
	unsigned int i;
	void *failed;

	file_pattern(&file, BLOCK, SEED);
	assert_int_equal(pthread_create(&threads[0], NULL, ask_all_the_time, &visit), 0);
	assert_int_equal(pthread_create(&threads[1], NULL, call_all_the_time, &visit), 0);
	for (i = 0; i < ROUNDS(300); i++) {
		struct hugemap_pool *pool = pool_new(MB(16));
		char *addr = map_file(&file, pool, PROT_READ | PROT_WRITE);

		atomic_store(&visit.addr, addr);
		addr[i] = (char)pattern_byte(SEED, i);
		ok(hugemap_unmap(addr, BLOCK));
		pool_free(pool);
	}
	atomic_store(&visit.stop, true);
	for (i = 0; i < 2; i++) {
		pthread_join(threads[i], &failed);
		assert_null(failed);
	}
	file_close(&file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_store_is_lost_while_read_ahead),
		cmocka_unit_test(test_no_store_is_lost_beyond_the_pool),
		cmocka_unit_test(test_counting_while_syncing),
		cmocka_unit_test(test_two_mappings_agree),
		cmocka_unit_test(test_a_file_is_mapped_while_it_is_written_from_a_mapping),
		cmocka_unit_test(test_mapping_in_many_threads),
		cmocka_unit_test(test_a_store_into_two_blocks),
		cmocka_unit_test(test_children_beside_pools_that_go),
		cmocka_unit_test(test_children_beside_faults),
		cmocka_unit_test(test_faults_beside_a_file_that_is_opened),
		cmocka_unit_test(test_calls_beside_pools_that_go),
	};

	pthread_atfork(others_before_fork, others_after_fork, others_after_fork);
	return RUN(tests);
}
