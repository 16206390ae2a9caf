/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Lines of text for a terminal, none wider than the terminal. */
#ifndef CLI_LINES_H
#define CLI_LINES_H

#include <stdbool.h>
#include <stddef.h>

enum line_style {
	LINE_TITLE,
	LINE_SUM,
	LINE_COLUMNS,
	LINE_ROW,
	LINE_USER,
	LINE_NOTE,
};

#define LINE_BYTES 1024

struct line {
	enum line_style style;
	char text[LINE_BYTES];
};

/**
 * struct lines - a list of lines
 * @list: the lines
 * @count: number of lines
 * @room: number of lines that fit into @list
 * @width: of a line, in columns of the terminal
 */
struct lines {
	struct line *list;
	size_t count;
	size_t room;
	unsigned int width;
};

/* Add a line, cut to the width. Without memory the line is left out. */
void lines_add(struct lines *lines, enum line_style style, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void lines_free(struct lines *lines);

/**
 * lines_fit() - cut a text to a width
 * @to: filled in
 * @size: bytes of @to
 * @text: the text, in the character set of the locale
 * @width: largest width, in columns
 * @fill: add blanks up to @width
 *
 * Return: the width of @to.
 */
unsigned int lines_fit(char *to, size_t size, const char *text, unsigned int width, bool fill);
/* The end of a path that fits: it identifies the file better than the beginning. */
const char *lines_fit_end(const char *path, unsigned int width);

#endif /* CLI_LINES_H */
