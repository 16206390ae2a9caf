// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Mappings: which rung they get, and what changes them. */
#include "common.h"

#include <signal.h>

static char *map_any(const struct file *file, int prot, int flags, void *at)
{
	char *addr = mmap(at, SIZE, prot, flags, file->fd, 0);

	assert_true(addr != MAP_FAILED);
	return addr;
}

static void test_what_is_not_the_engines(void **state)
{
	struct file file;
	char *addr, *place;

	file_new(&file, SIZE);
	addr = map_any(&file, PROT_READ | PROT_WRITE, MAP_PRIVATE, NULL);
	assert_int_equal(rung_of(addr), RUN_PLAIN);
	addr[1] = 'p';
	assert_int_equal(pread(file.fd, addr + 2, 1, 1), 1);
	assert_int_equal((unsigned char)addr[2], byte_of(1));
	munmap(addr, SIZE);
	addr = map_any(&file, PROT_READ | PROT_EXEC, MAP_PRIVATE, NULL);
	assert_int_equal(rung_of(addr), RUN_PLAIN);
	munmap(addr, SIZE);
	addr = map_any(&file, PROT_NONE, MAP_SHARED, NULL);
	assert_int_equal(rung_of(addr), RUN_PLAIN);
	munmap(addr, SIZE);
	place = mmap(NULL, SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	addr = map_any(&file, PROT_READ, MAP_SHARED | MAP_FIXED, place);
	assert_ptr_equal(addr, place);
	assert_int_equal(rung_of(addr), RUN_PLAIN);
	munmap(addr, SIZE);
	assert_true(mmap(NULL, SIZE, PROT_READ, MAP_SHARED, file.fd, 77) == MAP_FAILED);
	assert_int_equal(errno, EINVAL);
	file_end(&file);
}

/* Broken by: leaving the engine's view beside one of the kernel's. */
static void test_two_views_are_of_one_kind(void **state)
{
	struct file file;
	char *addr, *exec;

	file_new(&file, SIZE);
	addr = map_live(&file);
	addr[3] = 'a';
	exec = map_any(&file, PROT_READ | PROT_EXEC, MAP_SHARED, NULL);
	assert_int_equal(rung_of(addr), RUN_PLAIN);
	assert_int_equal(exec[3], 'a');
	addr[4] = 'b';
	assert_int_equal(exec[4], 'b');
	munmap(addr, SIZE);
	/* And the other way round. */
	addr = map_any(&file, PROT_READ | PROT_WRITE, MAP_SHARED, NULL);
	assert_int_not_equal(rung_of(addr), RUN_ENGINE);
	addr[5] = 'c';
	assert_int_equal(exec[5], 'c');
	munmap(addr, SIZE);
	munmap(exec, SIZE);
	file_end(&file);
}

/* A small mapping of a file that the engine serves is the engine's too. */
static void test_small_views_of_a_served_file(void **state)
{
	struct file file;
	char *addr, *head;

	file_new(&file, SIZE);
	addr = map_live(&file);
	addr[7] = 'h';
	head = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file.fd, 0);
	assert_int_equal(head[7], 'h');
	head[8] = 'i';
	assert_int_equal(addr[8], 'i');
	assert_int_equal(rung_of(addr), RUN_ENGINE);
	munmap(head, PAGE);
	munmap(addr, SIZE);
	file_end(&file);
}

static void test_parts_are_unmapped(void **state)
{
	struct file file;
	char *addr;

	file_new(&file, SIZE);
	addr = map_live(&file);
	addr[BLOCK] = 'x';
	addr[BLOCK + 20 * PAGE] = 'y';
	assert_int_equal(munmap(addr + BLOCK, 10 * PAGE), 0);
	assert_int_equal(signal_of_read(addr + BLOCK), SIGSEGV);
	assert_int_equal(addr[BLOCK + 20 * PAGE], 'y');
	assert_int_equal((unsigned char)addr[BLOCK - 1], byte_of(BLOCK - 1));
	assert_int_equal(pread(file.fd, addr, 1, BLOCK), 1);
	assert_int_equal(addr[0], 'x');
	/* Over holes, and beyond the end. */
	assert_int_equal(munmap(addr, SIZE + PAGE), 0);
	assert_int_equal(pread(file.fd, &addr, 1, BLOCK + 20 * PAGE), 1);
	assert_int_equal(*(char *)&addr, 'y');
	file_end(&file);
}

/* Bytes that this process has had read from disks. */
static unsigned long long bytes_read(void)
{
	unsigned long long bytes = 0;
	FILE *file = fopen("/proc/self/io", "r");
	char line[128];

	assert_non_null(file);
	while (fgets(line, sizeof(line), file))
		if (!strncmp(line, "read_bytes:", 11))
			bytes = strtoull(line + 11, NULL, 10);
	fclose(file);
	return bytes;
}

/* What was unmapped is not read again; but what was changed since is. */
static void test_mapped_again(void **state)
{
	unsigned long long before;
	struct file file;
	char *addr;
	size_t at;

	file_new(&file, SIZE);
	addr = map_live(&file);
	for (at = 0; at < SIZE; at++)
		addr[at] = (char)(at * 5 >> 3);
	assert_int_equal(munmap(addr, SIZE), 0);
	usleep(150000); /* kernels before 6.13 have coarse change times */
	addr = map_live(&file);
	assert_int_equal(munmap(addr, SIZE), 0);
	before = bytes_read();
	addr = map_settled(&file);
	for (at = 0; at < SIZE; at++)
		assert_int_equal(addr[at], (char)(at * 5 >> 3));
	assert_int_equal(munmap(addr, SIZE), 0);
	assert_true(bytes_read() - before < SIZE / 2);
	close(file.fd);
	file.fd = open(file.path, O_RDWR | O_CLOEXEC);
	assert_int_equal(pwrite(file.fd, "new", 3, BLOCK), 3);
	addr = map_live(&file);
	assert_memory_equal(addr + BLOCK, "new", 3);
	munmap(addr, SIZE);
	file_end(&file);
}

static void test_something_is_mapped_over_a_part(void **state)
{
	struct file file;
	char *addr, byte;

	file_new(&file, SIZE);
	addr = map_live(&file);
	addr[BLOCK] = 'x';
	addr[5] = 'y';
	assert_ptr_equal(mmap(addr + BLOCK, PAGE, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
			 addr + BLOCK);
	assert_int_equal(addr[BLOCK], 0);
	assert_int_equal(addr[5], 'y');
	addr[BLOCK] = 'z';
	assert_int_equal(pread(file.fd, &byte, 1, BLOCK), 1);
	assert_int_equal(byte, 'x');
	munmap(addr, SIZE);
	file_end(&file);
}

static void test_mremap(void **state)
{
	struct file file;
	char *addr, *at, *place;

	file_new(&file, SIZE);
	addr = mmap(NULL, BLOCK, PROT_READ | PROT_WRITE, MAP_SHARED, file.fd, 0);
	addr[3] = 'm';
	at = mremap(addr, BLOCK, 3 * BLOCK, MREMAP_MAYMOVE);
	assert_true(at != MAP_FAILED);
	assert_int_equal(rung_of(at), RUN_ENGINE);
	assert_int_equal(at[3], 'm');
	assert_int_equal((unsigned char)at[2 * BLOCK + 1], byte_of(2 * BLOCK + 1));
	assert_ptr_equal(mremap(at, 3 * BLOCK, BLOCK, 0), at);
	assert_int_equal(signal_of_read(at + BLOCK), SIGSEGV);
	assert_int_equal(rung_of(at), RUN_ENGINE);
	place = mmap(NULL, 4 * BLOCK, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	addr = mremap(at, BLOCK, 2 * BLOCK, MREMAP_MAYMOVE | MREMAP_FIXED, place + PAGE);
	assert_ptr_equal(addr, place + PAGE);
	assert_int_equal(addr[3], 'm');
	assert_int_equal((unsigned char)addr[BLOCK + 1], byte_of(BLOCK + 1));
	assert_int_equal(rung_of(addr), RUN_PLAIN);
	assert_int_equal(munmap(place, 4 * BLOCK), 0);
	file_end(&file);
}

static void test_mprotect(void **state)
{
	struct file file;
	char *addr;

	file_new(&file, SIZE);
	addr = map_live(&file);
	addr[0] = 'r';
	assert_int_equal(mprotect(addr, SIZE, PROT_READ | PROT_WRITE), 0);
	assert_int_equal(rung_of(addr), RUN_ENGINE);
	assert_int_equal(mprotect(addr, BLOCK, PROT_NONE), 0);
	assert_int_equal(signal_of_read(addr), SIGSEGV);
	assert_int_equal(rung_of(addr + BLOCK), RUN_PLAIN);
	assert_int_equal(mprotect(addr, BLOCK, PROT_READ | PROT_WRITE), 0);
	assert_int_equal(addr[0], 'r');
	addr[1] = 's';
	munmap(addr, SIZE);
	/* What was mapped for reading by a descriptor that may write. */
	addr = map_any(&file, PROT_READ, MAP_SHARED, NULL);
	assert_int_equal(rung_of(addr), RUN_ENGINE);
	assert_int_equal(mprotect(addr, SIZE, PROT_READ | PROT_WRITE), 0);
	assert_int_equal(addr[1], 's');
	addr[2] = 't';
	assert_int_equal(pread(file.fd, addr + 3, 1, 2), 1);
	assert_int_equal(addr[3], 't');
	munmap(addr, SIZE);
	/* A private one stays private. */
	addr = map_any(&file, PROT_READ, MAP_PRIVATE, NULL);
	assert_int_equal(rung_of(addr), RUN_ENGINE);
	assert_int_equal(mprotect(addr, SIZE, PROT_READ | PROT_WRITE), 0);
	addr[2] = 'u';
	assert_int_equal(pread(file.fd, addr + 3, 1, 2), 1);
	assert_int_equal(addr[3], 't');
	munmap(addr, SIZE);
	file_end(&file);
}

static void test_advice_and_sync(void **state)
{
	static const int advices[] = { MADV_NORMAL,   MADV_SEQUENTIAL, MADV_RANDOM,
				       MADV_WILLNEED, MADV_DONTNEED,   MADV_HUGEPAGE,
				       MADV_COLD,     MADV_PAGEOUT,    MADV_DONTDUMP };
	unsigned char present[8];
	struct file file;
	char *addr;
	size_t i;

	file_new(&file, SIZE);
	addr = map_live(&file);
	addr[100] = 'a';
	for (i = 0; i < sizeof(advices) / sizeof(advices[0]); i++) {
		assert_int_equal(madvise(addr, SIZE, advices[i]), 0);
		assert_int_equal(addr[100], 'a');
	}
	assert_int_equal(posix_madvise(addr, SIZE, POSIX_MADV_DONTNEED), 0);
	assert_int_equal(addr[100], 'a');
	assert_int_equal(mincore(addr, PAGE, present), 0);
	assert_int_equal(present[0] & 1, 1);
	assert_int_equal(msync(addr, SIZE, MS_SYNC), 0);
	assert_int_equal(msync(addr, SIZE, MS_ASYNC | MS_INVALIDATE), 0);
	assert_int_equal(fsync(file.fd) + fdatasync(file.fd), 0);
	assert_int_equal(madvise(addr, PAGE, MADV_REMOVE), 0);
	assert_int_equal(addr[100], 0);
	assert_int_equal(rung_of(addr), RUN_ENGINE);
	assert_int_equal(mlock(addr, PAGE), 0);
	assert_int_equal(rung_of(addr), RUN_PLAIN);
	assert_int_equal((unsigned char)addr[PAGE], byte_of(PAGE));
	munlock(addr, PAGE);
	munmap(addr, SIZE);
	file_end(&file);
}

/* Has the kernel's mapping that begins at an address this flag? See proc(5), smaps. */
static bool has_flag(const char *addr, const char *flag)
{
	FILE *smaps = fopen("/proc/self/smaps", "re");
	bool here = false, has = false;
	char line[512];
	char *start;

	assert_non_null(smaps);
	while (fgets(line, sizeof(line), smaps)) {
		if (strchr(line, '-') && sscanf(line, "%p-", (void **)&start) == 1)
			here = start == addr;
		else if (here && !strncmp(line, "VmFlags:", 8))
			has = strstr(line, flag);
	}
	fclose(smaps);
	return has;
}

/* What the program has said of its accesses is not lost when the file steps down. */
static void test_advice_stays(void **state)
{
	struct file file;
	char *addr;

	file_new(&file, SIZE);
	addr = map_live(&file);
	assert_int_equal(madvise(addr, SIZE, MADV_RANDOM), 0);
	assert_int_equal(rung_of(addr), RUN_ENGINE);
	assert_int_equal(mlock(addr, PAGE), 0);
	munlock(addr, PAGE);
	assert_int_not_equal(rung_of(addr), RUN_ENGINE);
	assert_true(has_flag(addr, " rr"));
	assert_false(has_flag(addr, " hg"));
	munmap(addr, SIZE);
	file_end(&file);
}

/* The pool has 32 MB. What was stored before is there after, and reading on stays. */
static void test_random_access_beyond_the_pool(void **state)
{
	const size_t size = 40 * BLOCK;
	unsigned int seed = 5;
	struct file file;
	char *addr, byte;
	size_t at, i;

	file_new(&file, size);
	addr = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file.fd, 0);
	assert_true(addr != MAP_FAILED);
	for (at = 0; at < size; at += PAGE)
		assert_int_equal((unsigned char)addr[at], byte_of(at));
	assert_int_equal(rung_of(addr), RUN_ENGINE);
	addr[7] = 'r';
	for (i = 0; i < 5000 && rung_of(addr) == RUN_ENGINE; i++) {
		at = (size_t)rand_r(&seed) % (size / PAGE) * PAGE + 99;
		assert_int_equal((unsigned char)addr[at], byte_of(at));
	}
	/* Another thread steps down, while these accesses go on. */
	for (i = 0; i < 10000 && rung_of(addr) == RUN_ENGINE; i++)
		usleep(1000);
	assert_int_equal(rung_of(addr), RUN_PLAIN);
	assert_non_null(strstr(why_of(addr), "random access"));
	assert_int_equal(addr[7], 'r');
	assert_int_equal(pread(file.fd, &byte, 1, 7), 1);
	assert_int_equal(byte, 'r');
	munmap(addr, size);

	addr = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file.fd, 0);
	assert_true(addr != MAP_FAILED);
	assert_int_equal(rung_of(addr), RUN_ENGINE);
	addr[8] = 's';
	assert_int_equal(madvise(addr + BLOCK, BLOCK, MADV_RANDOM), 0);
	assert_int_equal(rung_of(addr), RUN_PLAIN);
	assert_int_equal(addr[8], 's');
	munmap(addr, size);
	file_end(&file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_not_the_engines),
		cmocka_unit_test(test_two_views_are_of_one_kind),
		cmocka_unit_test(test_small_views_of_a_served_file),
		cmocka_unit_test(test_parts_are_unmapped),
		cmocka_unit_test(test_mapped_again),
		cmocka_unit_test(test_something_is_mapped_over_a_part),
		cmocka_unit_test(test_mremap),
		cmocka_unit_test(test_mprotect),
		cmocka_unit_test(test_advice_and_sync),
		cmocka_unit_test(test_advice_stays),
		cmocka_unit_test(test_random_access_beyond_the_pool),
	};

	return RUN(tests);
}
