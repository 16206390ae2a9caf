// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * hugemap-cached FILE BYTES RECORD REPEATS
 *
 * Write a new file, write it again, and read it twice, by calls of write and read for each record:
 * IOzone's write, rewrite, read and reread. All of this is done REPEATS times. The program prints
 * the seconds that the calls took as JSON. `hugemap bench cached` starts it.
 *
 * The data differs from record to record and from write to rewrite, so that a read with data of
 * another place or of an earlier write is noticed. It is prepared and compared outside of the time.
 */
#include "random.h"
#include "usage.h"

#include <err.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PAGE 4096u

/**
 * struct job - the file, and a buffer for one record
 * @path: of the file
 * @fd: the file
 * @bytes: of the file
 * @record: bytes of a call
 * @data: the content of a record
 * @buffer: memory that is read to
 * @ns: the time of the calls of each operation so far
 */
struct job {
	const char *path;
	int fd;
	uint64_t bytes, record;
	char *data, *buffer;
	uint64_t ns[4];
};

enum operation {
	OPERATION_WRITE,
	OPERATION_REWRITE,
	OPERATION_READ,
	OPERATION_REREAD,
};

static const char *const names[] = { "write", "rewrite", "read", "reread" };

/* A word at the start of each page has the place and the number of the write. */
static void main_stamp(const struct job *job, uint64_t at, uint64_t generation)
{
	uint64_t i, word;

	for (i = 0; i < job->record; i += PAGE) {
		word = random_mix((at + i) << 8 | generation);
		memcpy(job->data + i, &word, sizeof(word));
	}
}

static void main_write(struct job *job, enum operation operation, uint64_t generation)
{
	uint64_t at, start;
	ssize_t done;

	for (at = 0; at < job->bytes; at += job->record) {
		main_stamp(job, at, generation);
		start = usage_now();
		done = pwrite(job->fd, job->data, job->record, (off_t)at);
		job->ns[operation] += usage_now() - start;
		if (done < 0)
			err(1, "%s: write", job->path);
		if ((uint64_t)done != job->record)
			errx(1, "%s: %zd bytes were written, not %llu", job->path, done,
			     (unsigned long long)job->record);
	}
}

static void main_read(struct job *job, enum operation operation, uint64_t generation)
{
	uint64_t at, start;
	ssize_t done;

	for (at = 0; at < job->bytes; at += job->record) {
		main_stamp(job, at, generation);
		start = usage_now();
		done = pread(job->fd, job->buffer, job->record, (off_t)at);
		job->ns[operation] += usage_now() - start;
		if (done < 0)
			err(1, "%s: read", job->path);
		if ((uint64_t)done != job->record || memcmp(job->buffer, job->data, job->record))
			errx(1, "wrong data at %llu", (unsigned long long)at);
	}
}

/* Write-back must not run beside the next operation. */
static void main_sync(const struct job *job)
{
	if (fsync(job->fd) < 0)
		err(1, "%s: fsync", job->path);
}

static void main_repeat(struct job *job, uint64_t number)
{
	job->fd = open(job->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (job->fd < 0)
		err(1, "%s", job->path);
	main_write(job, OPERATION_WRITE, 2 * number);
	main_sync(job);
	main_write(job, OPERATION_REWRITE, 2 * number + 1);
	main_sync(job);
	main_read(job, OPERATION_READ, 2 * number + 1);
	main_read(job, OPERATION_REREAD, 2 * number + 1);
	close(job->fd);
	if (unlink(job->path) < 0)
		err(1, "%s", job->path);
}

static char *main_memory(uint64_t bytes)
{
	char *at = aligned_alloc(PAGE, bytes);

	if (!at)
		errx(1, "too little memory");
	return memset(at, 'h', bytes);
}

static void main_print(const struct job *job, uint64_t bytes, const struct usage_counts *before,
		       const struct usage_counts *after)
{
	unsigned int i;

	printf("{\"bytes\": %llu, ", (unsigned long long)bytes);
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		printf("\"%s_s\": %.9f, ", names[i], (double)job->ns[i] / 1e9);
	usage_print(before, after);
	printf("}\n");
}

int main(int argc, char **argv)
{
	struct usage_counts before, after;
	uint64_t repeats, i;
	struct job job = {};

	if (argc != 5) {
		fputs("hugemap-cached is started by `hugemap bench cached`\n", stderr);
		return 2;
	}
	job.path = argv[1];
	job.bytes = strtoull(argv[2], NULL, 10);
	job.record = strtoull(argv[3], NULL, 10);
	repeats = strtoull(argv[4], NULL, 10);
	if (!job.record || job.record % PAGE || job.bytes % job.record)
		errx(2, "the file must have whole records, and they must have whole pages");
	job.data = main_memory(job.record);
	job.buffer = main_memory(job.record);
	usage_read(&before);
	for (i = 0; i < repeats; i++)
		main_repeat(&job, i);
	usage_read(&after);
	main_print(&job, repeats * job.bytes, &before, &after);
	return fflush(stdout) ? 1 : 0;
}
