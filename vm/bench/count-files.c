// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Count the guest's instructions for write() and read() of a cached file, in records of 4 MB as in
 * the measurements with IOzone. count-insns.c explains the counter.
 *
 *	count-files FILE MIB
 *
 * prints a line "NAME RECORDS INSTRUCTIONS READ WRITTEN DIGEST" for each step:
 *
 *	write		write a new file
 *	write-sync	fsync() after it
 *	rewrite		write the cached file with other data
 *	rewrite-sync	fsync() after it
 *	read		read the file, which is cached from the writes
 *	reread		read it again
 *
 * READ and WRITTEN are the KiB of the disks during the step, from /proc/vmstat. DIGEST covers the
 * bytes that were read. It is the same for each file system.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "count.h"

#define RECORD (4ul << 20)
#define PRIME 0x9e3779b97f4a7c15ull

struct file {
	int fd;
	size_t records;
	uint64_t *buffer;
	uint64_t insns, digest;
	unsigned long long read, written; /* KiB of the disks before the step */
};

static void fill(struct file *file, size_t record, uint64_t version)
{
	for (size_t i = 0; i < RECORD / 8; i++)
		file->buffer[i] = (record * RECORD + i + 1) * PRIME + version;
}

static void add_up(struct file *file)
{
	for (size_t i = 0; i < RECORD / 8; i++)
		file->digest =
			((file->digest << 23 | file->digest >> 41) ^ file->buffer[i]) * PRIME;
}

/* Only the calls are counted, and not the loops over the buffer. */
static void write_all(struct file *file, uint64_t version)
{
	for (size_t i = 0; i < file->records; i++) {
		uint64_t begin;

		fill(file, i, version);
		begin = now();
		if (pwrite(file->fd, file->buffer, RECORD, (off_t)(i * RECORD)) != RECORD)
			fail("write");
		file->insns += now() - begin;
	}
}

static void read_all(struct file *file)
{
	for (size_t i = 0; i < file->records; i++) {
		uint64_t begin = now();

		if (pread(file->fd, file->buffer, RECORD, (off_t)(i * RECORD)) != RECORD)
			fail("read");
		file->insns += now() - begin;
		add_up(file);
	}
}

static void sync_all(struct file *file)
{
	uint64_t begin = now();

	if (fsync(file->fd))
		fail("fsync");
	file->insns += now() - begin;
}

static void read_vmstat(unsigned long long *read, unsigned long long *written)
{
	FILE *vmstat = fopen("/proc/vmstat", "r");
	char line[128];

	if (!vmstat)
		fail("/proc/vmstat");
	while (fgets(line, sizeof(line), vmstat)) {
		sscanf(line, "pgpgin %llu", read);
		sscanf(line, "pgpgout %llu", written);
	}
	fclose(vmstat);
}

static void report(struct file *file, const char *name)
{
	unsigned long long read = file->read, written = file->written;

	read_vmstat(&file->read, &file->written);
	printf("%s %zu %llu %llu %llu %016llx\n", name, file->records,
	       (unsigned long long)file->insns, file->read - read, file->written - written,
	       (unsigned long long)file->digest);
	file->insns = file->digest = 0;
}

int main(int argc, char **argv)
{
	struct file file = {};

	if (argc != 3) {
		fprintf(stderr, "usage: count-files FILE MIB\n");
		return 2;
	}
	file.records = strtoul(argv[2], NULL, 0) * (1ul << 20) / RECORD;
	file.buffer = aligned_alloc(RECORD, RECORD);
	if (!file.buffer)
		fail("memory");
	memset(file.buffer, 0, RECORD);
	file.fd = open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0644);
	if (file.fd < 0)
		fail(argv[1]);
	read_vmstat(&file.read, &file.written);
	write_all(&file, 1);
	report(&file, "write");
	sync_all(&file);
	report(&file, "write-sync");
	write_all(&file, 2);
	report(&file, "rewrite");
	sync_all(&file);
	report(&file, "rewrite-sync");
	read_all(&file);
	report(&file, "read");
	read_all(&file);
	report(&file, "reread");
	close(file.fd);
	return unlink(argv[1]) ? 1 : 0;
}
