/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* hugemap attach: a picture of the pages of a mapping that were mapped, over time. */
#ifndef CLI_ATTACH_PICTURE_H
#define CLI_ATTACH_PICTURE_H

#include <stdbool.h>
#include <stdint.h>

#define PICTURE_COLUMNS 64u
#define PICTURE_ROWS 16u
#define PICTURE_TEXT (PICTURE_COLUMNS * 4 + 1)

/**
 * struct picture - newly mapped pages of a mapping, by place and time
 * @pages: number of pages of the mapping
 * @row_seconds: length of time of a row; doubles when all rows are used
 * @rows: number of rows in use; the last one is not complete
 * @touched: number of pages newly mapped, by row and column
 * @sampled: by row: the page tables of the whole mapping were scanned, or no page fault came
 * @mapped: number of pages that were mapped at that scan, by row and column
 */
struct picture {
	uint64_t pages;
	double row_seconds;
	unsigned int rows;
	uint64_t touched[PICTURE_ROWS][PICTURE_COLUMNS];
	bool sampled[PICTURE_ROWS];
	uint64_t mapped[PICTURE_ROWS][PICTURE_COLUMNS];
};

void picture_begin(struct picture *picture, uint64_t pages);
/* Advance to a time, in seconds since the beginning. */
void picture_advance(struct picture *picture, double seconds);
/* Count pages as newly mapped in the current row. Page 0 is the first one of the mapping. */
void picture_touch(struct picture *picture, uint64_t start, uint64_t end);

/* The current row is sampled. @mapped: the number of mapped pages of each column. */
void picture_sample(struct picture *picture, const uint64_t mapped[PICTURE_COLUMNS]);
/* The first page of a column. */
uint64_t picture_first_page(uint64_t pages, unsigned int column);

/*
 * A row as text: a cell is darker, the more of its pages were newly mapped. Cells without such
 * pages show the reason: not sampled, already mapped, or no access.
 */
void picture_row(const struct picture *picture, unsigned int row, bool unicode,
		 char text[PICTURE_TEXT]);
/* The same for any number of pages of each column. */
void picture_strip(const uint64_t count[PICTURE_COLUMNS], uint64_t pages, bool unicode,
		   char text[PICTURE_TEXT]);
/* The meaning of the cells: [0] of dark ones, [1] of the others. */
const char *picture_legend(bool unicode, unsigned int line);

#endif /* CLI_ATTACH_PICTURE_H */
