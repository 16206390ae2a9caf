/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* hugemap top: lines of text from the numbers. */
#ifndef CLI_TOP_VIEW_H
#define CLI_TOP_VIEW_H

#include <stdbool.h>

#include "lines.h"

struct top_model;

enum top_sort {
	TOP_BY_READ,
	TOP_BY_WRITE,
	TOP_BY_FAULTS,
	TOP_BY_HITS,
	TOP_BY_DIRTY,
	TOP_BY_EVICTIONS,
	TOP_BY_LATENCY,
	TOP_BY_NAME,
	TOP_SORTS,
};

/* Keys of the keyboard, and arguments of --sort. */
extern const struct top_key {
	char key;
	const char *name;
} top_keys[TOP_SORTS];

/* Returns false if there is no such order. */
bool top_sort_of(const char *name, enum top_sort *sort);

struct top_settings {
	unsigned int width; /* of a line, in columns */
	enum top_sort sort;
	bool mappings; /* show mappings */
	bool strips; /* show strips */
	bool unicode; /* the terminal can show more than ASCII */
	double interval; /* seconds */
};

/**
 * top_view_build() - make lines of text from numbers
 * @model: the numbers; its rows are sorted
 * @settings: see struct top_settings
 * @lines: zeroed; filled in
 */
void top_view_build(struct top_model *model, const struct top_settings *settings,
		    struct lines *lines);

#endif /* CLI_TOP_VIEW_H */
