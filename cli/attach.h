/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * hugemap attach: the mappings of a process that runs already, watched from outside.
 *
 * Finding them (attach_maps.c), looking (attach_watch.c), advising (attach_act.c), the
 * picture (attach_picture.c) and the words (attach_text.c) know little of each other.
 */
#ifndef CLI_ATTACH_H
#define CLI_ATTACH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "policy.h"

#define ATTACH_MAPS 256u /* that are watched at a time, or told of */

/* --- attach_picture.c --- */

#define PICTURE_COLUMNS 64u
#define PICTURE_ROWS 16u

/**
 * struct picture - where pages of a mapping came to be mapped, over time
 * @pages: in the mapping
 * @row_seconds: the time that a row stands for; doubles when all rows are used
 * @rows: that are used; the last one is not over yet
 * @touched: pages, by row and column
 */
struct picture {
	uint64_t pages;
	double row_seconds;
	unsigned int rows;
	uint64_t touched[PICTURE_ROWS][PICTURE_COLUMNS];
};

void picture_begin(struct picture *picture, uint64_t pages);
/* The time goes on; @seconds since the beginning. */
void picture_advance(struct picture *picture, double seconds);
/* Pages came to be mapped, now; counted from the first one of the mapping. */
void picture_touch(struct picture *picture, uint64_t start, uint64_t end);

#define PICTURE_TEXT (PICTURE_COLUMNS * 4 + 1)

/* A line of cells: a share of each that is used; in Unicode's blocks, or in ASCII. */
void picture_row(const struct picture *picture, unsigned int row, bool unicode,
		 char text[PICTURE_TEXT]);
/* The same, of how many pages of each column are used. */
void picture_strip(const uint64_t count[PICTURE_COLUMNS], uint64_t pages, bool unicode,
		   char text[PICTURE_TEXT]);
/* What cells mean. */
const char *picture_legend(bool unicode);

/* --- attach_maps.c --- */

/* What the program has advised itself, by the words of smaps. */
enum {
	HINT_RANDOM = 1 << 0, /* rr */
	HINT_SEQUENTIAL = 1 << 1, /* sr */
	HINT_HUGE = 1 << 2, /* hg */
	HINT_SMALL = 1 << 3, /* nh */
};

/**
 * struct area - a mapping of a file, as /proc/PID/maps has it
 * @start, @end: addresses; areas that follow each other, in the file too, are one
 * @offset: of @start in the file
 * @dev, @ino: the file
 * @writable, @shared: may be stored to, and stores reach the file
 * @hints: HINT_*, of any part of it
 * @path: as maps says
 */
struct area {
	uint64_t start, end, offset;
	dev_t dev;
	uint64_t ino;
	bool writable, shared;
	unsigned int hints;
	char *path;
};

struct areas {
	struct area *list;
	size_t count, room;
	bool steered; /* `hugemap run` is in the process */
};

/**
 * areas_read() - the large mappings of files of a process
 * @pid: the process
 * @least: bytes; shorter ones are left out
 * @hints: find the program's advice, too: that costs more
 * @areas: filled in; undo with areas_free()
 *
 * Return: 0, or -errno: -ESRCH when it has ended, -EACCES when it must not be looked
 * into.
 */
int areas_read(pid_t pid, uint64_t least, bool hints, struct areas *areas);
void areas_free(struct areas *areas);
/* "MADV_RANDOM and MADV_HUGEPAGE" */
const char *hints_text(unsigned int hints, char text[64]);

/* --- attach_watch.c --- */

/**
 * struct watched - a mapping that is watched
 * @area: where; its path is owned
 * @ended: it is not mapped any more
 * @base: the 2 MB boundary at or below its start: the address of page 0
 * @seen: a bit for each page
 * @advisor: the policy's; @regions: its memory
 * @touched: pages that came to be mapped since it is watched
 * @huge: bytes that are mapped by huge pages
 * @looks: in which it was used so, by pattern
 * @ahead_calls, @ahead_bytes: what was read ahead (MADV_WILLNEED)
 * @read_ahead_kb: the setting below its file system; 0 = not known
 * @full_at, @full_ns: when all of it is looked at next, and what that costs
 */
struct watched {
	struct area area;
	bool ended;
	uint64_t base;
	unsigned long *seen;
	struct hm_region *regions;
	struct hm_advisor advisor;
	uint64_t touched, huge;
	uint64_t looks[HM_PATTERN_RANDOM + 1];
	uint64_t ahead_calls, ahead_bytes;
	unsigned long long read_ahead_kb;
	uint64_t full_at, full_ns;
	struct picture picture;
};

/* What a process had done at a moment. */
struct usage {
	double at; /* seconds since the watching began */
	uint64_t minor, major; /* page faults */
	uint64_t read_bytes; /* from devices */
	uint64_t touched; /* pages that came to be mapped, of all that is watched */
};

struct attach_settings {
	uint64_t least; /* bytes; shorter mappings are left alone */
	bool advise; /* do what helps; else only look */
};

/**
 * struct attach - a process that is watched
 * @maps: those that are mapped, and those that were and of which there is something to
 *	tell
 * @missed: mappings for which there was no room
 * @steered: it runs under `hugemap run`
 * @advising: it was looked at long enough to tell the difference
 * @begin, @now: when the watching began, and lately
 * @recent: a second or two ago; @latest: up to a second ago
 * @first: when it touched something for the first time; .at < 0 = not yet
 * @advised: when advice began
 * @look_ns: what looking took, of a processor
 */
struct attach {
	struct attach_settings settings;
	pid_t pid;
	int pidfd;
	char name[32];
	struct watched *maps[ATTACH_MAPS];
	size_t count;
	unsigned int missed;
	bool steered, advising;
	struct usage begin, now, recent, latest, first, advised;
	uint64_t look_ns;
	struct attach_private *private;
};

/* Returns 0, or -errno with the reason in a sentence. Undo with attach_close(). */
int attach_open(pid_t pid, const struct attach_settings *settings, struct attach *attach,
		char why[256]);
/* Look, and do what helps; returns how long to wait, ns. */
uint64_t attach_step(struct attach *attach);
/* A last look, for what is told at the end. */
void attach_finish(struct attach *attach);
void attach_close(struct attach *attach);

static inline uint64_t watched_bytes(const struct watched *map)
{
	return map->area.end - map->area.start;
}

/* --- attach_act.c --- */

/* May another process be advised? 0, or -errno with the reason in a sentence. */
int attach_try(const struct attach *attach, char why[256]);
/* What the advisor said in its last look. */
void attach_advise(const struct attach *attach, struct watched *map);

/* --- attach_text.c --- */

struct top_view;

/**
 * struct text_settings - how it is told
 * @width: of a line, in columns
 * @unicode: pictures are of blocks, not of ASCII
 * @final: it is over
 * @maps: as many are told of, at most; @pictures: ... with a picture
 */
struct text_settings {
	unsigned int width;
	bool unicode, final;
	size_t maps, pictures;
};

/* Lines of text; undo with top_view_free(). */
void text_build(const struct attach *attach, const struct text_settings *settings,
		struct top_view *view);

/* How it was used most of the time. */
enum hm_pattern watched_pattern(const struct watched *map);
const char *watched_pattern_name(enum hm_pattern pattern);
/* Pages that are mapped: all of them, and those of each column are added. */
uint64_t watched_resident(const struct watched *map, uint64_t column[PICTURE_COLUMNS]);

/* --- attach_json.c --- */

int attach_write_json(const struct attach *attach);

#endif /* CLI_ATTACH_H */
