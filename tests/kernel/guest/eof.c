// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The end of the file, holes, and changes of the size under a mapping. Bytes past the end are
 * zero and are never written, an access beyond the last page raises SIGBUS, truncated bytes
 * never come back, and write-back does not change the length.
 *
 * vm: page=2M,4K,auto lower=ext4 timeout=240
 * vm: page=2M,4K,auto lower=xfs,tmpfs timeout=240 set=long
 */
#include "common.h"

#include <linux/falloc.h>
#include <linux/fs.h>
#include <sys/ioctl.h>

/* Ends within and at the end of a page and a block. */
static const uint64_t sizes[] = {
	1,	  4095,	       4096,	     4097,	   12345,    HUGE - 1,	   HUGE,
	HUGE + 1, HUGE + 4095, HUGE + 12288, 2 * HUGE - 1, 2 * HUGE, 2 * HUGE + 5,
};

static uint64_t pages_of(uint64_t size)
{
	return (size + SMALL - 1) / SMALL * SMALL;
}

static void expect_size(const char *name, uint64_t size)
{
	struct stat st, lower;

	MUST(stat(name, &st));
	EXPECT((uint64_t)st.st_size == size, "%s has %lld bytes, expected %llu", name,
	       (long long)st.st_size, (unsigned long long)size);
	MUST(stat(lower_path(name), &lower));
	EXPECT((uint64_t)lower.st_size == size, "%s has %lld bytes in the lower fs, expected %llu",
	       name, (long long)lower.st_size, (unsigned long long)size);
}

BEHAVIOUR(bytes_past_the_end_are_zero_and_never_written)
{
	unsigned int i;

	for (i = 0; i < COUNT(sizes); i++) {
		uint64_t size = sizes[i], mapped = pages_of(size);
		int fd = make_cold_file("f", 1, size);
		unsigned char *map;

		map = map_shared(fd, 0, 3 * HUGE);
		expect_zero("first load past the end", map + size, size, mapped - size);
		expect_pattern("load", map, 1, 0, size);
		/* Stores there are allowed, but belong to the mapping only, not to the file. */
		memset(map + size, 0xee, mapped - size);
		map[size - 1] ^= 1;
		map[size - 1] ^= 1;
		MUST(msync(map, mapped, MS_SYNC));
		MUST(fsync(fd));
		expect_size("f", size);
		expect_lower("lower file", "f", 1, 0, size);
		MUST(ftruncate(fd, 3 * HUGE));
		expect_pattern("load after growing", map, 1, 0, size);
		expect_zero("load of the bytes that were past the end", map + size, size,
			    3 * HUGE - size);
		MUST(fsync(fd));
		expect_size("f", 3 * HUGE);
		MUST(munmap(map, 3 * HUGE));
		close(fd);
	}
}

/* Even if a mapping stored to the bytes past the old end. */
BEHAVIOUR(write_beyond_the_end_leaves_zeros_in_between)
{
	unsigned int i;

	for (i = 0; i < COUNT(sizes); i++) {
		uint64_t size = sizes[i], mapped = pages_of(size);
		int fd = make_file("f", 2, size);
		unsigned char *map = map_shared(fd, 0, 4 * HUGE);
		unsigned char *buf = buffer(HUGE);

		memset(map + size, 0xee, mapped - size);
		write_pattern(fd, 2, size + 10000, 100);
		MUST(pread(fd, buf, 10000, (off_t)size));
		expect_zero("read between the old end and a write", buf, size, 10000);
		expect_zero("load between the old end and a write", map + size, size, 10000);
		expect_pattern("load of the write", map + size + 10000, 2, size + 10000, 100);
		expect_pattern("load of the old part", map, 2, 0, size);
		MUST(fsync(fd));
		expect_size("f", size + 10100);
		MUST(munmap(map, 4 * HUGE));
		free(buf);
		close(fd);
	}
}

BEHAVIOUR(access_beyond_the_last_page_raises_sigbus)
{
	unsigned int i;

	catch_signals();
	for (i = 0; i < COUNT(sizes); i++) {
		uint64_t size = sizes[i], mapped = pages_of(size);
		int fd = make_file("f", 3, size);
		unsigned char *map = map_shared(fd, 0, 4 * HUGE);

		expect_sigbus_of_load(map + mapped, "just beyond the last page");
		expect_sigbus_of_store(map + mapped, "just beyond the last page");
		expect_sigbus_of_store(map + 4 * HUGE - 1, "far beyond the last page");
		EXPECT(!signal_of_load(map + mapped - 1), "SIGBUS within the last page");
		expect_sigbus_of_load(map + mapped, "beyond the last page, which is present now");
		/* Growth by one page allows access to this page only. */
		MUST(ftruncate(fd, (off_t)mapped + 1));
		EXPECT(!signal_of_load(map + mapped), "SIGBUS within the file after it grew");
		expect_sigbus_of_load(map + mapped + SMALL, "beyond the new last page");
		expect_size("f", mapped + 1);
		MUST(munmap(map, 4 * HUGE));
		close(fd);
	}
}

/* Whether the truncated pages are mapped, dirty or part of a huge page. */
BEHAVIOUR(truncated_bytes_are_gone_and_do_not_come_back)
{
	unsigned int i;

	catch_signals();
	for (i = 0; i < COUNT(sizes); i++) {
		uint64_t size = sizes[i], mapped = pages_of(size);
		int fd = make_file("f", 4, 4 * HUGE);
		unsigned char *map = map_shared(fd, 0, 4 * HUGE);

		pattern(map, 40, 0, 4 * HUGE);
		MUST(ftruncate(fd, (off_t)size));
		expect_pattern("load of the remaining bytes", map, 40, 0, size);
		expect_zero("load past the new end", map + size, size, mapped - size);
		expect_sigbus_of_load(map + mapped, "behind the new end");
		expect_sigbus_of_store(map + 4 * HUGE - 1, "behind the new end");
		MUST(fsync(fd));
		expect_size("f", size);
		MUST(ftruncate(fd, 4 * HUGE));
		expect_zero("load after growing again", map + size, size, 4 * HUGE - size);
		MUST(fsync(fd));
		expect_pattern("load of the remaining bytes after growing again", map, 40, 0, size);
		expect_lower("lower file", "f", 40, 0, size);
		MUST(munmap(map, 4 * HUGE));
		close(fd);
	}
}

BEHAVIOUR(truncate_and_o_trunc_cut_a_mapped_file)
{
	int fd = make_file("f", 5, 2 * HUGE), other;
	unsigned char *map = map_shared(fd, 0, 2 * HUGE);

	catch_signals();
	pattern(map, 50, 0, 2 * HUGE);
	MUST(truncate("f", HUGE + 10));
	expect_pattern("load after truncate(2)", map, 50, 0, HUGE + 10);
	expect_sigbus_of_load(map + HUGE + SMALL, "behind truncate(2)");
	other = open_file("f", O_RDWR | O_TRUNC);
	expect_sigbus_of_load(map, "behind O_TRUNC");
	write_pattern(other, 51, 0, HUGE + 10);
	expect_pattern("load of bytes written after O_TRUNC", map, 51, 0, HUGE + 10);
	/* The lower file grows with write-back: it is never longer than its data. */
	MUST(fsync(other));
	expect_size("f", HUGE + 10);
	expect_lower("lower file", "f", 51, 0, HUGE + 10);
}

struct cutter {
	int fd;
	unsigned char *map;
};

static void truncate_and_grow(void *arg)
{
	struct cutter *c = arg;
	unsigned int i;

	for (i = 0; i < 100; i++) {
		MUST(ftruncate(c->fd, (off_t)(i * 7919 % (2 * HUGE))));
		MUST(ftruncate(c->fd, 2 * HUGE));
	}
}

/* One process stores while another one truncates the file. */
BEHAVIOUR(stores_that_race_with_truncate_do_not_come_back)
{
	struct cutter c = { .fd = open_file("f", O_RDWR | O_CREAT) };
	uint64_t off = 0, stores = 0, faults = 0;
	int status;
	pid_t pid;

	catch_signals();
	MUST(ftruncate(c.fd, 2 * HUGE));
	c.map = map_shared(c.fd, 0, 2 * HUGE);
	pid = start_child(truncate_and_grow, &c);
	while (waitpid(pid, &status, WNOHANG) == 0) {
		off = (off + 37 * SMALL + 1) % (2 * HUGE);
		if (signal_of_store(c.map + off))
			faults++;
		stores++;
	}
	EXPECT(!status, "the child that truncates ended with %#x", status);
	MUST(ftruncate(c.fd, 0));
	MUST(ftruncate(c.fd, 2 * HUGE));
	expect_zero("load after the last truncate", c.map, 0, 2 * HUGE);
	printf("  (%llu stores, %llu of them raised SIGBUS)\n", (unsigned long long)stores,
	       (unsigned long long)faults);
}

static const struct {
	uint64_t off, len;
} holes[] = {
	{ 0, SMALL },
	{ 100, 50 },
	{ SMALL - 1, 2 },
	{ 3 * SMALL + 7, 5 * SMALL },
	{ HUGE - SMALL, 2 * SMALL },
	{ HUGE, HUGE },
	{ HUGE / 2 + 3, 2 * HUGE },
	{ 3 * HUGE + 9, 1 },
	{ 4 * HUGE - 77, 3 * HUGE },
};

BEHAVIOUR(punched_holes_read_as_zeros_and_can_be_stored_to)
{
	unsigned int i;

	for (i = 0; i < COUNT(holes); i++) {
		uint64_t size = 4 * HUGE, off = holes[i].off, end = off + holes[i].len;
		int fd = make_file("f", 6, size);
		unsigned char *map = map_shared(fd, 0, size);
		unsigned char *buf = buffer(size);

		pattern(map, 60, 0, size);
		if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)off,
			      (off_t)holes[i].len)) {
			EXPECT(errno == EOPNOTSUPP, "punch: %s", strerror(errno));
			skip("no hole punching here");
		}
		if (end > size)
			end = size;
		expect_zero("load of a hole", map + off, off, end - off);
		expect_pattern("load before a hole", map, 60, 0, off);
		expect_pattern("load behind a hole", map + end, 60, end, size - end);
		MUST(pread(fd, buf, size, 0));
		expect_zero("read of a hole", buf + off, off, end - off);
		/* A store into the hole makes it data again. */
		pattern(map + off, 61, off, end - off);
		MUST(fsync(fd));
		expect_lower("lower file, stores into a hole", "f", 61, off, end - off);
		expect_lower("lower file, before the hole", "f", 60, 0, off);
		expect_size("f", size);
		MUST(munmap(map, size));
		free(buf);
		close(fd);
	}
}

BEHAVIOUR(zero_collapse_and_insert_range_change_the_mapping)
{
	uint64_t size = 4 * HUGE;
	int fd = make_file("f", 7, size);
	unsigned char *map = map_shared(fd, 0, size);

	pattern(map, 70, 0, size);
	if (fallocate(fd, FALLOC_FL_ZERO_RANGE, 1000, 3 * SMALL)) {
		EXPECT(errno == EOPNOTSUPP, "zero range: %s", strerror(errno));
		skip("no zero range here");
	}
	expect_zero("load of a zeroed range", map + 1000, 1000, 3 * SMALL);
	expect_pattern("load behind a zeroed range", map + 1000 + 3 * SMALL, 70, 1000 + 3 * SMALL,
		       HUGE);
	if (fallocate(fd, FALLOC_FL_COLLAPSE_RANGE, HUGE, HUGE)) {
		EXPECT(errno == EOPNOTSUPP, "collapse: %s", strerror(errno));
		skip("no collapse range here");
	}
	expect_size("f", 3 * HUGE);
	/* The bytes from 2 x HUGE are at HUGE now: the old pages must not be served there. */
	expect_pattern("load before a collapsed range", map + HUGE - SMALL, 70, HUGE - SMALL,
		       SMALL);
	expect_pattern("load behind a collapsed range, shifted", map + HUGE + SMALL - 8, 70,
		       2 * HUGE + SMALL - 8, SMALL);
	if (fallocate(fd, FALLOC_FL_INSERT_RANGE, SMALL, 2 * SMALL))
		skip("no insert range here: %s", strerror(errno));
	expect_size("f", 3 * HUGE + 2 * SMALL);
	expect_zero("load of an inserted range", map + SMALL, SMALL, 2 * SMALL);
	expect_pattern("load behind an inserted range", map + 20 * SMALL, 70, 18 * SMALL, SMALL);
	MUST(fsync(fd));
}

BEHAVIOUR(loads_of_holes_are_zero_and_allocate_nothing)
{
	uint64_t size = 5 * HUGE + 333;
	int fd = open_file("f", O_RDWR | O_CREAT);
	unsigned char *map;
	struct stat st;

	MUST(ftruncate(fd, (off_t)size));
	map = map_shared(fd, 0, size);
	expect_zero("load of a hole", map, 0, size);
	MUST(fsync(fd));
	MUST(stat(lower_path("f"), &st));
	EXPECT(st.st_blocks < 64, "a file that was only read has %lld sectors in the lower fs",
	       (long long)st.st_blocks);
	pattern(map + HUGE + 5, 80, HUGE + 5, 10);
	pattern(map + 5 * HUGE + 300, 81, 5 * HUGE + 300, 33);
	MUST(msync(map, size, MS_SYNC));
	expect_lower("lower file, store into a hole", "f", 80, HUGE + 5, 10);
	expect_lower("lower file, store into the last page", "f", 81, 5 * HUGE + 300, 33);
	expect_zero("load beside a store in a hole", map, 0, HUGE + 5);
	expect_zero("load behind a store in a hole", map + HUGE + 15, HUGE + 15, 4 * HUGE);
	expect_size("f", size);
}

/* The pages of stores and writes that no sync has written back yet. */
BEHAVIOUR(seek_data_and_seek_hole_know_dirty_pages)
{
	int fd = open_file("f", O_RDWR | O_CREAT);
	unsigned char *map;
	off_t data, hole;

	MUST(ftruncate(fd, 6 * HUGE));
	map = map_shared(fd, 0, 6 * HUGE);
	EXPECT_ERRNO(lseek(fd, 6 * HUGE, SEEK_DATA), ENXIO);
	map[3 * HUGE] = 1;
	data = lseek(fd, 0, SEEK_DATA);
	if (data == 0)
		skip("this file system does not report holes");
	EXPECT(data > 0 && data <= (off_t)(3 * HUGE),
	       "SEEK_DATA returned %lld, expected at most %lu, the offset of a store",
	       (long long)data, 3 * HUGE);
	hole = lseek(fd, 3 * HUGE, SEEK_HOLE);
	EXPECT(hole > (off_t)(3 * HUGE) && hole <= (off_t)(6 * HUGE),
	       "SEEK_HOLE from the data returned %lld", (long long)hole);
	write_pattern(fd, 1, 5 * HUGE, 1);
	data = lseek(fd, hole, SEEK_DATA);
	EXPECT(hole == 6 * HUGE || (data >= 0 && data <= (off_t)(5 * HUGE)),
	       "SEEK_DATA behind the hole returned %lld", (long long)data);
}

BEHAVIOUR(preallocated_space_reads_as_zeros_and_can_be_stored_to)
{
	int fd = make_file("f", 9, 1000);
	unsigned char *map = map_shared(fd, 0, 3 * HUGE);

	if (fallocate(fd, 0, 0, 2 * HUGE + 100)) {
		EXPECT(errno == EOPNOTSUPP, "fallocate: %s", strerror(errno));
		skip("no fallocate here");
	}
	expect_size("f", 2 * HUGE + 100);
	expect_pattern("load of the old part", map, 9, 0, 1000);
	expect_zero("load of preallocated space", map + 1000, 1000, 2 * HUGE - 900);
	pattern(map + HUGE, 90, HUGE, HUGE + 100);
	MUST(fdatasync(fd));
	expect_lower("lower file, stores into preallocated space", "f", 90, HUGE, HUGE + 100);
	MUST(fallocate(fd, FALLOC_FL_KEEP_SIZE, 2 * HUGE, 2 * HUGE));
	expect_size("f", 2 * HUGE + 100);
}

/* The lower file is never longer than the data that is written back to it. */
BEHAVIOUR(fallocate_of_appended_bytes_does_not_lengthen_the_lower_file)
{
	int fd = open_file("f", O_RDWR | O_CREAT);
	struct stat st;

	write_pattern(fd, 8, 0, 2 * HUGE);
	if (fallocate(fd, 0, 0, 2 * HUGE)) {
		EXPECT(errno == EOPNOTSUPP, "fallocate: %s", strerror(errno));
		skip("no fallocate here");
	}
	MUST(stat(lower_path("f"), &st));
	expect_lower("lower file before a sync", "f", 8, 0, (size_t)st.st_size);
	MUST(fsync(fd));
	expect_size("f", 2 * HUGE);
	expect_lower("lower file after a sync", "f", 8, 0, 2 * HUGE);
}

/* The last page stays in the cache, and the added bytes read as zeros after each step. */
BEHAVIOUR(file_that_grows_in_small_steps_stays_cached)
{
	static const char zero;
	const unsigned int pages = 3, step = 64;
	int fd = make_file("f", 1, HUGE + 10);
	unsigned char *map = map_shared(fd, 0, 2 * HUGE);
	uint64_t fills = 0, written = 0;
	size_t size, steps = 0;

	MUST(fsync(fd));
	if (on_hugemap()) {
		fills = mount_stat("fills");
		written = mount_stat("written_bytes");
	}
	for (size = HUGE + 10; size < HUGE + pages * SMALL; steps++) {
		/* Stores beyond the end must not become data: in this step, or in the next one. */
		map[size + 1] = 0x77;
		if (size / SMALL == (size + step) / SMALL)
			map[size + step] = 0x77;
		if (steps % 3 == 0)
			MUST(posix_fallocate(fd, (off_t)(size + step - 1), 1));
		else if (steps % 3 == 1)
			MUST(ftruncate(fd, (off_t)(size + step)));
		else
			MUST(pwrite(fd, &zero, 1, (off_t)(size + step - 1)) - 1);
		expect_zero("behind the old end", map + size, size, step);
		pattern(map + size, 1, size, step);
		size += step;
	}
	if (on_hugemap()) {
		fills = mount_stat("fills") - fills;
		written = mount_stat("written_bytes") - written;
		EXPECT(fills <= 2 * pages, "%zu steps read %llu units", steps,
		       (unsigned long long)fills);
		EXPECT(written <= pages * HUGE && written < steps * SMALL,
		       "%zu steps wrote %llu bytes", steps, (unsigned long long)written);
	}
	read_pattern("read", fd, 1, 0, size);
	MUST(fsync(fd));
	expect_lower("lower file", "f", 1, 0, size);
}

/* The range ends in a hole. The data behind it is dirty, so the lower file ends too early. */
BEHAVIOUR(clone_works_beyond_the_end_of_the_lower_file)
{
	int fd = open_file("f", O_RDWR | O_CREAT), to = open_file("g", O_RDWR | O_CREAT);
	struct file_clone_range range = { .src_fd = fd, .src_length = HUGE / 4 };
	unsigned char *buf = buffer(HUGE);

	write_pattern(fd, 10, 0, SMALL);
	write_pattern(fd, 10, HUGE / 2, SMALL);
	if (ioctl(to, FICLONERANGE, &range)) {
		EXPECT(errno == EOPNOTSUPP, "clone: %s", strerror(errno));
		skip("no clones here");
	}
	expect_size("g", HUGE / 4);
	read_pattern("read of a clone", to, 10, 0, SMALL);
	EXPECT(pread(to, buf, HUGE, SMALL) == HUGE / 4 - SMALL, "short read of a clone");
	expect_zero("read of a clone", buf, SMALL, HUGE / 4 - SMALL);
	/* copy_file_range may clone, too. */
	MUST(ftruncate(to, 0));
	write_pattern(fd, 10, HUGE, SMALL);
	EXPECT(copy_file_range(fd, NULL, to, NULL, HUGE - SMALL, 0) == HUGE - SMALL,
	       "copy_file_range: %s", strerror(errno));
	read_pattern("read of a copy", to, 10, HUGE / 2, SMALL);
	free(buf);
}

/* A mode that the module does not know might change bytes that are cached. */
BEHAVIOUR(unknown_modes_of_fallocate_are_refused)
{
	int fd = make_file("f", 12, 2 * HUGE), bit;
	unsigned char *map = map_shared(fd, 0, 2 * HUGE);

	for (bit = 7; bit < 31; bit++) {
		EXPECT_ERRNO(fallocate(fd, 1 << bit, 0, HUGE), EOPNOTSUPP);
		EXPECT_ERRNO(fallocate(fd, 1 << bit | FALLOC_FL_KEEP_SIZE, HUGE, HUGE), EOPNOTSUPP);
	}
	expect_pattern("load after refused changes", map, 12, 0, 2 * HUGE);
	MUST(fsync(fd));
	expect_lower("lower file after refused changes", "f", 12, 0, 2 * HUGE);
}

BEHAVIOUR(small_appends_and_syncs_can_alternate)
{
	int fd = open_file("f", O_RDWR | O_CREAT | O_APPEND);
	unsigned char *buf = buffer(SMALL);
	unsigned char *map = map_shared(fd, 0, HUGE);
	uint64_t size = 0;
	unsigned int i;

	for (i = 0; i < 600; i++) {
		size_t len = 1 + i * 31 % 997;

		pattern(buf, 100, size, len);
		EXPECT(write(fd, buf, len) == (ssize_t)len, "append: %s", strerror(errno));
		size += len;
		if (i % 37 == 0)
			MUST(fsync(fd));
		if (i % 41 == 0)
			expect_pattern("load while the file grows", map, 100, 0, size);
	}
	MUST(fsync(fd));
	expect_size("f", size);
	expect_lower("lower file", "f", 100, 0, size);
}

static void append_and_store(void *arg)
{
	int fd = open_file("f", O_RDWR | O_APPEND);
	unsigned char *map = map_shared(fd, 0, HUGE);
	uint64_t off;

	(void)arg;
	for (;;) {
		EXPECT(write(fd, "", 1) == 1, "append: %s", strerror(errno));
		for (off = 0; off < HUGE / 2; off += 2 * SMALL)
			map[off]++;
	}
}

/* Another process keeps appending to the file and storing to it. */
BEHAVIOUR(sync_ends_beside_appends_and_stores)
{
	int fd = make_file("f", 101, HUGE / 2), i;
	pid_t pid;

	pid = start_child(append_and_store, NULL);
	for (i = 0; i < 10; i++) {
		usleep(20000);
		MUST(fsync(fd));
	}
	MUST(kill(pid, SIGKILL));
	MUST(waitpid(pid, NULL, 0));
}

RUN_BEHAVIOURS
