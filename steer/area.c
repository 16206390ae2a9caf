// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * A reader of /proc/self/maps that uses neither stdio nor an allocator. Its lines are:
 *	7f0000000000-7f0000200000 r--s 00000000 fe:00 1234    /data/file
 */
#include "area.h"

#include "call.h"

#include <string.h>
#include <sys/sysmacros.h>

struct reader {
	long fd;
	char *at, *end;
	char buffer[4096];
};

/* The next character; -1 at the end. */
static int next(struct reader *reader)
{
	if (reader->at == reader->end) {
		long n = call(SYS_read, reader->fd, (long)reader->buffer, sizeof(reader->buffer), 0,
			      0, 0);

		if (n <= 0)
			return -1;
		reader->at = reader->buffer;
		reader->end = reader->buffer + n;
	}
	return (unsigned char)*reader->at++;
}

/* A number, and the one character after it. */
static uint64_t number(struct reader *reader, unsigned int base)
{
	uint64_t value = 0;
	int c;

	while ((c = next(reader)) > 0) {
		if (c >= '0' && c <= '9')
			value = value * base + (uint64_t)(c - '0');
		else if (base == 16 && c >= 'a' && c <= 'f')
			value = value * base + (uint64_t)(c - 'a' + 10);
		else
			break;
	}
	return value;
}

static void skip_word(struct reader *reader)
{
	while (next(reader) > ' ')
		;
}

/* Read the rest of a line; return false if the file ends before the line does. */
static bool read_path(struct reader *reader, char *path, size_t size)
{
	size_t length = 0;
	int c;

	while ((c = next(reader)) == ' ')
		;
	for (; c >= 0 && c != '\n'; c = next(reader)) {
		if (length == size - 1)
			memmove(path, path + 1, --length);
		path[length++] = (char)c;
	}
	path[length] = '\0';
	return c == '\n';
}

/* A mapping from @from up to @to; false: there are no more lines. */
static bool read_line(struct reader *reader, uint64_t *from, uint64_t *to, struct area *area)
{
	unsigned int major;

	*from = number(reader, 16);
	*to = number(reader, 16);
	skip_word(reader); /* permissions */
	skip_word(reader); /* offset */
	major = (unsigned int)number(reader, 16);
	area->dev = makedev(major, (unsigned int)number(reader, 16));
	area->ino = number(reader, 10);
	return read_path(reader, area->path, sizeof(area->path));
}

int area_at(uint64_t address, struct area *area)
{
	uint64_t from, to;
	struct reader reader;
	int err = -ENOENT;

	reader.at = reader.end = reader.buffer;
	reader.fd =
		call(SYS_openat, AT_FDCWD, (long)"/proc/self/maps", O_RDONLY | O_CLOEXEC, 0, 0, 0);
	if (reader.fd < 0)
		return (int)reader.fd;
	while (err && read_line(&reader, &from, &to, area) && from <= address)
		err = address < to ? 0 : -ENOENT;
	call(SYS_close, reader.fd, 0, 0, 0, 0, 0);
	return err;
}
