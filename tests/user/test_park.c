// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* What stays cached of files that nobody maps any more, and when it must not. */
#include "common.h"

#include <linux/magic.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "for_run.h"

#define SEED 11
#define OTHER 12
#define SIZE (4 * BLOCK)

static const enum hugemap_page pages[] = { HUGEMAP_PAGE_2M, HUGEMAP_PAGE_4K };

/* A pool, and a mapping in it whose numbers can be asked for. */
struct fixture {
	struct hugemap_pool *pool;
	struct file anchor;
	char *at;
};

static void begin_with(struct fixture *f, size_t bytes)
{
	f->pool = pool_new(bytes);
	file_new(&f->anchor, PAGE);
	f->at = map_file(&f->anchor, f->pool, HUGEMAP_PAGE_4K, PROT_READ);
}

static void begin(struct fixture *f)
{
	begin_with(f, MB(32));
}

static void end(struct fixture *f)
{
	ok(hugemap_unmap(f->at, PAGE));
	file_close(&f->anchor);
	pool_free(f->pool);
}

/* A change time must be this old on kernels whose times are coarse. */
static void settle(void)
{
	usleep(150000);
}

/* A file that nobody has open. */
static void file_closed(struct file *file, size_t size, uint64_t seed)
{
	file_pattern(file, size, seed);
	close(file->fd);
	settle();
}

static void reopen(struct file *file, int flags)
{
	file->fd = open(file->path, flags | O_CLOEXEC);
	assert_true(file->fd >= 0);
}

/* Map it, compare all of it, unmap it. Returns the bytes that were read for that. */
static uint64_t look(struct fixture *f, struct file *file, enum hugemap_page page, uint64_t seed,
		     size_t size)
{
	uint64_t before = stat_of(f->at).read_bytes;
	char *addr;

	reopen(file, O_RDONLY);
	addr = map_file(file, f->pool, page, PROT_READ);
	close(file->fd);
	assert_int_equal(pattern_differs(addr, seed, 0, size), size);
	ok(hugemap_unmap(addr, size));
	return stat_of(f->at).read_bytes - before;
}

static void remove_file(struct file *file)
{
	assert_int_equal(unlink(file->path), 0);
}

static void test_what_was_read_stays_cached(void **state)
{
	size_t sizes[] = { SIZE, BLOCK + 3 * PAGE + 5 }, i;
	struct fixture f;

	for (i = 0; i < 4; i++) {
		size_t size = sizes[i / 2];
		struct file file;

		begin(&f);
		file_closed(&file, size, SEED);
		assert_true(look(&f, &file, pages[i % 2], SEED, size) >= size);
		assert_int_equal(look(&f, &file, pages[i % 2], SEED, size), 0);
		assert_int_equal(look(&f, &file, pages[1 - i % 2], SEED, size), 0);
		remove_file(&file);
		end(&f);
	}
}

static void test_what_was_stored_stays_cached(void **state)
{
	struct fixture f;
	struct file file;
	char *addr;

	begin(&f);
	file_closed(&file, SIZE, SEED);
	look(&f, &file, HUGEMAP_PAGE_2M, SEED, SIZE);
	reopen(&file, O_RDWR);
	addr = map_file(&file, f.pool, HUGEMAP_PAGE_2M, PROT_READ | PROT_WRITE);
	close(file.fd);
	pattern_fill(addr, OTHER, 0, SIZE);
	ok(hugemap_sync(addr, SIZE, MS_SYNC));
	settle();
	ok(hugemap_unmap(addr, SIZE));
	assert_int_equal(look(&f, &file, HUGEMAP_PAGE_2M, OTHER, SIZE), 0);
	remove_file(&file);
	end(&f);
}

/* A page that is mapped for writing may change without a trace. */
static void test_nothing_stays_while_somebody_may_write(void **state)
{
	struct fixture f;
	struct file file;
	char *addr, *kernel;

	begin(&f);
	file_closed(&file, SIZE, SEED);
	reopen(&file, O_RDONLY);
	addr = map_file(&file, f.pool, HUGEMAP_PAGE_2M, PROT_READ);
	close(file.fd);
	assert_int_equal(pattern_differs(addr, SEED, 0, SIZE), SIZE);
	reopen(&file, O_RDWR);
	kernel = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, file.fd, 0);
	assert_true(kernel != MAP_FAILED);
	close(file.fd);
	*(volatile char *)kernel = addr[0]; /* the only one that is noticed */
	settle();
	ok(hugemap_unmap(addr, SIZE));
	*(volatile char *)kernel = 'x';
	assert_int_equal(munmap(kernel, SIZE), 0);
	reopen(&file, O_RDONLY);
	addr = map_file(&file, f.pool, HUGEMAP_PAGE_2M, PROT_READ);
	assert_int_equal(addr[0], 'x');
	ok(hugemap_unmap(addr, SIZE));
	file_close(&file);
	end(&f);
}

static void change_by_write(struct file *file)
{
	struct timespec times[2];
	char *data = malloc(SIZE);
	struct stat st;

	pattern_fill(data, OTHER, 0, SIZE);
	reopen(file, O_RDWR);
	assert_int_equal(fstat(file->fd, &st), 0);
	assert_int_equal(pwrite(file->fd, data, SIZE, 0), SIZE);
	/* The time that tools look at can be set. */
	times[0] = st.st_atim;
	times[1] = st.st_mtim;
	assert_int_equal(futimens(file->fd, times), 0);
	close(file->fd);
	free(data);
}

static void change_by_store(struct file *file)
{
	char *data;

	reopen(file, O_RDWR);
	data = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, file->fd, 0);
	assert_true(data != MAP_FAILED);
	pattern_fill(data, OTHER, 0, SIZE);
	assert_int_equal(munmap(data, SIZE), 0);
	close(file->fd);
}

/* Its number is likely to be used again. */
static void change_by_a_new_file(struct file *file)
{
	char *data = malloc(SIZE);
	int fd;

	pattern_fill(data, OTHER, 0, SIZE);
	remove_file(file);
	fd = open(file->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, data, SIZE), SIZE);
	close(fd);
	free(data);
}

static void test_changes_are_seen(void **state)
{
	void (*const changes[])(struct file *) = { change_by_write, change_by_store,
						   change_by_a_new_file };
	struct fixture f;
	size_t i;

	for (i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		struct file file;

		begin(&f);
		file_closed(&file, SIZE, SEED);
		look(&f, &file, HUGEMAP_PAGE_2M, SEED, SIZE);
		assert_int_equal(look(&f, &file, HUGEMAP_PAGE_2M, SEED, SIZE), 0);
		changes[i](&file);
		assert_true(look(&f, &file, HUGEMAP_PAGE_2M, OTHER, SIZE) >= SIZE);
		remove_file(&file);
		end(&f);
	}
}

/* Shorter and as long again: what was cut off is zero. */
static void test_a_length_that_came_back(void **state)
{
	struct fixture f;
	struct file file;
	char *addr;
	size_t at;

	begin(&f);
	file_closed(&file, SIZE, SEED);
	look(&f, &file, HUGEMAP_PAGE_2M, SEED, SIZE);
	assert_int_equal(truncate(file.path, BLOCK), 0);
	assert_int_equal(truncate(file.path, SIZE), 0);
	reopen(&file, O_RDONLY);
	addr = map_file(&file, f.pool, HUGEMAP_PAGE_2M, PROT_READ);
	assert_int_equal(pattern_differs(addr, SEED, 0, BLOCK), BLOCK);
	for (at = BLOCK; at < SIZE; at += PAGE)
		assert_int_equal(addr[at], 0);
	ok(hugemap_unmap(addr, SIZE));
	file_close(&file);
	end(&f);
}

static void test_stores_beyond_the_end_are_forgotten(void **state)
{
	size_t size = BLOCK + 100, p;
	struct fixture f;

	for (p = 0; p < 2; p++) {
		struct file file;
		char *addr;

		begin(&f);
		file_closed(&file, size, SEED);
		reopen(&file, O_RDWR);
		addr = map_file(&file, f.pool, pages[p], PROT_READ | PROT_WRITE);
		close(file.fd);
		addr[size] = 'x';
		ok(hugemap_sync(addr, size, MS_SYNC));
		settle();
		ok(hugemap_unmap(addr, size));
		reopen(&file, O_RDONLY);
		addr = map_file(&file, f.pool, pages[p], PROT_READ);
		assert_int_equal(addr[size], 0);
		assert_int_equal(pattern_differs(addr, SEED, 0, size), size);
		ok(hugemap_unmap(addr, size));
		file_close(&file);
		end(&f);
	}
}

/* Frames of parked files are anybody's who needs them. */
static void test_parked_files_make_room(void **state)
{
	struct file parked, large;
	struct fixture f;
	int turn;

	begin_with(&f, MB(16));
	file_closed(&parked, 3 * BLOCK, SEED);
	file_closed(&large, MB(40), OTHER);
	for (turn = 0; turn < 2; turn++) {
		look(&f, &parked, HUGEMAP_PAGE_2M, SEED, 3 * BLOCK);
		look(&f, &large, HUGEMAP_PAGE_2M, OTHER, MB(40));
		look(&f, &large, HUGEMAP_PAGE_4K, OTHER, MB(40));
	}
	remove_file(&parked);
	remove_file(&large);
	end(&f);
}

/* More than are kept: the oldest ones go. */
static void test_not_too_many_are_parked(void **state)
{
	enum {
		FILES = 300
	};
	static struct file files[FILES];
	struct fixture f;
	int i;

	begin(&f);
	for (i = 0; i < FILES; i++) {
		file_pattern(&files[i], PAGE, SEED);
		close(files[i].fd);
	}
	settle();
	for (i = 0; i < FILES; i++)
		look(&f, &files[i], HUGEMAP_PAGE_4K, SEED, PAGE);
	assert_int_equal(look(&f, &files[FILES - 1], HUGEMAP_PAGE_4K, SEED, PAGE), 0);
	assert_int_equal(look(&f, &files[100], HUGEMAP_PAGE_4K, SEED, PAGE), 0);
	assert_int_equal(look(&f, &files[0], HUGEMAP_PAGE_4K, SEED, PAGE), PAGE);
	for (i = 0; i < FILES; i++)
		remove_file(&files[i]);
	end(&f);
}

/* `hugemap run` knows who writes: itself. */
static void test_guarded_files_may_be_open(void **state)
{
	struct fixture f;
	struct file file;
	uint64_t before;
	char *addr;
	int fd;

	begin(&f);
	atomic_store(&hugemap_files_are_guarded, true);
	file_closed(&file, SIZE, SEED);
	fd = open(file.path, O_RDWR | O_CLOEXEC);
	look(&f, &file, HUGEMAP_PAGE_2M, SEED, SIZE);
	assert_int_equal(look(&f, &file, HUGEMAP_PAGE_2M, SEED, SIZE), 0);
	/* But what the kernel has a mapping of now, it may change. */
	addr = map_file(&(struct file){ .fd = fd }, f.pool, HUGEMAP_PAGE_2M,
			PROT_READ | PROT_WRITE);
	before = stat_of(f.at).read_bytes;
	ok(hugemap_step_aside(fd, "a test"));
	ok(hugemap_unmap(addr, SIZE));
	assert_true(look(&f, &file, HUGEMAP_PAGE_2M, SEED, SIZE) >= SIZE);
	assert_true(stat_of(f.at).read_bytes - before >= SIZE);
	atomic_store(&hugemap_files_are_guarded, false);
	close(fd);
	remove_file(&file);
	end(&f);
}

/* Does the file system tell changes at all? */
static bool place_is_known(void)
{
	const char *dir = getenv("HM_TEST_DIR");
	struct statfs fs;

	if (statfs(dir ? dir : "/var/tmp", &fs))
		return false;
	return fs.f_type == EXT4_SUPER_MAGIC || fs.f_type == 0x58465342 ||
	       (unsigned long)fs.f_type == BTRFS_SUPER_MAGIC ||
	       (unsigned long)fs.f_type == F2FS_SUPER_MAGIC;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_was_read_stays_cached),
		cmocka_unit_test(test_what_was_stored_stays_cached),
		cmocka_unit_test(test_nothing_stays_while_somebody_may_write),
		cmocka_unit_test(test_changes_are_seen),
		cmocka_unit_test(test_a_length_that_came_back),
		cmocka_unit_test(test_stores_beyond_the_end_are_forgotten),
		cmocka_unit_test(test_parked_files_make_room),
		cmocka_unit_test(test_not_too_many_are_parked),
		cmocka_unit_test(test_guarded_files_may_be_open),
	};

	if (!place_is_known()) {
		printf("skipped: nothing stays cached on this file system\n");
		return 77;
	}
	return RUN(tests);
}
