// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Reading /proc/self/maps without memory from an allocator. */
#include "maps.h"

#include <fcntl.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

struct reader {
	int fd;
	char *at, *end;
	char buffer[4096];
};

/* The next character; -1 at the end. */
static int next(struct reader *reader)
{
	if (reader->at == reader->end) {
		ssize_t n = syscall(SYS_read, reader->fd, reader->buffer, sizeof(reader->buffer));

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

static bool read_line(struct reader *reader, struct maps_line *line)
{
	uint64_t from = number(reader, 16), major;
	int c;

	line->from = (char *)from;
	line->to = (char *)number(reader, 16);
	line->prot = next(reader) == 'r' ? PROT_READ : 0;
	line->prot |= next(reader) == 'w' ? PROT_WRITE : 0;
	line->prot |= next(reader) == 'x' ? PROT_EXEC : 0;
	line->shared = next(reader) == 's';
	next(reader);
	line->offset = number(reader, 16);
	major = number(reader, 16);
	line->file.dev = major << 32 | number(reader, 16);
	line->file.ino = number(reader, 10);
	do
		c = next(reader);
	while (c >= 0 && c != '\n');
	return c == '\n';
}

void maps_each(char *from, char *to, bool (*visit)(const struct maps_line *line, void *arg),
	       void *arg)
{
	struct reader reader = {};
	struct maps_line line;
	bool more = true;

	reader.fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC);
	if (reader.fd < 0)
		return;
	while (more && read_line(&reader, &line) && line.from < to) {
		if (line.to <= from)
			continue;
		if (line.from < from) {
			line.offset += (uint64_t)(from - line.from);
			line.from = from;
		}
		if (line.to > to)
			line.to = to;
		more = visit(&line, arg);
	}
	syscall(SYS_close, reader.fd);
}
