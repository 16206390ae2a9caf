// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Count the guest's instructions for a file that grows in small steps, each followed by a store to
 * its last byte in a mapping. count-insns.c explains the counter.
 *
 *	count-grow FILE STEPS COUNT...
 *
 * Each COUNT creates FILE, and prints a line "NAME STEPS INSTRUCTIONS FAULTS":
 *
 *	fallocate	posix_fallocate() of one byte
 *	truncate	ftruncate() that adds one byte
 *	append-100	write() of 100 bytes
 *	append-512	write() of 512 bytes
 *
 * With "-sync" after a name, an fsync() runs after every 16 steps. Its own instructions are not
 * counted.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "count.h"

#define STEP_MAX 512
#define SYNC_STEPS 16

static int fallocate_byte(int fd, size_t size, size_t step)
{
	return posix_fallocate(fd, (off_t)size, (off_t)step);
}

static int truncate_byte(int fd, size_t size, size_t step)
{
	return ftruncate(fd, (off_t)(size + step));
}

static int append(int fd, size_t size, size_t step)
{
	static const char data[STEP_MAX];

	return write(fd, data, step) != (ssize_t)step;
}

static const struct way {
	const char *name;
	int (*grow)(int fd, size_t size, size_t step);
	size_t step;
} ways[] = {
	{ "fallocate", fallocate_byte, 1 },
	{ "truncate", truncate_byte, 1 },
	{ "append-100", append, 100 },
	{ "append-512", append, 512 },
};

static long faults(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_minflt + usage.ru_majflt;
}

static uint64_t count_sync(int fd)
{
	uint64_t begin = now();

	if (fsync(fd))
		fail("fsync");
	return now() - begin;
}

static void run(const char *path, size_t steps, const char *name)
{
	const struct way *way = ways;
	size_t size = 0, length;
	const char *sync = strstr(name, "-sync");
	uint64_t begin, not_counted = 0;
	long faults_before;
	char *map;
	int fd;

	length = sync ? (size_t)(sync - name) : strlen(name);
	while (strlen(way->name) != length || strncmp(way->name, name, length))
		if (++way == ways + sizeof(ways) / sizeof(ways[0])) {
			fprintf(stderr, "count-grow: unknown count %s\n", name);
			exit(2);
		}
	unlink(path);
	fd = open(path, O_RDWR | O_CREAT, 0644);
	if (fd < 0)
		fail(path);
	map = mmap(NULL, steps * way->step, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		fail("mmap");
	faults_before = faults();
	begin = now();
	for (size_t i = 0; i < steps; i++) {
		if (way->grow(fd, size, way->step))
			fail(way->name);
		size += way->step;
		map[size - 1] = 'x';
		if (sync && i % SYNC_STEPS == SYNC_STEPS - 1)
			not_counted += count_sync(fd);
	}
	printf("%s %zu %llu %ld\n", name, steps, (unsigned long long)(now() - begin - not_counted),
	       faults() - faults_before);
	munmap(map, steps * way->step);
	close(fd);
	unlink(path);
}

int main(int argc, char **argv)
{
	if (argc < 4) {
		fprintf(stderr, "usage: count-grow FILE STEPS COUNT...\n");
		return 2;
	}
	for (int i = 3; i < argc; i++)
		run(argv[1], strtoul(argv[2], NULL, 0), argv[i]);
	return 0;
}
