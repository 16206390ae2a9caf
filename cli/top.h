/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * hugemap top: all pools of both engines, again and again. Collecting
 * (top_model.c), what is shown (top_view.c: lines of text, from numbers alone)
 * and the terminal (top_screen.c) know nothing of each other.
 */
#ifndef CLI_TOP_H
#define CLI_TOP_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "hugemap_ioctl.h"
#include "mounts.h"
#include "stat.h"

/**
 * struct top_pool - a pool of a process, or a mount
 * @key: tells it from all others, from one time to the next
 * @name: where it is mounted, or the process
 * @pid: the process; 0 for a mount
 * @dev: the mount
 * @engine: who serves it
 * @io: how
 * @page: of a mount: "2M" or "4K"
 * @count: see enum mount_count
 * @taken: when the numbers were read; seconds
 * @view: the numbers
 */
struct top_pool {
	char key[64];
	char name[256];
	pid_t pid;
	dev_t dev;
	char engine[16];
	char io[16];
	char page[16];
	uint64_t count[MOUNT_COUNTS];
	double taken;
	struct stat_view view;
};

/* Of a file, and of files, as many are read: more cells than a terminal has columns. */
#define TOP_CELLS 512
#define TOP_STRIPS 64

/**
 * struct top_strip - how a file is cached
 * @path: its name
 * @dev: the mount
 * @bytes: how long it is
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
 * struct top_model - all of them at a time
 * @pools: see struct top_pool
 * @users: who maps files of mounts
 * @strips: of these files, and of those that were asked for, if one may see it
 * @closed: processes that may not be looked into
 */
struct top_model {
	struct top_pool *pools;
	size_t count;
	size_t room;
	struct users users;
	struct top_strip *strips;
	size_t nstrips;
	size_t strips_room;
	unsigned int closed;
};

/* --- top_model.c --- */

/* Look at everything; rates are over the time since @before, if it is not NULL. */
void top_model_read(struct top_model *model, const struct top_model *before);
void top_model_free(struct top_model *model);
struct json_t;
struct json_t *top_model_json(const struct top_model *model, double seconds);

/* --- top_strip.c --- */

/*
 * How a file is cached, to the model, if it is not there yet; of a mount, or if @dev is 0 of any.
 * 0, or a negative errno: -ENOTTY: it is on no mount of HugeMap, -EPERM: one may not see it.
 */
int top_strip_read(struct top_model *model, const char *path, dev_t dev);

/**
 * top_strip_text() - a strip, a sign for each of its cells or for some of them
 * @to: where to; @size bytes
 * @strip: see struct top_strip
 * @width: how many signs there may be
 * @unicode: blocks and shades; else signs of ASCII
 *
 * Return: how many signs there are.
 */
unsigned int top_strip_text(char *to, size_t size, const struct top_strip *strip,
			    unsigned int width, bool unicode);
/* All of it, in bytes. */
void top_strip_sum(const struct top_strip *strip, uint64_t *huge, uint64_t *base, uint64_t *dirty);

/* What the signs say; [1]: those that are not of ASCII. */
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

/* What one types, and what --sort takes. */
extern const struct top_key {
	char key;
	const char *name;
} top_keys[TOP_SORTS];

/* Returns false if there is no such order. */
bool top_sort_of(const char *name, enum top_sort *sort);

struct top_settings {
	unsigned int width; /* of a line, in columns */
	enum top_sort sort;
	bool mappings; /* show them */
	bool strips; /* the same */
	bool unicode; /* the terminal can show what is not ASCII */
	double interval; /* seconds */
};

enum top_style {
	TOP_TITLE,
	TOP_SUM,
	TOP_COLUMNS,
	TOP_POOL,
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
 * top_view_build() - what is to be seen
 * @model: the numbers; its pools are put into order
 * @settings: see struct top_settings
 * @view: zeroed; the lines, none of them wider than the settings say
 */
void top_view_build(struct top_model *model, const struct top_settings *settings,
		    struct top_view *view);
/* One line more, cut to a width. */
void top_view_add(struct top_view *view, unsigned int width, enum top_style style,
		  const char *text);
void top_view_free(struct top_view *view);

/* Cut or fill a text up to a width in columns; returns the width. */
unsigned int top_fit(char *to, size_t size, const char *text, unsigned int width, bool fill);

/* --- top_screen.c --- */

enum {
	TOP_NO_KEY = 0, /* the time is over */
	TOP_KEY_UP = 256,
	TOP_KEY_DOWN,
	TOP_KEY_PAGE_UP,
	TOP_KEY_PAGE_DOWN,
	TOP_KEY_RESIZE,
};

/* Take the terminal; -errno if it is of no known type. */
int top_screen_open(void);
/* Leave it as it was. */
void top_screen_close(void);
void top_screen_size(unsigned int *width, unsigned int *height);
/* @first: of the lines below the head, the first one to show. */
void top_screen_draw(const struct top_view *view, size_t first, const char *help);
/* A character, or one of the above. */
int top_screen_key(double seconds);

#endif /* CLI_TOP_H */
