// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "lines.h"
#include "cli.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

/* Returns the bytes of the first character. *@columns: its width; -1 = it cannot be displayed. */
static size_t lines_next_char(const char *text, int *columns)
{
	mbstate_t state = {};
	wchar_t wide;
	size_t n = mbrtowc(&wide, text, strlen(text), &state);

	if (n == 0 || n > strlen(text)) {
		*columns = -1;
		return 1;
	}
	*columns = wcwidth(wide);
	return n;
}

unsigned int lines_fit(char *to, size_t size, const char *text, unsigned int width, bool fill)
{
	unsigned int used = 0;
	size_t at = 0;

	while (*text) {
		int columns;
		size_t n = lines_next_char(text, &columns);
		const char *from = columns < 0 ? "?" : text;
		size_t bytes = columns < 0 ? 1 : n;

		columns = columns < 0 ? 1 : columns;
		if (used + (unsigned int)columns > width || at + bytes + 1 > size)
			break;
		memcpy(to + at, from, bytes);
		at += bytes;
		used += (unsigned int)columns;
		text += n;
	}
	while (fill && used < width && at + 2 <= size) {
		to[at++] = ' ';
		used++;
	}
	to[at] = '\0';
	return used;
}

static unsigned int lines_width_of(const char *text)
{
	char buffer[LINE_BYTES];

	return lines_fit(buffer, sizeof(buffer), text, LINE_BYTES, false);
}

const char *lines_fit_end(const char *path, unsigned int width)
{
	int columns;

	while (lines_width_of(path) > width)
		path += lines_next_char(path, &columns);
	return path;
}

void lines_add(struct lines *lines, enum line_style style, const char *format, ...)
{
	char text[LINE_BYTES];
	struct line *line;
	va_list args;

	line = cli_grow(lines->list, lines->count, &lines->room, sizeof(*line));
	if (!line)
		return;
	lines->list = line;
	line = &lines->list[lines->count++];
	line->style = style;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	lines_fit(line->text, sizeof(line->text), text, lines->width, false);
}

void lines_free(struct lines *lines)
{
	free(lines->list);
	*lines = (struct lines){};
}
