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
	unsigned int row, column, sampled;

	for (row = 0; row < PICTURE_ROWS / 2; row++) {
		for (column = 0; column < PICTURE_COLUMNS; column++)
			picture->touched[row][column] = picture->touched[2 * row][column] +
							picture->touched[2 * row + 1][column];
		sampled = 2 * row + picture->sampled[2 * row + 1];
		memcpy(picture->mapped[row], picture->mapped[sampled],
		       sizeof(picture->mapped[row]));
		picture->sampled[row] = picture->sampled[sampled];
	}
	memset(picture->touched + PICTURE_ROWS / 2, 0, sizeof(picture->touched) / 2);
	memset(picture->sampled + PICTURE_ROWS / 2, 0, sizeof(picture->sampled) / 2);
	picture->row_seconds *= 2;
}

void picture_advance(struct picture *picture, double seconds)
{
	while (seconds >= picture->row_seconds * PICTURE_ROWS)
		picture_halve(picture);
	picture->rows = (unsigned int)(seconds / picture->row_seconds) + 1;
}

void picture_sample(struct picture *picture, const uint64_t mapped[PICTURE_COLUMNS])
{
	unsigned int row = picture->rows - 1;

	picture->sampled[row] = true;
	memcpy(picture->mapped[row], mapped, sizeof(picture->mapped[row]));
}

uint64_t picture_first_page(uint64_t pages, unsigned int column)
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

static const char *picture_shade(unsigned int level, bool unicode)
{
	static const char *const blocks[] = { " ", "░", "▒", "▓", "█" };
	static const char *const ascii[] = { " ", ".", ":", "+", "#" };

	return unicode ? blocks[level] : ascii[level];
}

static uint64_t picture_cell_pages(uint64_t pages, unsigned int column)
{
	return picture_first_page(pages, column + 1) - picture_first_page(pages, column);
}

void picture_strip(const uint64_t count[PICTURE_COLUMNS], uint64_t pages, bool unicode,
		   char text[PICTURE_TEXT])
{
	unsigned int column;

	for (column = 0; column < PICTURE_COLUMNS; column++) {
		uint64_t cell = picture_cell_pages(pages, column);

		text = stpcpy(text, picture_shade(picture_level(count[column], cell ? cell : 1),
						  unicode));
	}
}

/* The sign of a cell in which no page was newly mapped. */
static const char *picture_reason(const struct picture *picture, unsigned int row,
				  unsigned int column)
{
	uint64_t mapped = picture->mapped[row][column];

	if (!picture->sampled[row])
		return "?";
	return mapped && 2 * mapped >= picture_cell_pages(picture->pages, column) ? "-" : " ";
}

void picture_row(const struct picture *picture, unsigned int row, bool unicode,
		 char text[PICTURE_TEXT])
{
	unsigned int column;

	for (column = 0; column < PICTURE_COLUMNS; column++) {
		uint64_t cell = picture_cell_pages(picture->pages, column);
		unsigned int level = picture_level(picture->touched[row][column], cell ? cell : 1);

		text = stpcpy(text, level ? picture_shade(level, unicode) :
					    picture_reason(picture, row, column));
	}
}

const char *picture_legend(bool unicode, unsigned int line)
{
	if (line)
		return "blank: no access, - in memory already, where accesses are not visible, "
		       "? not sampled";
	return unicode ? "░ a page or more, ▒ 1 %, ▓ 10 %, █ half of it or more" :
			 ". a page or more, : 1 %, + 10 %, # half of it or more";
}
