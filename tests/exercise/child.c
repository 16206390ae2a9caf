// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The exerciser as a child of itself: it does one operation on a range of the file, which it
 * opens by its path or has inherited as a descriptor, and exits. It writes the bytes that it
 * has read to a descriptor, and its parent compares them.
 */
#include "ops.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* @where: a path, or the number of an inherited descriptor. */
static int open_file(const char *where, int flags)
{
	return where[0] >= '0' && where[0] <= '9' ? atoi(where) : open(where, flags);
}

static int trouble(const char *what, ssize_t n)
{
	fprintf(stderr, "child of the exerciser: %s: %s\n", what,
		n < 0 ? strerror(errno) : "too little");
	return 1;
}

static int put_all(int to, const unsigned char *bytes, uint64_t len)
{
	uint64_t done = 0;

	while (done < len) {
		ssize_t n = write(to, bytes + done, len - done);

		if (n <= 0)
			return trouble("write of the answer", n);
		done += (uint64_t)n;
	}
	return 0;
}

static unsigned char *map_range(int fd, uint64_t off, uint64_t len, int prot)
{
	uint64_t skip = off % PAGE;
	unsigned char *addr = mmap(NULL, len + skip, prot, MAP_SHARED, fd, (off_t)(off - skip));

	return addr == MAP_FAILED ? NULL : addr + skip;
}

static int child_read(int fd, uint64_t off, uint64_t len, int to)
{
	unsigned char *buf = malloc(len);
	uint64_t done = 0;
	ssize_t n = 1;
	int status;

	if (!buf)
		return trouble("malloc", -1);
	for (; done < len && n > 0; done += (uint64_t)n)
		n = pread(fd, buf + done, len - done, (off_t)(off + done));
	status = n > 0 ? put_all(to, buf, len) : trouble("pread", n);
	free(buf);
	return status;
}

static int child_load(int fd, uint64_t off, uint64_t len, int to)
{
	unsigned char *addr = map_range(fd, off, len, PROT_READ);

	return addr ? put_all(to, addr, len) : trouble("mmap", -1);
}

static int child_write(int fd, uint64_t off, uint64_t len, uint64_t seed)
{
	unsigned char *buf = malloc(len);
	ssize_t n;

	if (!buf)
		return trouble("malloc", -1);
	fill_from(seed, buf, len);
	n = pwrite(fd, buf, len, (off_t)off);
	free(buf);
	return n == (ssize_t)len ? 0 : trouble("pwrite", n);
}

/* The end of the process unmaps the range; no sync, and the stores must not be lost. */
static int child_store(int fd, uint64_t off, uint64_t len, uint64_t seed)
{
	unsigned char *addr = map_range(fd, off, len, PROT_READ | PROT_WRITE);

	if (!addr)
		return trouble("mmap", -1);
	fill_from(seed, addr, len);
	return 0;
}

/* --child WHAT WHERE OFFSET LENGTH TO|SEED */
int child_main(int argc, char **argv)
{
	uint64_t off, len, more;
	const char *what;
	bool change;
	int fd;

	if (argc != 7)
		return 2;
	what = argv[2];
	if (!strcmp(what, "nothing"))
		return 0;
	off = strtoull(argv[4], NULL, 0);
	len = strtoull(argv[5], NULL, 0);
	more = strtoull(argv[6], NULL, 0);
	change = !strcmp(what, "write") || !strcmp(what, "store");
	fd = open_file(argv[3], change ? O_RDWR : O_RDONLY);
	if (fd < 0)
		return trouble(argv[3], -1);
	if (!strcmp(what, "read"))
		return child_read(fd, off, len, (int)more);
	if (!strcmp(what, "load"))
		return child_load(fd, off, len, (int)more);
	if (!strcmp(what, "write"))
		return child_write(fd, off, len, more);
	if (!strcmp(what, "store"))
		return child_store(fd, off, len, more);
	return 2;
}
