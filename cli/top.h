/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * hugemap top: all mounts and all processes whose mappings are steered, again and again.
 * Collecting numbers (top_model.c), making lines of text from them (top_view.c) and the
 * terminal (top_screen.c) are independent of each other.
 */
#ifndef CLI_TOP_H
#define CLI_TOP_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "hugemap_ioctl.h"
#include "mounts.h"
#include "mount_sample.h"
#include "process.h"
#include "users.h"

/**
 * struct top_row - a mount, or a process whose mappings are steered
 * @key: identifies the row from one look to the next
 * @name: the mount point, or number and name of the process
 * @pid: the process; 0 for a mount
 * @dev: the mount
 * @page: of a mount: "2M", "4K" or "auto"
 * @taken: when the numbers were read; seconds
 * @view: the numbers; of a process only @mappings, @mapped_bytes, @huge_pages, faults, hits
 *	and bytes read
 */
struct top_row {
	char key[64];
	char name[256];
	pid_t pid;
	dev_t dev;
	char page[16];
	double taken;
	struct mount_sample view;
};

/* Upper bounds: cells per file (more than any terminal is wide), and files. */
#define TOP_CELLS 512
#define TOP_STRIPS 64

/**
 * struct top_strip - the cached parts of a file
 * @path: its name
 * @dev: the mount
 * @bytes: its length
 * @count: of @cells
 * @cells: from its beginning to its end
 */
struct top_strip {
	char *path;
	dev_t dev;
	uint64_t bytes;
	size_t count;
	struct hugemap_cell cells[TOP_CELLS];
};

/**
 * struct top_model - all numbers of one look
 * @rows: see struct top_row
 * @users: the processes that map files of mounts
 * @strips: of these files and of those on the command line, unless it is not permitted
 * @closed: number of processes that may not be looked into
 */
struct top_model {
	struct top_row *rows;
	size_t count;
	size_t room;
	struct users users;
	struct top_strip *strips;
	size_t nstrips;
	size_t strips_room;
	unsigned int closed;
};

/* --- top_model.c --- */

/* Read all numbers. Rates are over the time since @before; NULL = there are no rates. */
void top_model_read(struct top_model *model, const struct top_model *before);
void top_model_free(struct top_model *model);
struct json_t;
struct json_t *top_model_json(const struct top_model *model, double seconds);

/* --- top_strip.c --- */

/*
 * Add the cached parts of a file to the model, unless the model has them already. The file has to
 * be on the mount @dev; 0 = on any. Return 0, or a negative errno: -ENOTTY: it is on no mount of
 * HugeMap, -EPERM: not permitted.
 */
int top_strip_read(struct top_model *model, const char *path, dev_t dev);

/**
 * top_strip_text() - a strip as text: a sign for each cell, or for several cells
 * @to: the text; @size bytes
 * @strip: see struct top_strip
 * @width: the largest number of signs
 * @unicode: use blocks and shades; else signs of ASCII
 *
 * Return: the number of signs.
 */
unsigned int top_strip_text(char *to, size_t size, const struct top_strip *strip,
			    unsigned int width, bool unicode);
/* The sums over a strip, in bytes. */
void top_strip_sum(const struct top_strip *strip, uint64_t *huge, uint64_t *base, uint64_t *dirty);

/* The meaning of the signs; [1]: of those that are not ASCII. */
extern const char *const top_strip_legend[2];

/* --- top_view.c --- */

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

enum top_style {
	TOP_TITLE,
	TOP_SUM,
	TOP_COLUMNS,
	TOP_ROW,
	TOP_USER,
	TOP_NOTE,
};

#define TOP_HEAD_LINES 3 /* title, sum and columns */
#define TOP_LINE 1024

struct top_line {
	enum top_style style;
	char text[TOP_LINE];
};

struct top_view {
	struct top_line *lines;
	size_t count;
	size_t room;
};

/**
 * top_view_build() - make lines of text from numbers
 * @model: the numbers; its rows are sorted
 * @settings: see struct top_settings
 * @view: zeroed; filled with lines, none of them wider than @settings->width
 */
void top_view_build(struct top_model *model, const struct top_settings *settings,
		    struct top_view *view);
/* Add a line, cut to a width. */
void top_view_add(struct top_view *view, unsigned int width, enum top_style style,
		  const char *text);
void top_view_free(struct top_view *view);

/* Cut or fill a text up to a width in columns; returns the width. */
unsigned int top_fit(char *to, size_t size, const char *text, unsigned int width, bool fill);

/* --- top_screen.c --- */

enum {
	TOP_NO_KEY = 0, /* no key was pressed in time */
	TOP_KEY_UP = 256,
	TOP_KEY_DOWN,
	TOP_KEY_PAGE_UP,
	TOP_KEY_PAGE_DOWN,
	TOP_KEY_RESIZE,
};

/* Take the terminal; -errno if it is of no known type. */
int top_screen_open(void);
/* Restore the terminal. */
void top_screen_close(void);
void top_screen_size(unsigned int *width, unsigned int *height);
/* @first: of the lines below the head, the first one to show. */
void top_screen_draw(const struct top_view *view, size_t first, const char *help);
/* A character, or one of the values above. */
int top_screen_key(double seconds);

#endif /* CLI_TOP_H */
