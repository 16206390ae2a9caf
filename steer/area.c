// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Lines of /proc/self/maps, read without stdio, and without memory from an allocator:
 *	7f0000000000-7f0000200000 r--s 00000000 fe:00 1234    /data/file
 */
#include "area.h"

#include "call.h"

#include <string.h>
#include <sys/mman.h>
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

/* The rest of the line; false: it has no end. */
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

static bool read_line(struct reader *reader, struct area *area)
{
	unsigned int major;

	area->from = (char *)number(reader, 16);
	area->to = (char *)number(reader, 16);
	area->prot = next(reader) == 'r' ? PROT_READ : 0;
	area->prot |= next(reader) == 'w' ? PROT_WRITE : 0;
	area->prot |= next(reader) == 'x' ? PROT_EXEC : 0;
	area->shared = next(reader) == 's';
	next(reader);
	area->offset = number(reader, 16);
	major = (unsigned int)number(reader, 16);
	area->dev = makedev(major, (unsigned int)number(reader, 16));
	area->ino = number(reader, 10);
	return read_path(reader, area->path, sizeof(area->path));
}

int areas_each(char *from, char *to, bool (*visit)(const struct area *area, void *arg), void *arg)
{
	struct reader reader;
	struct area area;
	bool more = true;

	reader.at = reader.end = reader.buffer;
	reader.fd =
		call(SYS_openat, AT_FDCWD, (long)"/proc/self/maps", O_RDONLY | O_CLOEXEC, 0, 0, 0);
	if (reader.fd < 0)
		return (int)reader.fd;
	while (more && read_line(&reader, &area) && area.from < to) {
		if (area.to <= from)
			continue;
		if (area.from < from) {
			area.offset += (uint64_t)(from - area.from);
			area.from = from;
		}
		if (area.to > to)
			area.to = to;
		more = visit(&area, arg);
	}
	call(SYS_close, reader.fd, 0, 0, 0, 0, 0);
	return 0;
}

static bool take(const struct area *area, void *to)
{
	*(struct area *)to = *area;
	return false;
}

int area_at(char *address, struct area *area)
{
	int err;

	area->to = NULL;
	err = areas_each(address, address + 1, take, area);
	return err ? err : area->to ? 0 : -ENOENT;
}
