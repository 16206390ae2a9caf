/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* hugemap attach: the results as lines of text, and as JSON. */
#ifndef CLI_ATTACH_PRINT_H
#define CLI_ATTACH_PRINT_H

#include <stdbool.h>
#include <stddef.h>

struct attach;
struct lines;

/**
 * struct text_settings - form of the text
 * @width: of a line, in columns
 * @unicode: pictures consist of blocks; else of ASCII signs
 * @final: this is the summary at the end
 * @maps: largest number of mappings
 * @pictures: largest number of pictures
 */
struct text_settings {
	unsigned int width;
	bool unicode, final;
	size_t maps, pictures;
};

/* --- attach_text.c --- */

/* Make lines of text; undo with lines_free(). */
void text_build(const struct attach *attach, const struct text_settings *settings,
		struct lines *lines);

/* --- attach_json.c --- */

int attach_write_json(const struct attach *attach);

#endif /* CLI_ATTACH_PRINT_H */
