/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Read a file of /proc as words and numbers, without stdio and without an allocator. */
#ifndef HM_STEER_READER_H
#define HM_STEER_READER_H

#include "call.h"

#include <stddef.h>

struct reader {
	long fd;
	char *at, *end;
	char buffer[4096];
};

static inline bool reader_open(struct reader *reader, const char *path)
{
	reader->at = reader->end = reader->buffer;
	reader->fd = call(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC, 0, 0, 0);
	return reader->fd >= 0;
}

static inline void reader_close(struct reader *reader)
{
	call(SYS_close, reader->fd, 0, 0, 0, 0, 0);
}

/* Returns the next character; -1 at the end of the file. */
static inline int reader_next(struct reader *reader)
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

/* Reads a number, and the one character after it. */
static inline uint64_t reader_number(struct reader *reader, unsigned int base)
{
	uint64_t value = 0;
	int c;

	while ((c = reader_next(reader)) > 0) {
		if (c >= '0' && c <= '9')
			value = value * base + (uint64_t)(c - '0');
		else if (base == 16 && c >= 'a' && c <= 'f')
			value = value * base + (uint64_t)(c - 'a' + 10);
		else
			break;
	}
	return value;
}

/*
 * Reads a word, cut to the size, and the one character after it, which is returned: '\n' after the
 * last word of a line, negative at the end of the file.
 */
static inline int reader_word(struct reader *reader, char *word, size_t size)
{
	size_t length = 0;
	int c;

	while ((c = reader_next(reader)) > ' ')
		if (length + 1 < size)
			word[length++] = (char)c;
	word[length] = '\0';
	return c;
}

/* Read the rest of a line. If it is longer than @size, keep its end. */
static inline int reader_line(struct reader *reader, char *line, size_t size)
{
	size_t length = 0, i;
	int c;

	while ((c = reader_next(reader)) == ' ')
		;
	for (; c >= 0 && c != '\n'; c = reader_next(reader)) {
		if (length == size - 1)
			for (i = 1, length--; i < size - 1; i++)
				line[i - 1] = line[i];
		line[length++] = (char)c;
	}
	line[length] = '\0';
	return c;
}

#endif /* HM_STEER_READER_H */
