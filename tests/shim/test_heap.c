// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * --heap: large anonymous memory that is in a file behaves as anonymous memory. The
 * library with malloc() is loaded, too.
 */
#include "common.h"

#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define LENGTH (32 * MB)
#define RW (PROT_READ | PROT_WRITE)

/* Is it in a file? As /proc/self/maps has it. */
static bool in_file(const void *addr, bool *shared)
{
	unsigned long from, to, inode;
	bool found = false;
	char line[4400], kind;
	FILE *maps = fopen("/proc/self/maps", "re");

	while (!found && fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%lx-%lx %*3c%c %*x %*s %lu", &from, &to, &kind, &inode) != 4)
			continue;
		if ((uintptr_t)addr < from || (uintptr_t)addr >= to)
			continue;
		found = true;
		*shared = kind == 's';
	}
	fclose(maps);
	return found && inode;
}

static char *take(void)
{
	char *p = mmap(NULL, LENGTH, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	bool shared = false;

	assert_true(p != MAP_FAILED);
	assert_true(in_file(p, &shared) && shared);
	return p;
}

static void assert_all(const char *from, size_t length, char value)
{
	assert_int_equal(from[0], value);
	assert_int_equal(memcmp(from, from + 1, length - 1), 0);
}

static void malloc_and_its_kin(void **state)
{
	bool shared = false;
	char *a = malloc(20 * MB), *b;
	volatile size_t much = SIZE_MAX - 100;
	void *c[3] = {};
	int i;

	assert_true(in_file(a, &shared) && shared);
	memset(a, 1, 20 * MB);
	free(a);
	a = calloc(5, 4 * MB); /* the same place */
	assert_all(a, 20 * MB, 0);
	a[20 * MB - 1] = 7;
	a = realloc(a, 60 * MB);
	assert_int_equal(a[20 * MB - 1], 7);
	a = realloc(a, 21 * MB); /* much smaller */
	assert_int_equal(a[20 * MB - 1], 7);
	b = malloc(100);
	strcpy(b, "small");
	b = realloc(b, 20 * MB);
	assert_true(in_file(b, &shared));
	assert_string_equal(b, "small");
	b = realloc(b, 100);
	assert_string_equal(b, "small");
	for (i = 0; i < 3; i++) {
		assert_int_equal(posix_memalign(&c[i], 64 * MB, 20 * MB), 0);
		assert_int_equal((uintptr_t)c[i] % (64 * MB), 0);
		assert_true(in_file(c[i], &shared));
		memset(c[i], 2, 20 * MB);
	}
	assert_int_equal(posix_memalign(&c[0], 3, 20 * MB), EINVAL);
	while (i--)
		free(c[i]);
	free(a);
	free(b);
	assert_null(malloc(much));
}

/* Blocks of 512 bytes that the heap's file takes. */
static long long room(void)
{
	char path[32], link[300];
	struct stat st;
	int fd;

	for (fd = 3; fd < 1024; fd++) {
		memset(link, 0, sizeof(link));
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		if (readlink(path, link, sizeof(link) - 1) > 0 && strstr(link, "(deleted)"))
			return fstat(fd, &st) ? -1 : (long long)st.st_blocks;
	}
	return -1;
}

static void room_is_given_back(void **state)
{
	const long long spare = 2048; /* what describes the file */
	char *p = take();
	int i;

	for (i = 0; i < 10; i++) {
		memset(p, 1, LENGTH);
		assert_int_equal(msync(p, LENGTH, MS_SYNC), 0);
		assert_in_range(room(), LENGTH / 512, LENGTH / 512 + spare);
		assert_int_equal(munmap(p, LENGTH), 0);
		assert_in_range(room(), 0, spare);
		p = take();
	}
	assert_all(p, LENGTH, 0);
	munmap(p, LENGTH);
}

static void advice_takes_contents_away(void **state)
{
	char *p = take();

	memset(p, 5, LENGTH);
	errno = 77;
	assert_int_equal(madvise(p + MB, 4 * MB, MADV_DONTNEED), 0);
	assert_int_equal(madvise(p, MB / 2, MADV_HUGEPAGE), 0);
	assert_int_equal(errno, 77);
	assert_all(p, MB, 5);
	assert_all(p + MB, 4 * MB, 0);
	assert_all(p + 5 * MB, LENGTH - 5 * MB, 5);
	assert_int_equal(madvise(p + 1, MB, MADV_DONTNEED), -1);
	assert_int_equal(errno, EINVAL);
	munmap(p, LENGTH);
}

static void parts_go(void **state)
{
	char *p = take(), *q;

	memset(p, 5, LENGTH);
	assert_int_equal(munmap(p + 3 * MB, 2 * MB), 0);
	assert_int_equal(munmap(p + 5 * MB, 3 * MB), 0);
	assert_all(p, 3 * MB, 5);
	assert_all(p + 8 * MB, LENGTH - 8 * MB, 5);
	/* All of it, with what is gone already. */
	assert_int_equal(munmap(p, LENGTH), 0);
	q = take();
	assert_all(q, LENGTH, 0);
	munmap(q, LENGTH);
}

static void moved(void **state)
{
	char *p = take(), *q, *to;
	bool shared;

	memset(p, 5, LENGTH);
	q = mremap(p, LENGTH, 2 * LENGTH, MREMAP_MAYMOVE);
	assert_true(q != MAP_FAILED && in_file(q, &shared));
	assert_all(q, LENGTH, 5);
	assert_all(q + LENGTH, LENGTH, 0);
	assert_ptr_equal(mremap(q, 2 * LENGTH, MB, 0), q);
	assert_ptr_equal(mremap(q, MB, 2 * MB, 0), MAP_FAILED);
	assert_int_equal(errno, ENOMEM);
	q = mremap(q, MB, LENGTH, MREMAP_MAYMOVE);
	assert_all(q, MB, 5);
	assert_all(q + MB, LENGTH - MB, 0);
	to = mmap(NULL, LENGTH, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_equal(mremap(q, LENGTH, LENGTH, MREMAP_MAYMOVE | MREMAP_FIXED, to), to);
	assert_all(to, MB, 5);
	munmap(to, LENGTH);
}

static void mapped_over(void **state)
{
	char *p = take();
	struct file file;
	pid_t pid;

	file_new(&file, SIZE);
	memset(p, 5, LENGTH);
	assert_ptr_equal(mmap(p + MB, MB, RW, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
			 p + MB);
	assert_all(p, MB, 5);
	assert_all(p + MB, MB, 0);
	assert_all(p + 2 * MB, MB, 5);
	/* Somebody's file, of which advice takes nothing away. */
	assert_ptr_equal(mmap(p + 5 * MB, MB, RW, MAP_SHARED | MAP_FIXED, file.fd, 0), p + 5 * MB);
	assert_int_equal(madvise(p, LENGTH, MADV_DONTNEED), 0);
	assert_all(p, 5 * MB, 0);
	assert_all(p + 6 * MB, LENGTH - 6 * MB, 0);
	assert_int_equal((unsigned char)p[5 * MB + 7], byte_of(7));
	p[4 * MB] = 1;
	fflush(NULL);
	pid = fork();
	if (!pid) {
		p[4 * MB] = 2;
		p[5 * MB] = 'c';
		_exit(0);
	}
	assert_int_equal(end_of(pid), 0);
	assert_int_equal(p[4 * MB], 1);
	assert_int_equal(p[5 * MB], 'c');
	assert_int_equal(munmap(p, LENGTH), 0);
	file_end(&file);
}

_Noreturn static void child(char *p, char *block)
{
	bool shared = true;
	char *own;
	pid_t pid;

	usleep(20000); /* the parent stores meanwhile */
	CHECK(p[0] == 5 && p[9 * MB] == 5 && block[9] == 'b');
	CHECK(in_file(p, &shared) && !shared);
	p[0] = block[9] = 'c';
	CHECK(!madvise(p + MB, MB, MADV_DONTNEED));
	CHECK(!p[MB] && !p[2 * MB - 1] && p[2 * MB] == 5);
	own = malloc(20 * MB);
	CHECK(own && in_file(own, &shared) && shared);
	memset(own, 3, 20 * MB);
	pid = fork();
	if (!pid) {
		CHECK(own[4] == 3 && p[0] == 'c');
		own[4] = p[0] = 4;
		_exit(0);
	}
	CHECK(end_of(pid) == 0);
	CHECK(own[4] == 3 && p[0] == 'c');
	free(own);
	free(block);
	CHECK(!munmap(p, LENGTH));
	own = mmap(NULL, LENGTH, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(own != MAP_FAILED && !own[LENGTH - 1]);
	_exit(0);
}

static void children_have_their_own(void **state)
{
	char *p = take(), *block = malloc(20 * MB), *q;
	bool shared;
	pid_t pid;

	memset(p, 5, LENGTH);
	block[9] = 'b';
	mprotect(p + 12 * MB, MB, PROT_READ);
	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid)
		child(p, block);
	p[9 * MB] = 'p';
	block[9] = 'p';
	assert_int_equal(end_of(pid), 0);
	assert_int_equal(p[0], 5);
	assert_int_equal(p[9 * MB], 'p');
	assert_int_equal(block[9], 'p');
	/* What is new is in the file again. */
	q = take();
	memset(q, 6, LENGTH);
	assert_int_equal(madvise(p, 2 * MB, MADV_DONTNEED), 0);
	assert_all(p, 2 * MB, 0);
	assert_all(p + 2 * MB, 7 * MB, 5);
	munmap(p, LENGTH);
	free(block);
	assert_true(in_file(q, &shared) && shared);
	assert_all(q, LENGTH, 6);
	munmap(q, LENGTH);
}

/* Made by the system call: nobody could prepare for that. It must not share memory. */
static void bare_children_share_nothing(void **state)
{
	char *p = take();
	pid_t pid;

	memset(p, 5, LENGTH);
	pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (!pid) {
		signal(SIGSEGV, SIG_DFL);
		p[0] = 'c';
		_exit(0);
	}
	assert_int_equal(end_of(pid), 128 + SIGSEGV);
	assert_all(p, LENGTH, 5);
	munmap(p, LENGTH);
}

static void descriptors_may_all_be_closed(void **state)
{
	char *p = take();
	pid_t pid;
	int fd;

	memset(p, 5, LENGTH);
	for (fd = 3; fd < 1024; fd++)
		close(fd);
	assert_true(malloc(20 * MB));
	fflush(NULL);
	pid = fork();
	if (!pid) {
		p[0] = 6;
		_exit(0);
	}
	assert_int_equal(end_of(pid), 0);
	assert_all(p, LENGTH, 5);
}

#define THREADS 3
#define TURNS 60

/* Blocks come and go, each with a value of its own. */
static void *churn(void *arg)
{
	unsigned int seed = (unsigned int)(uintptr_t)arg;
	char *blocks[4] = {}, values[4] = {};
	size_t at;
	int turn, i;

	for (turn = 0; turn < TURNS; turn++) {
		i = rand_r(&seed) % 4;
		if (blocks[i]) {
			for (at = 0; at < 2 * MB; at += PAGE)
				CHECK(blocks[i][at] == values[i]);
			free(blocks[i]);
		}
		blocks[i] = calloc(1, 2 * MB + (size_t)rand_r(&seed) % (2 * MB));
		CHECK(blocks[i] && !blocks[i][0] && !blocks[i][2 * MB - 1]);
		values[i] = (char)turn;
		memset(blocks[i], turn, 2 * MB);
	}
	for (i = 0; i < 4; i++)
		free(blocks[i]);
	return NULL;
}

static void threads_and_children_at_once(void **state)
{
	pthread_t threads[THREADS];
	char *p = take();
	uintptr_t i;
	pid_t pid;

	memset(p, 5, LENGTH);
	fflush(NULL);
	for (i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, churn, (void *)i), 0);
	for (i = 0; i < 20; i++) {
		pid = fork();
		if (!pid) {
			CHECK(p[3] == 5 + (char)i);
			churn((void *)i);
			_exit(0);
		}
		p[3]++;
		assert_int_equal(end_of(pid), 0);
	}
	for (i = 0; i < THREADS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	munmap(p, LENGTH);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(malloc_and_its_kin),
		cmocka_unit_test(room_is_given_back),
		cmocka_unit_test(advice_takes_contents_away),
		cmocka_unit_test(parts_go),
		cmocka_unit_test(moved),
		cmocka_unit_test(mapped_over),
		cmocka_unit_test(children_have_their_own),
		cmocka_unit_test(bare_children_share_nothing),
		cmocka_unit_test(threads_and_children_at_once),
		cmocka_unit_test(descriptors_may_all_be_closed),
	};

	return RUN(tests);
}
