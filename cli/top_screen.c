// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* hugemap top: the terminal, by ncurses. */
#include "top.h"

#include <errno.h>
#include <stdio.h>
#include <ncurses.h>

static SCREEN *screen;

int top_screen_open(void)
{
	screen = newterm(NULL, stdout, stdin);
	if (!screen)
		return -ENOTTY;
	cbreak();
	noecho();
	nonl();
	keypad(stdscr, TRUE);
	curs_set(0);
	return 0;
}

void top_screen_close(void)
{
	if (!screen)
		return;
	curs_set(1);
	endwin();
	delscreen(screen);
	screen = NULL;
}

void top_screen_size(unsigned int *width, unsigned int *height)
{
	*width = (unsigned int)COLS;
	*height = (unsigned int)LINES;
}

static void put_line(int row, const struct top_line *line)
{
	static const attr_t attrs[] = {
		[TOP_TITLE] = A_BOLD, [TOP_SUM] = A_NORMAL,  [TOP_COLUMNS] = A_REVERSE,
		[TOP_ROW] = A_BOLD,   [TOP_USER] = A_NORMAL, [TOP_NOTE] = A_DIM,
	};

	attrset(attrs[line->style]);
	if (line->style == TOP_COLUMNS)
		mvhline(row, 0, ' ', COLS);
	mvaddstr(row, 0, line->text);
	attrset(A_NORMAL);
}

void top_screen_draw(const struct top_view *view, size_t first, const char *help)
{
	int row = 0;
	size_t i;

	erase();
	for (i = 0; i < view->count && row < LINES - 1; i++) {
		if (i >= TOP_HEAD_LINES && i < TOP_HEAD_LINES + first)
			continue;
		put_line(row++, &view->lines[i]);
	}
	attrset(A_REVERSE);
	mvhline(LINES - 1, 0, ' ', COLS);
	mvaddnstr(LINES - 1, 0, help, COLS - 1);
	attrset(A_NORMAL);
	refresh();
}

int top_screen_key(double seconds)
{
	int key;

	timeout(seconds > 0 ? (int)(seconds * 1000) + 1 : 0);
	key = getch();
	switch (key) {
	case ERR:
		return TOP_NO_KEY;
	case KEY_UP:
		return TOP_KEY_UP;
	case KEY_DOWN:
		return TOP_KEY_DOWN;
	case KEY_PPAGE:
		return TOP_KEY_PAGE_UP;
	case KEY_NPAGE:
		return TOP_KEY_PAGE_DOWN;
	case KEY_RESIZE:
		return TOP_KEY_RESIZE;
	case '\f':
		/* Another program wrote over the screen: send everything again. */
		clearok(curscr, TRUE);
		return TOP_KEY_RESIZE;
	default:
		return key < 256 ? key : TOP_NO_KEY;
	}
}
