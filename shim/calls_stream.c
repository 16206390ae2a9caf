// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * --user-mode: streams write large pieces of what they are given from where it
 * is, inside of the C library. They are given copies, in pieces.
 */
#include "gather.h"

#include <stdio.h>
#include <string.h>

/* Macros of the C library, too. */
#undef fwrite_unlocked
#undef fputs_unlocked

#define PIECE_BYTES ((size_t)256 << 10)

/* Returns how many bytes the stream has taken. The stream is locked by the caller. */
static size_t in_pieces(const char *data, size_t bytes, FILE *file)
{
	char *piece = real->mmap(NULL, PIECE_BYTES, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	size_t done = 0, part, n;

	if (piece == MAP_FAILED)
		return real->fwrite_unlocked(data, 1, bytes, file);
	while (done < bytes) {
		part = bytes - done < PIECE_BYTES ? bytes - done : PIECE_BYTES;
		memcpy(piece, data + done, part);
		n = real->fwrite_unlocked(piece, 1, part, file);
		done += n;
		if (n < part)
			break;
	}
	real->munmap(piece, PIECE_BYTES);
	return done;
}

/* All of it is one piece for other threads. */
static size_t locked(const char *data, size_t bytes, FILE *file)
{
	size_t done;
	int cancel;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	flockfile(file);
	done = in_pieces(data, bytes, file);
	funlockfile(file);
	pthread_setcancelstate(cancel, NULL);
	return done;
}

static size_t items(size_t done, size_t size, size_t n)
{
	return done == size * n ? n : done / size;
}

SHIM_EXPORT size_t fwrite(const void *data, size_t size, size_t n, FILE *file)
{
	if (!size || !gather_needed(data, size * n))
		return real->fwrite(data, size, n, file);
	return items(locked(data, size * n, file), size, n);
}

SHIM_EXPORT size_t fwrite_unlocked(const void *data, size_t size, size_t n, FILE *file)
{
	if (!size || !gather_needed(data, size * n))
		return real->fwrite_unlocked(data, size, n, file);
	return items(in_pieces(data, size * n, file), size, n);
}

SHIM_EXPORT int fputs(const char *text, FILE *file)
{
	size_t length;

	if (!gather_needed(text, 1))
		return real->fputs(text, file);
	length = strlen(text);
	return locked(text, length, file) == length ? 1 : EOF;
}

SHIM_EXPORT int fputs_unlocked(const char *text, FILE *file)
{
	size_t length;

	if (!gather_needed(text, 1))
		return real->fputs_unlocked(text, file);
	length = strlen(text);
	return in_pieces(text, length, file) == length ? 1 : EOF;
}

SHIM_EXPORT int puts(const char *text)
{
	size_t length;
	int result = EOF;

	if (!gather_needed(text, 1))
		return real->puts(text);
	length = strlen(text);
	flockfile(stdout);
	if (locked(text, length, stdout) == length && putc_unlocked('\n', stdout) != EOF)
		result = length < INT_MAX ? (int)length + 1 : INT_MAX;
	funlockfile(stdout);
	return result;
}
