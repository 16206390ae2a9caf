// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The smallest pool holds four blocks. Several processes copy at the same time, and together
 * need more blocks than that. write(2) from a mapping and read(2) into a mapping must still
 * complete, with the right bytes.
 *
 * vm: page=2M,4K,auto lower=ext4 pool=8M timeout=240
 */
#include "common.h"

#define LENGTH (16ul << 20)
/* No multiple of 2 MB, so each block of one file needs two blocks of the other. */
#define SHIFT 5000ul
#define PROCESSES 4

/* The target must hold the bytes of the source from SHIFT on. */
static void expect_copy(const char *how, int target, uint64_t seed)
{
	unsigned char *buf = buffer(HUGE);
	uint64_t off;

	for (off = 0; off < LENGTH - SHIFT; off += HUGE) {
		size_t n = LENGTH - SHIFT - off < HUGE ? LENGTH - SHIFT - off : HUGE;

		EXPECT(pread(target, buf, n, (off_t)off) == (ssize_t)n, "%s: short read", how);
		expect_pattern(how, buf, seed, off + SHIFT, n);
	}
	free(buf);
}

BEHAVIOUR(write_from_a_mapping)
{
	unsigned char *from;
	int source, target;
	size_t done = 0;

	source = make_file("source", 1, LENGTH);
	MUST(fsync(source));
	from = map_shared(source, 0, LENGTH);
	target = open_file("target", O_RDWR | O_CREAT);
	while (done < LENGTH - SHIFT) {
		ssize_t n = pwrite(target, from + SHIFT + done, LENGTH - SHIFT - done, (off_t)done);

		EXPECT(n > 0, "write of a mapping at %#zx: %s", done, strerror(errno));
		done += (size_t)n;
	}
	MUST(fsync(target));
	expect_copy("write from a mapping", target, 1);
	MUST(munmap(from, LENGTH));
	close(source);
	close(target);
}

BEHAVIOUR(read_into_a_mapping)
{
	unsigned char *to;
	int source, target;
	size_t done = 0;

	source = make_file("source", 2, LENGTH);
	MUST(fsync(source));
	target = open_file("target", O_RDWR | O_CREAT);
	MUST(ftruncate(target, LENGTH));
	to = map_shared(target, 0, LENGTH);
	while (done < LENGTH - SHIFT) {
		ssize_t n = pread(source, to + done, LENGTH - SHIFT - done, (off_t)(SHIFT + done));

		EXPECT(n > 0, "read into a mapping at %#zx: %s", done, strerror(errno));
		done += (size_t)n;
	}
	MUST(msync(to, LENGTH, MS_SYNC));
	expect_copy("read into a mapping", target, 2);
	MUST(munmap(to, LENGTH));
	close(source);
	close(target);
}

static void write_in_own_dir(void *arg)
{
	char name[16];

	snprintf(name, sizeof(name), "one-%u", *(unsigned int *)arg);
	MUST(mkdir(name, 0755));
	MUST(chdir(name));
	write_from_a_mapping();
}

/* Each process takes blocks that another one has just waited for. */
BEHAVIOUR(concurrent_writes_from_mappings)
{
	in_children(PROCESSES, write_in_own_dir);
}

RUN_BEHAVIOURS
