// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The smallest pool, of four blocks, and more processes than it can hold what is
 * copied and where to for: write(2) from a mapping and read(2) into one end all the
 * same, and are right.
 *
 * vm: page=2M,4K,auto lower=ext4 pool=8M timeout=120
 */
#include "common.h"

#define LENGTH (16ul << 20)
#define SHIFT 5000ul /* so that each block of one needs two of the other */
#define PROCESSES 4

/* The target holds the pattern of the source, from its byte SHIFT on. */
static void check(const char *how, int target, uint64_t seed)
{
	unsigned char *buf = buffer(HUGE);
	uint64_t off;

	for (off = 0; off < LENGTH - SHIFT; off += HUGE) {
		size_t n = LENGTH - SHIFT - off < HUGE ? LENGTH - SHIFT - off : HUGE;

		EXPECT(pread(target, buf, n, (off_t)off) == (ssize_t)n, "%s: a short read", how);
		expect_pattern(how, buf, seed, off + SHIFT, n);
	}
	free(buf);
}

BEHAVIOUR(write_from_mapping)
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
	check("written from a mapping", target, 1);
	MUST(munmap(from, LENGTH));
	close(source);
	close(target);
}

BEHAVIOUR(read_into_mapping)
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
	check("read into a mapping", target, 2);
	MUST(munmap(to, LENGTH));
	close(source);
	close(target);
}

static void one_of_several(void *arg)
{
	const char *name = arg;

	MUST(mkdir(name, 0755));
	MUST(chdir(name));
	write_from_mapping();
}

/* Several at once: each takes from the others what it has just waited for. */
BEHAVIOUR(several_at_once)
{
	pid_t pid[PROCESSES];
	char name[PROCESSES][16];
	int i;

	for (i = 0; i < PROCESSES; i++) {
		snprintf(name[i], sizeof(name[i]), "one-%d", i);
		pid[i] = start_child(one_of_several, name[i]);
	}
	for (i = 0; i < PROCESSES; i++)
		wait_child(pid[i]);
}

RUN_BEHAVIOURS
