// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * hugemap attach: a picture of newly mapped pages. Columns are parts of the mapping, rows are
 * periods of time. When all rows are used, each pair of rows is merged into one row, so that the
 * picture always shows the whole time.
 */
#include "attach_picture.h"

#include <string.h>

#define FIRST_ROW_SECONDS 0.25

void picture_begin(struct picture *picture, uint64_t pages)
{
	*picture = (struct picture){ .pages = pages, .row_seconds = FIRST_ROW_SECONDS, .rows = 1 };
}

static void picture_halve(struct picture *picture)
{
	unsigned int row, column;

	for (row = 0; row < PICTURE_ROWS / 2; row++)
		for (column = 0; column < PICTURE_COLUMNS; column++)
			picture->touched[row][column] = picture->touched[2 * row][column] +
							picture->touched[2 * row + 1][column];
	memset(picture->touched + PICTURE_ROWS / 2, 0, sizeof(picture->touched) / 2);
	picture->row_seconds *= 2;
}

void picture_advance(struct picture *picture, double seconds)
{
	while (seconds >= picture->row_seconds * PICTURE_ROWS)
		picture_halve(picture);
	picture->rows = (unsigned int)(seconds / picture->row_seconds) + 1;
}

/* The first page of a column. */
static uint64_t picture_first_page(uint64_t pages, unsigned int column)
{
	return (pages * column + PICTURE_COLUMNS - 1) / PICTURE_COLUMNS;
}

void picture_touch(struct picture *picture, uint64_t start, uint64_t end)
{
	uint64_t *row = picture->touched[picture->rows - 1];

	while (start < end) {
		unsigned int column = (unsigned int)(start * PICTURE_COLUMNS / picture->pages);
		uint64_t next = picture_first_page(picture->pages, column + 1);

		next = next < end ? next : end;
		row[column] += next - start;
		start = next;
	}
}

/* How dark a cell is: 1 for a single page, so that random access is visible; 4 for a half. */
static unsigned int picture_level(uint64_t count, uint64_t pages)
{
	if (!count)
		return 0;
	return 1 + (count * 100 >= pages) + (count * 10 >= pages) + (count * 2 >= pages);
}

void picture_strip(const uint64_t count[PICTURE_COLUMNS], uint64_t pages, bool unicode,
		   char text[PICTURE_TEXT])
{
	static const char *const blocks[] = { " ", "░", "▒", "▓", "█" };
	static const char *const ascii[] = { " ", ".", ":", "+", "#" };
	unsigned int column;

	for (column = 0; column < PICTURE_COLUMNS; column++) {
		uint64_t cell =
			picture_first_page(pages, column + 1) - picture_first_page(pages, column);
		unsigned int at = picture_level(count[column], cell ? cell : 1);

		text = stpcpy(text, unicode ? blocks[at] : ascii[at]);
	}
}

void picture_row(const struct picture *picture, unsigned int row, bool unicode,
		 char text[PICTURE_TEXT])
{
	picture_strip(picture->touched[row], picture->pages, unicode, text);
}

const char *picture_legend(bool unicode)
{
	return unicode ? "░ a page or more, ▒ 1 %, ▓ 10 %, █ half of it or more" :
			 ". a page or more, : 1 %, + 10 %, # half of it or more";
}
