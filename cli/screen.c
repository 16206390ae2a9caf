// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "screen.h"
#include "lines.h"

#include <errno.h>
#include <stdio.h>
#include <ncurses.h>

static SCREEN *screen;

int screen_open(void)
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

void screen_close(void)
{
	if (!screen)
		return;
	curs_set(1);
	endwin();
	delscreen(screen);
	screen = NULL;
}

unsigned int screen_width(void)
{
	return (unsigned int)COLS;
}

static void screen_put_line(int row, const struct line *line)
{
	static const attr_t attrs[] = {
		[LINE_TITLE] = A_BOLD, [LINE_SUM] = A_NORMAL,  [LINE_COLUMNS] = A_REVERSE,
		[LINE_ROW] = A_BOLD,   [LINE_USER] = A_NORMAL, [LINE_NOTE] = A_DIM,
	};

	attrset(attrs[line->style]);
	if (line->style == LINE_COLUMNS)
		mvhline(row, 0, ' ', COLS);
	mvaddstr(row, 0, line->text);
	attrset(A_NORMAL);
}

void screen_draw(const struct lines *lines, size_t *first, const char *help)
{
	size_t below = lines->count > SCREEN_HEAD_LINES ? lines->count - SCREEN_HEAD_LINES : 0;
	int row = 0;
	size_t i;

	if (*first >= below)
		*first = below ? below - 1 : 0;
	erase();
	for (i = 0; i < lines->count && row < LINES - 1; i++) {
		if (i >= SCREEN_HEAD_LINES && i < SCREEN_HEAD_LINES + *first)
			continue;
		screen_put_line(row++, &lines->list[i]);
	}
	attrset(A_REVERSE);
	mvhline(LINES - 1, 0, ' ', COLS);
	mvaddnstr(LINES - 1, 0, help, COLS - 1);
	attrset(A_NORMAL);
	refresh();
}

int screen_key(double seconds)
{
	int key;

	timeout(seconds > 0 ? (int)(seconds * 1000) + 1 : 0);
	key = getch();
	switch (key) {
	case ERR:
		return SCREEN_NO_KEY;
	case KEY_UP:
		return SCREEN_UP;
	case KEY_DOWN:
		return SCREEN_DOWN;
	case KEY_PPAGE:
		return SCREEN_PAGE_UP;
	case KEY_NPAGE:
		return SCREEN_PAGE_DOWN;
	case KEY_RESIZE:
		return SCREEN_RESIZE;
	case '\f':
		/* Ctrl-L: another program wrote over the screen, so send everything again. */
		clearok(curscr, TRUE);
		return SCREEN_RESIZE;
	default:
		return key < 256 ? key : SCREEN_NO_KEY;
	}
}

void screen_scroll(int key, size_t *first)
{
	int rows = LINES - SCREEN_HEAD_LINES - 2;
	size_t page = rows > 0 ? (size_t)rows : 1;

	switch (key) {
	case SCREEN_UP:
		*first -= *first > 0;
		break;
	case SCREEN_DOWN:
		(*first)++;
		break;
	case SCREEN_PAGE_UP:
		*first -= *first < page ? *first : page;
		break;
	case SCREEN_PAGE_DOWN:
		*first += page;
		break;
	default:
		break;
	}
}
