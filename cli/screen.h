/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The terminal of a live view, through ncurses. */
#ifndef CLI_SCREEN_H
#define CLI_SCREEN_H

#include <stdbool.h>
#include <stddef.h>

struct lines;

#define SCREEN_HEAD_LINES 3 /* these do not scroll */

enum {
	SCREEN_NO_KEY = 0, /* no key was pressed in time */
	SCREEN_UP = 256,
	SCREEN_DOWN,
	SCREEN_PAGE_UP,
	SCREEN_PAGE_DOWN,
	SCREEN_RESIZE,
};

/* Take the terminal; -ENOTTY if it is of no known type. */
int screen_open(void);
/* Restore the terminal. */
void screen_close(void);
unsigned int screen_width(void);

/**
 * screen_draw() - draw lines, and a line of help at the bottom
 * @lines: the lines
 * @first: of the lines below the head, the first one to draw; made smaller if there are fewer
 * @help: the keys
 */
void screen_draw(const struct lines *lines, size_t *first, const char *help);
/* Wait for a key: a character, or one of the values above. */
int screen_key(double seconds);
/* Change @first if the key scrolls. */
void screen_scroll(int key, size_t *first);

#endif /* CLI_SCREEN_H */
