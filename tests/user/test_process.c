// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Processes: what becomes of stores when a program is killed, executes another
 * one, exits or forks; and what two processes may do with one file.
 */
#include "common.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define SEED 11

static const enum hugemap_page pages[] = { HUGEMAP_PAGE_2M, HUGEMAP_PAGE_4K };

/* What a child tells its parent, in memory that both share. */
struct shared {
	atomic_uint ready, go;
	_Atomic uint64_t stored; /* words that are stored for certain */
	enum hugemap_page page;
};

static struct shared *shared_new(void)
{
	struct shared *shared =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_true(shared != MAP_FAILED);
	return shared;
}

typedef int program(struct shared *shared, const struct file *file);

/*
 * A program of its own: a child that has not used the library before. Its
 * result is its exit status, for cmocka's assertions are its parent's.
 */
static pid_t start(program *main_of_child, struct shared *shared, const struct file *file)
{
	pid_t pid;

	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid)
		_exit(main_of_child(shared, file));
	return pid;
}

static int end_of(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static char *map_in_child(const struct file *file, enum hugemap_page page, int prot, size_t pool)
{
	struct hugemap_pool_options pool_options = { .size = sizeof(pool_options), .bytes = pool };
	struct hugemap_options options = {
		.size = sizeof(options),
		.page = page,
		.engine = HUGEMAP_ENGINE_USER,
	};
	const char *io = getenv("HM_TEST_IO");

	if (io && !strcmp(io, "threads"))
		pool_options.io = HUGEMAP_IO_THREADS;
	if (getenv("HM_TEST_HANDLERS"))
		pool_options.handlers = (uint32_t)atoi(getenv("HM_TEST_HANDLERS"));
	if (hugemap_pool_create(&pool_options, &options.pool))
		return NULL;
	return hugemap_map(file->fd, 0, 0, prot, 0, &options);
}

/* Another process may map the file for writing: nobody keeps it any more. */
static bool is_free(const struct file *file)
{
	struct hugemap_options options = { .size = sizeof(options), .engine = HUGEMAP_ENGINE_USER };
	char *addr;

	options.pool = pool_new(MB(8));
	addr = hugemap_map(file->fd, 0, 0, PROT_READ | PROT_WRITE, 0, &options);
	if (!hugemap_error(addr))
		ok(hugemap_unmap(addr, file_length(file)));
	pool_free(options.pool);
	return !hugemap_error(addr);
}

/* Store number i goes there: they jump through the file. */
static size_t place_of(uint64_t i, size_t words)
{
	return (size_t)(i * 0x9e3779b1u) % words;
}

/* Every word that was stored is in the file; the one in between may be. */
static void check_words(const struct file *file, uint64_t stored)
{
	size_t size, n, at;
	uint64_t *now = (uint64_t *)file_read(file, &size);
	uint64_t *expected = calloc(size / 8, 8), i;

	n = size / 8;
	for (i = 1; i <= stored; i++)
		expected[place_of(i, n)] = i;
	if (now[place_of(stored + 1, n)] == stored + 1)
		expected[place_of(stored + 1, n)] = stored + 1;
	for (at = 0; at < n; at++)
		if (now[at] != expected[at])
			fail_msg("word %zu is %llu, not %llu, of %llu stores", at,
				 (unsigned long long)now[at], (unsigned long long)expected[at],
				 (unsigned long long)stored);
	free(expected);
	free(now);
}

#ifndef HM_NO_KEEPER

/* Stores 1, 2, 3 … at places that jump through the file, until it is killed. */
static int store_for_ever(struct shared *shared, const struct file *file)
{
	_Atomic uint64_t *words =
		(void *)map_in_child(file, shared->page, PROT_READ | PROT_WRITE, MB(16));
	size_t n = file_length(file) / 8;
	uint64_t i;

	if (!words || hugemap_error(words))
		return 1;
	atomic_store(&shared->ready, 1);
	for (i = 1; i < 10000000; i++) {
		words[place_of(i, n)] = i;
		atomic_store(&shared->stored, i);
	}
	return 2;
}

/* Blocks that hold zeros, not holes: overwriting them is quick. */
static void file_zeros(struct file *file, size_t size)
{
	char *zeros = calloc(1, size);

	file_new(file, 0);
	assert_int_equal(pwrite(file->fd, zeros, size, 0), size);
	fsync(file->fd);
	free(zeros);
}

/*
 * kill -9 at any moment, write-back included: the pool is smaller than the
 * file, so that it is written and evicted all the time.
 */
static void test_killed_while_storing(void **state)
{
	struct shared *shared = shared_new();
	unsigned int round;

	for (round = 0; round < 8; round++) {
		struct file file;
		pid_t pid;

		file_zeros(&file, MB(40));
		shared->page = pages[round % 2];
		shared->ready = 0;
		shared->stored = 0;
		pid = start(store_for_ever, shared, &file);
		eventually(shared->ready);
		usleep(10000 + round * 23456);
		kill(pid, SIGKILL);
		assert_int_equal(end_of(pid), 128 + SIGKILL);
		eventually(is_free(&file));
		check_words(&file, shared->stored);
		file_close(&file);
	}
	munmap(shared, 4096);
}

static void store_pattern(char *addr, const struct file *file)
{
	pattern_fill(addr, SEED, 0, file_length(file));
}

static int store_and_exit(struct shared *shared, const struct file *file)
{
	char *addr = map_in_child(file, shared->page, PROT_READ | PROT_WRITE, MB(16));

	if (!addr || hugemap_error(addr))
		return 1;
	store_pattern(addr, file);
	exit(0); /* not _exit(): what was registered with atexit() runs */
}

static int store_and_vanish(struct shared *shared, const struct file *file)
{
	char *addr = map_in_child(file, shared->page, PROT_READ | PROT_WRITE, MB(16));

	if (!addr || hugemap_error(addr))
		return 1;
	store_pattern(addr, file);
	return 0; /* _exit() */
}

static int store_and_exec(struct shared *shared, const struct file *file)
{
	char *addr = map_in_child(file, shared->page, PROT_READ | PROT_WRITE, MB(16));

	if (!addr || hugemap_error(addr))
		return 1;
	store_pattern(addr, file);
	execl("/bin/true", "true", (char *)NULL);
	return 2;
}

static void test_the_end_of_a_program(void **state)
{
	static program *const programs[] = { store_and_exit, store_and_vanish, store_and_exec };
	struct shared *shared = shared_new();
	size_t size = MB(11) + 77, i, n;

	for (i = 0; i < 6; i++) {
		unsigned char *now;
		struct file file;

		file_new(&file, size);
		shared->page = pages[i % 2];
		assert_int_equal(end_of(start(programs[i / 2], shared, &file)), 0);
		if (programs[i / 2] != store_and_exit)
			eventually(is_free(&file));
		now = file_read(&file, &n);
		assert_int_equal(n, size);
		assert_int_equal(pattern_differs(now, SEED, 0, n), n);
		free(now);
		file_close(&file);
	}
	munmap(shared, 4096);
}

#endif /* HM_NO_KEEPER */

static int hold_mapping(struct shared *shared, const struct file *file)
{
	int prot = shared->go == 2 ? PROT_READ | PROT_WRITE : PROT_READ;
	char *addr = NULL;
	int tries;

	/* What was closed elsewhere may be open for a moment: a ring ends in its own time. */
	for (tries = 0; tries < 100; tries++) {
		addr = map_in_child(file, HUGEMAP_PAGE_2M, prot, MB(16));
		if (addr && hugemap_error(addr) != -EBUSY)
			break;
		usleep(100000);
	}
	if (!addr || hugemap_error(addr))
		return 1;
	if ((unsigned char)addr[5] != pattern_byte(SEED, 5))
		return 2;
	atomic_store(&shared->ready, 1);
	while (atomic_load(&shared->go))
		usleep(1000);
	return hugemap_unmap(addr, file_length(file)) ? 3 : 0;
}

/* One process may write a file, or any number may read it. */
static void test_two_processes_on_one_file(void **state)
{
	struct hugemap_options options = { .size = sizeof(options), .engine = HUGEMAP_ENGINE_USER };
	struct shared *shared = shared_new();
	struct file file;
	char *addr;
	pid_t pid;

	file_pattern(&file, MB(5), SEED);
	shared->go = 2; /* a writer elsewhere */
	pid = start(hold_mapping, shared, &file);
	/*
	 * Only now: of threads that begin while a child is made, the child would have the
	 * address sanitizer's own locks, taken for ever.
	 */
	options.pool = pool_new(MB(16));
	eventually(shared->ready);
	addr = hugemap_map(file.fd, 0, 0, PROT_READ, 0, &options);
	assert_int_equal(hugemap_error(addr), -EBUSY);
	assert_non_null(strstr(hugemap_reason(), "another process"));
	options.engine = HUGEMAP_ENGINE_AUTO; /* no way round it either */
	addr = hugemap_map(file.fd, 0, 0, PROT_READ, 0, &options);
	assert_int_equal(hugemap_error(addr), -EBUSY);
	/* ... nor with a descriptor that cannot be mistaken for the writer. */
	close(file.fd);
	file.fd = open(file.path, O_RDONLY);
	addr = hugemap_map(file.fd, 0, 0, PROT_READ, 0, &options);
	assert_int_equal(hugemap_error(addr), -EBUSY);
	addr = hugemap_map(file.fd, 0, 0, PROT_READ | PROT_WRITE, HUGEMAP_PRIVATE, &options);
	assert_int_equal(hugemap_error(addr), -EBUSY);
	options.engine = HUGEMAP_ENGINE_MMAP;
	addr = hugemap_map(file.fd, 0, 0, PROT_READ, 0, &options);
	assert_int_equal(hugemap_error(addr), -EBUSY);
	close(file.fd);
	file.fd = open(file.path, O_RDWR);
	options.engine = HUGEMAP_ENGINE_USER;
	shared->go = 0;
	assert_int_equal(end_of(pid), 0);

	eventually(is_free(&file));
	shared->ready = 0;
	shared->go = 1; /* a reader elsewhere */
	close(file.fd); /* a descriptor for writing would make the kernel serve it */
	file.fd = open(file.path, O_RDONLY);
	pid = start(hold_mapping, shared, &file);
	eventually(shared->ready);
	addr = hugemap_map(file.fd, 0, 0, PROT_READ, 0, &options);
	ok(hugemap_error(addr));
	assert_int_equal(pattern_differs(addr, SEED, 0, MB(5)), MB(5));
	ok(hugemap_unmap(addr, MB(5)));
	close(file.fd);
	file.fd = open(file.path, O_RDWR);
	addr = hugemap_map(file.fd, 0, 0, PROT_READ | PROT_WRITE, 0, &options);
	assert_int_equal(hugemap_error(addr), -EBUSY);
	shared->go = 0;
	assert_int_equal(end_of(pid), 0);
	assert_true(is_free(&file));
	file_close(&file);
	pool_free(options.pool);
	munmap(shared, 4096);
}

static int write_plainly(struct shared *shared, const struct file *file)
{
	int fd = open(file->path, O_RDWR);

	atomic_store(&shared->ready, 1);
	while (atomic_load(&shared->go) == 1)
		usleep(1000);
	if (pwrite(fd, "news", 4, MB(3)) != 4)
		return 1;
	atomic_store(&shared->ready, 2);
	while (atomic_load(&shared->go))
		usleep(1000);
	return 0;
}

/* A process that uses plain write(2): its writes must be seen. */
static void test_a_foreign_writer_is_coherent(void **state)
{
	struct hugemap_options options = { .size = sizeof(options), .pool = pool_new(MB(16)) };
	struct shared *shared = shared_new();
	struct file file;
	char *addr;
	pid_t pid;

	file_pattern(&file, MB(5), SEED);
	close(file.fd);
	file.fd = open(file.path, O_RDONLY);
	shared->go = 1;
	pid = start(write_plainly, shared, &file);
	eventually(shared->ready == 1);
	addr = hugemap_map(file.fd, 0, 0, PROT_READ, 0, &options);
	ok(hugemap_error(addr));
	assert_int_equal(stat_of(addr).engine, HUGEMAP_ENGINE_MMAP);
	assert_non_null(strstr(stat_of(addr).reason, "open for writing"));
	assert_int_equal((unsigned char)addr[MB(3)], pattern_byte(SEED, MB(3)));
	shared->go = 2;
	eventually(shared->ready == 2);
	assert_memory_equal(addr + MB(3), "news", 4);
	ok(hugemap_unmap(addr, MB(5)));
	/* An order for the engine is refused, with the reason. */
	options.engine = HUGEMAP_ENGINE_USER;
	addr = hugemap_map(file.fd, 0, 0, PROT_READ, 0, &options);
	assert_int_equal(hugemap_error(addr), -ETXTBSY);
	shared->go = 0;
	assert_int_equal(end_of(pid), 0);
	file_close(&file);
	pool_free(options.pool);
	munmap(shared, 4096);
}

/* --- fork ------------------------------------------------------------------- */

/* Parent and child see each other's stores, before and after the fork. */
static void test_fork_with_a_writable_mapping(void **state)
{
	size_t size = MB(9) + 100, p, n;

	for (p = 0; p < 2; p++) {
		struct hugemap_pool *pool = pool_new(MB(16));
		struct shared *shared = shared_new();
		unsigned char *now;
		struct file file;
		char *addr;
		pid_t pid;

		file_pattern(&file, size, SEED);
		addr = map_file(&file, pool, pages[p], PROT_READ | PROT_WRITE);
		pattern_fill(addr, SEED + 1, 0, size / 2);
		fflush(NULL);
		pid = fork();
		if (!pid) {
			if (pattern_differs(addr, SEED + 1, 0, size / 2) != size / 2)
				_exit(1);
			addr[7] = 'c';
			atomic_store(&shared->ready, 1);
			while (!atomic_load(&shared->go))
				usleep(1000);
			_exit(addr[MB(6)] == 'p' ? 0 : 2);
		}
		eventually(shared->ready);
		assert_int_equal(addr[7], 'c');
		addr[MB(6)] = 'p';
		shared->go = 1;
		assert_int_equal(end_of(pid), 0);
		assert_int_equal(stat_of(addr).engine, HUGEMAP_ENGINE_MMAP);
		assert_non_null(strstr(stat_of(addr).reason, "fork"));
		assert_int_equal(pattern_differs(addr + MB(7), SEED, MB(7), size - MB(7)),
				 size - MB(7));
		ok(hugemap_sync(addr, size, MS_SYNC));
		ok(hugemap_unmap(addr, size));
		now = file_read(&file, &n);
		assert_int_equal(n, size);
		assert_int_equal(now[7], 'c');
		assert_int_equal(now[MB(6)], 'p');
		free(now);
		file_close(&file);
		munmap(shared, 4096);
		pool_free(pool);
	}
}

/* Maps, stores and forks; parent and child go on with the kernel's mapping. */
static int map_and_fork(struct shared *shared, const struct file *file)
{
	char *addr = map_in_child(file, shared->page, PROT_READ | PROT_WRITE, MB(16));
	pid_t child;

	prctl(PR_SET_PDEATHSIG, SIGKILL); /* should the test fail */
	if (!addr || hugemap_error(addr))
		return 1;
	addr[PAGE] = 'a';
	child = fork();
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		addr[PAGE] = 'b';
		while (atomic_load(&shared->go) < 2)
			usleep(1000);
		_exit(0);
	}
	atomic_store(&shared->ready, 1);
	while (atomic_load(&shared->go) < 1)
		usleep(1000);
	if (child < 0 || hugemap_unmap(addr, file_length(file)))
		return 2;
	atomic_store(&shared->ready, 2);
	return waitpid(child, NULL, 0) == child ? 0 : 3;
}

/* What they store there, the engine of a process that knows nothing of it would miss. */
static void test_nobody_elses_engine_after_fork(void **state)
{
	struct shared *shared = shared_new();
	struct file file;
	pid_t pid;

	file_pattern(&file, MB(5), SEED);
	pid = start(map_and_fork, shared, &file);
	eventually(atomic_load(&shared->ready) == 1);
	assert_false(is_free(&file));
	atomic_store(&shared->go, 1);
	eventually(atomic_load(&shared->ready) == 2);
	assert_false(is_free(&file)); /* the child has it still */
	atomic_store(&shared->go, 2);
	assert_int_equal(end_of(pid), 0);
	assert_true(is_free(&file));
	munmap(shared, 4096);
	file_close(&file);
}

/* What is mapped after the fork sees what was mapped before, in both processes. */
static void test_mapping_again_after_fork(void **state)
{
	struct hugemap_pool *pool = pool_new(MB(16));
	struct hugemap_options options = { .size = sizeof(options), .pool = pool };
	struct shared *shared = shared_new();
	struct file file;
	char *old, *new;
	pid_t pid;

	file_pattern(&file, MB(5), SEED);
	old = map_file(&file, pool, HUGEMAP_PAGE_2M, PROT_READ | PROT_WRITE);
	fflush(NULL);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		new = hugemap_map(file.fd, 0, 0, PROT_READ | PROT_WRITE, 0, NULL);
		if (hugemap_error(new))
			_exit(1);
		new[7] = 'c';
		atomic_store(&shared->ready, 1);
		while (!atomic_load(&shared->go))
			usleep(1000);
		_exit(new[MB(3)] == 'p' && old[MB(3)] == 'p' ? 0 : 2);
	}
	eventually(shared->ready);
	new = hugemap_map(file.fd, 0, 0, PROT_READ | PROT_WRITE, 0, &options);
	ok(hugemap_error(new));
	assert_int_equal(old[7], 'c');
	assert_int_equal(new[7], 'c');
	new[MB(3)] = 'p';
	assert_int_equal(old[MB(3)], 'p');
	shared->go = 1;
	assert_int_equal(end_of(pid), 0);
	ok(hugemap_unmap(new, MB(5)));
	ok(hugemap_unmap(old, MB(5)));
	/* Nothing is left of it: the engine is as good as before. */
	new = map_file(&file, pool, HUGEMAP_PAGE_2M, PROT_READ | PROT_WRITE);
	assert_int_equal(stat_of(new).engine, HUGEMAP_ENGINE_USER);
	ok(hugemap_unmap(new, MB(5)));
	file_close(&file);
	munmap(shared, 4096);
	pool_free(pool);
}

/* Only the child's own touch decides: 1 = it may not, 0 = as the parent's. */
static int touch_in_child(char *addr)
{
	return signal_of_read(addr, NULL) ? 1 : 0;
}

static void test_fork_otherwise(void **state)
{
	struct hugemap_pool *pool = pool_new(MB(16));
	struct hugemap_options options = {
		.size = sizeof(options),
		.pool = pool,
		.engine = HUGEMAP_ENGINE_USER,
	};
	struct file read_only, no_fork;
	char *a, *b;
	pid_t pid;

	file_pattern(&read_only, MB(6), SEED);
	file_pattern(&no_fork, MB(6), SEED);
	a = map_file(&read_only, pool, HUGEMAP_PAGE_2M, PROT_READ);
	b = hugemap_map(no_fork.fd, 0, 0, PROT_READ | PROT_WRITE, HUGEMAP_NOFORK, &options);
	ok(hugemap_error(b));
	assert_int_equal(pattern_differs(a, SEED, 0, MB(3)), MB(3));
	b[1] = 'x';
	fflush(NULL);
	pid = fork();
	if (!pid) {
		/* Children use what they inherit, and may make pools of their own. */
		if (pattern_differs(a, SEED, 0, MB(6)) != MB(6) || touch_in_child(b) != 1)
			_exit(1);
		a = map_in_child(&read_only, HUGEMAP_PAGE_2M, PROT_READ, MB(16));
		if (!a || hugemap_error(a) || pattern_differs(a, SEED, 0, MB(6)) != MB(6))
			_exit(2);
		_exit(0);
	}
	assert_int_equal(end_of(pid), 0);
	/* The parent goes on with the engine, and blocks still come and go. */
	assert_int_equal(stat_of(a).engine, HUGEMAP_ENGINE_USER);
	assert_int_equal(stat_of(b).engine, HUGEMAP_ENGINE_USER);
	assert_int_equal(pattern_differs(a, SEED, 0, MB(6)), MB(6));
	assert_int_equal(b[1], 'x');
	b[MB(4)] = 'y';
	ok(hugemap_advise(a, MB(6), HUGEMAP_ADVICE_DONTNEED));
	assert_int_equal(pattern_differs(a, SEED, 0, MB(6)), MB(6));
	ok(hugemap_unmap(a, MB(6)));
	ok(hugemap_unmap(b, MB(6)));
	file_close(&read_only);
	file_close(&no_fork);
	pool_free(pool);
}

/* Threads store while another one forks: none of their stores is lost. */
struct storing {
	char *addr;
	size_t size;
	atomic_bool stop;
	uint64_t count;
};

static void *store_on(void *arg)
{
	struct storing *storing = arg;
	_Atomic uint64_t *words = (void *)storing->addr;
	size_t n = storing->size / 8;

	while (!atomic_load(&storing->stop)) {
		storing->count++;
		words[place_of(storing->count, n)] = storing->count;
	}
	return NULL;
}

static void test_fork_while_threads_store(void **state)
{
	size_t p;

	for (p = 0; p < 2; p++) {
		struct hugemap_pool *pool = pool_new(MB(16));
		struct storing storing = { .size = MB(24) };
		pthread_t thread;
		struct file file;
		pid_t pid;

		file_new(&file, storing.size);
		storing.addr = map_file(&file, pool, pages[p], PROT_READ | PROT_WRITE);
		assert_int_equal(pthread_create(&thread, NULL, store_on, &storing), 0);
		usleep(20000);
		fflush(NULL);
		pid = fork();
		if (!pid)
			_exit(0);
		assert_int_equal(end_of(pid), 0);
		usleep(20000);
		atomic_store(&storing.stop, true);
		pthread_join(thread, NULL);
		ok(hugemap_unmap(storing.addr, storing.size));
		check_words(&file, storing.count);
		file_close(&file);
		pool_free(pool);
	}
}

#ifndef __SANITIZE_ADDRESS__

static void *map_once(void *arg)
{
	const struct file *file = arg;
	char *addr = hugemap_map(file->fd, 0, 0, PROT_READ, 0, NULL);

	if (hugemap_error(addr) || *addr != (char)pattern_byte(SEED, 0))
		return NULL;
	return hugemap_unmap(addr, PAGE) ? NULL : arg;
}

static int fork_beside_the_first_map(struct shared *shared, const struct file *file)
{
	pthread_t thread;
	void *result;
	int end;
	pid_t pid;

	if (pthread_create(&thread, NULL, map_once, (void *)file))
		return 1;
	usleep(atomic_load(&shared->go));
	pid = fork();
	if (!pid) {
		alarm(20); /* it may wait for ever */
		_exit(map_once((void *)file) ? 0 : 2);
	}
	end = end_of(pid);
	pthread_join(thread, &result);
	return result ? end : 3;
}

/*
 * While the pool of the process is being made by another thread. Not with the address
 * sanitizer: its own locks stay taken in a child that is made beside a new thread.
 */
static void test_fork_beside_the_first_map(void **state)
{
	struct shared *shared = shared_new();
	struct file file;
	int turn;

	file_pattern(&file, PAGE, SEED);
	for (turn = 0; turn < 60; turn++) {
		atomic_store(&shared->go, turn * 25);
		assert_int_equal(end_of(start(fork_beside_the_first_map, shared, &file)), 0);
	}
	munmap(shared, 4096);
	file_close(&file);
}

#endif /* __SANITIZE_ADDRESS__ */

int main(void)
{
	const struct CMUnitTest tests[] = {
#ifndef HM_NO_KEEPER
		cmocka_unit_test(test_killed_while_storing),
		cmocka_unit_test(test_the_end_of_a_program),
#endif
		cmocka_unit_test(test_two_processes_on_one_file),
		cmocka_unit_test(test_a_foreign_writer_is_coherent),
		cmocka_unit_test(test_fork_with_a_writable_mapping),
		cmocka_unit_test(test_nobody_elses_engine_after_fork),
		cmocka_unit_test(test_mapping_again_after_fork),
		cmocka_unit_test(test_fork_otherwise),
		cmocka_unit_test(test_fork_while_threads_store),
#ifndef __SANITIZE_ADDRESS__
		cmocka_unit_test(test_fork_beside_the_first_map),
#endif
	};

	return RUN(tests);
}
