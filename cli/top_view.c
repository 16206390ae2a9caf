// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* hugemap top: lines of text. */
#include "top.h"
#include "cli.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

const struct top_key top_keys[TOP_SORTS] = {
	[TOP_BY_READ] = { 'r', "read" },       [TOP_BY_WRITE] = { 'w', "write" },
	[TOP_BY_FAULTS] = { 'f', "faults" },   [TOP_BY_HITS] = { 'h', "hits" },
	[TOP_BY_DIRTY] = { 'd', "dirty" },     [TOP_BY_EVICTIONS] = { 'e', "evictions" },
	[TOP_BY_LATENCY] = { 'l', "latency" }, [TOP_BY_NAME] = { 'n', "name" },
};

bool top_sort_of(const char *name, enum top_sort *sort)
{
	int i;

	for (i = 0; i < TOP_SORTS; i++) {
		if (strcmp(top_keys[i].name, name))
			continue;
		*sort = (enum top_sort)i;
		return true;
	}
	return false;
}

/* --- text of a width --- */

/* The bytes of the character at @text, and the columns that it takes; -1 = cannot be shown. */
static size_t next_char(const char *text, int *columns)
{
	mbstate_t state = {};
	wchar_t wide;
	size_t n = mbrtowc(&wide, text, strlen(text), &state);

	if (n == 0 || n > strlen(text)) {
		*columns = -1;
		return 1;
	}
	*columns = wcwidth(wide);
	return n;
}

unsigned int top_fit(char *to, size_t size, const char *text, unsigned int width, bool fill)
{
	unsigned int used = 0;
	size_t at = 0;

	while (*text) {
		int columns;
		size_t n = next_char(text, &columns);
		const char *from = columns < 0 ? "?" : text;
		size_t bytes = columns < 0 ? 1 : n;

		columns = columns < 0 ? 1 : columns;
		if (used + (unsigned int)columns > width || at + bytes + 1 > size)
			break;
		memcpy(to + at, from, bytes);
		at += bytes;
		used += (unsigned int)columns;
		text += n;
	}
	while (fill && used < width && at + 2 <= size) {
		to[at++] = ' ';
		used++;
	}
	to[at] = '\0';
	return used;
}

static unsigned int width_of(const char *text)
{
	char buffer[TOP_LINE];

	return top_fit(buffer, sizeof(buffer), text, TOP_LINE, false);
}

/* The end of a path that fits: it identifies the file better than the beginning. */
static const char *end_of(const char *path, unsigned int width)
{
	int columns;

	while (width_of(path) > width)
		path += next_char(path, &columns);
	return path;
}

void top_view_add(struct top_view *view, unsigned int width, enum top_style style, const char *text)
{
	struct top_line *line;

	line = cli_grow(view->lines, view->count, &view->room, sizeof(*line));
	if (!line)
		return;
	view->lines = line;
	line = &view->lines[view->count++];
	line->style = style;
	top_fit(line->text, sizeof(line->text), text, width, false);
}

static void add_line(struct top_view *view, const struct top_settings *settings,
		     enum top_style style, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

static void add_line(struct top_view *view, const struct top_settings *settings,
		     enum top_style style, const char *format, ...)
{
	char text[TOP_LINE];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	top_view_add(view, settings->width, style, text);
}

/* --- columns --- */

static void put_rate(char text[CLI_TEXT], double per_second)
{
	if (per_second < 1e6)
		snprintf(text, CLI_TEXT, "%.0f", per_second);
	else
		snprintf(text, CLI_TEXT, "%.1fM", per_second / 1e6);
}

static void put_latency(char text[CLI_TEXT], const struct mount_sample *view, uint64_t ns)
{
	if (view->now.fault_ns.count)
		cli_time(text, (double)ns);
	else
		snprintf(text, CLI_TEXT, "-");
}

static void put_read(char text[CLI_TEXT], const struct mount_sample *view)
{
	cli_bytes(text, sample_rate(view, MOUNT_READ));
}

static void put_write(char text[CLI_TEXT], const struct mount_sample *view)
{
	cli_bytes(text, sample_rate(view, MOUNT_WRITTEN));
}

static void put_faults(char text[CLI_TEXT], const struct mount_sample *view)
{
	put_rate(text, sample_rate(view, MOUNT_FAULTS));
}

/* The share of hits since the last look; without faults since then, the share of all faults. */
static double hit_share(const struct mount_sample *view)
{
	const uint64_t *now = view->now.count, *before = view->before.count;
	uint64_t faults = now[MOUNT_FAULTS] - before[MOUNT_FAULTS];

	if (!view->seconds || !faults || now[MOUNT_FAULTS] < before[MOUNT_FAULTS])
		return sample_percent(now[MOUNT_HITS], now[MOUNT_FAULTS]);
	return sample_percent(now[MOUNT_HITS] - before[MOUNT_HITS], faults);
}

static void put_hits(char text[CLI_TEXT], const struct mount_sample *view)
{
	if (view->now.count[MOUNT_FAULTS])
		snprintf(text, CLI_TEXT, "%.0f", hit_share(view));
	else
		snprintf(text, CLI_TEXT, "-");
}

static void put_dirty(char text[CLI_TEXT], const struct mount_sample *view)
{
	cli_bytes(text, (double)view->now.count[MOUNT_DIRTY]);
}

static void put_io(char text[CLI_TEXT], const struct mount_sample *view)
{
	snprintf(text, CLI_TEXT, "%" PRIu64, view->now.count[MOUNT_IO_IN_FLIGHT]);
}

static void put_p50(char text[CLI_TEXT], const struct mount_sample *view)
{
	put_latency(text, view, view->now.fault_ns.p50);
}

static void put_p90(char text[CLI_TEXT], const struct mount_sample *view)
{
	put_latency(text, view, view->now.fault_ns.p90);
}

static void put_p99(char text[CLI_TEXT], const struct mount_sample *view)
{
	put_latency(text, view, view->now.fault_ns.p99);
}

static void put_p999(char text[CLI_TEXT], const struct mount_sample *view)
{
	put_latency(text, view, view->now.fault_ns.p999);
}

static void put_evictions(char text[CLI_TEXT], const struct mount_sample *view)
{
	put_rate(text, sample_rate(view, MOUNT_EVICTIONS));
}

static void put_pool(char text[CLI_TEXT], const struct mount_sample *view)
{
	cli_bytes(text, (double)view->now.pool_bytes);
}

static void put_resident(char text[CLI_TEXT], const struct mount_sample *view)
{
	cli_bytes(text, (double)view->now.count[MOUNT_RESIDENT]);
}

/**
 * columns - from left to right
 * @from: the column is shown if lines have so many columns of the terminal or more
 * @of_process: the number is known of processes, too
 */
static const struct column {
	const char *title;
	unsigned int width;
	unsigned int from;
	bool of_process;
	void (*put)(char text[CLI_TEXT], const struct mount_sample *view);
} columns[] = {
	{ "READ/S", 8, 24, true, put_read },	    { "WRITE/S", 8, 32, false, put_write },
	{ "FAULT/S", 8, 40, true, put_faults },	    { "HIT%", 5, 46, true, put_hits },
	{ "DIRTY", 8, 54, false, put_dirty },	    { "IO", 5, 58, false, put_io },
	{ "P50", 8, 74, false, put_p50 },	    { "P90", 8, 120, false, put_p90 },
	{ "P99", 8, 66, false, put_p99 },	    { "P99.9", 8, 120, false, put_p999 },
	{ "EVICT/S", 8, 80, false, put_evictions }, { "RESIDENT", 9, 100, false, put_resident },
	{ "POOL", 8, 100, false, put_pool },
};

#define NCOLUMNS (sizeof(columns) / sizeof(columns[0]))

static unsigned int name_width(const struct top_settings *settings)
{
	unsigned int width = settings->width;
	size_t i;

	for (i = 0; i < NCOLUMNS; i++)
		if (settings->width >= columns[i].from)
			width -= columns[i].width;
	return width;
}

/* A line of columns: of a row, or the titles. */
static void add_columns(struct top_view *view, const struct top_settings *settings,
			const struct top_row *row)
{
	char line[TOP_LINE], text[CLI_TEXT];
	unsigned int width = name_width(settings);
	size_t used, i;

	top_fit(line, sizeof(line), row ? end_of(row->name, width) : "NAME", width, true);
	used = strlen(line);
	for (i = 0; i < NCOLUMNS; i++) {
		const struct column *column = &columns[i];

		if (settings->width < column->from)
			continue;
		if (!row)
			snprintf(text, sizeof(text), "%s", column->title);
		else if (row->pid && !column->of_process)
			snprintf(text, sizeof(text), "-");
		else
			column->put(text, &row->view);
		used += (size_t)snprintf(line + used, sizeof(line) - used, "%*s",
					 (int)column->width, text);
	}
	add_line(view, settings, row ? TOP_ROW : TOP_COLUMNS, "%s", line);
}

/* --- order --- */

static double sort_value(const struct mount_sample *view, enum top_sort sort)
{
	switch (sort) {
	case TOP_BY_READ:
		return sample_rate(view, MOUNT_READ);
	case TOP_BY_WRITE:
		return sample_rate(view, MOUNT_WRITTEN);
	case TOP_BY_FAULTS:
		return sample_rate(view, MOUNT_FAULTS);
	case TOP_BY_HITS:
		return hit_share(view);
	case TOP_BY_DIRTY:
		return (double)view->now.count[MOUNT_DIRTY];
	case TOP_BY_EVICTIONS:
		return sample_rate(view, MOUNT_EVICTIONS);
	case TOP_BY_LATENCY:
		return (double)view->now.fault_ns.p99;
	default:
		return 0;
	}
}

static int by_value(const void *a, const void *b, void *arg)
{
	const struct top_row *left = a, *right = b;
	const enum top_sort *sort = arg;
	double l = sort_value(&left->view, *sort), r = sort_value(&right->view, *sort);

	if (l != r)
		return l < r ? 1 : -1;
	return strcmp(left->name, right->name);
}

/* --- lines --- */

static void add_head(const struct top_model *model, const struct top_settings *settings,
		     struct top_view *view)
{
	double read = 0, written = 0, faults = 0, dirty = 0;
	size_t i, mounts = 0;
	char a[CLI_TEXT], b[CLI_TEXT], c[CLI_TEXT], d[CLI_TEXT];

	for (i = 0; i < model->count; i++) {
		const struct mount_sample *numbers = &model->rows[i].view;

		mounts += !model->rows[i].pid;
		read += sample_rate(numbers, MOUNT_READ);
		written += sample_rate(numbers, MOUNT_WRITTEN);
		faults += sample_rate(numbers, MOUNT_FAULTS);
		dirty += (double)numbers->now.count[MOUNT_DIRTY];
	}
	add_line(view, settings, TOP_TITLE,
		 "hugemap top: %zu mount%s, %zu process%s; every %g s, by %s", mounts,
		 mounts == 1 ? "" : "s", model->count - mounts,
		 model->count - mounts == 1 ? "" : "es", settings->interval,
		 top_keys[settings->sort].name);
	put_rate(d, faults);
	add_line(view, settings, TOP_SUM, "read %s/s, written %s/s, %s faults/s, dirty %s",
		 cli_bytes(a, read), cli_bytes(b, written), d, cli_bytes(c, dirty));
	add_columns(view, settings, NULL);
}

static void add_users(const struct top_model *model, const struct top_settings *settings,
		      const struct top_row *row, struct top_view *view)
{
	char name[64], a[CLI_TEXT], b[CLI_TEXT], path[TOP_LINE];
	/* The room that the numbers leave. The directory of the mount is left out. */
	unsigned int width = settings->width > 78 ? settings->width - 65 : 13;
	size_t dir = strlen(row->name), i;

	for (i = 0; i < model->users.count; i++) {
		const struct user *user = &model->users.list[i];
		const char *file = user->path;

		if (user->dev != row->dev)
			continue;
		if (!strncmp(file, row->name, dir) && file[dir] == '/')
			file += dir + 1;
		top_fit(name, sizeof(name), user->name, 12, true);
		top_fit(path, sizeof(path), end_of(file, width), width, true);
		add_line(view, settings, TOP_USER,
			 "  %7d %s %s %8s in %" PRIu64 ", %7s here, %3.0f%% huge", user->pid, name,
			 path, cli_bytes(a, (double)user->mapped_bytes), user->mappings,
			 cli_bytes(b, (double)user->resident_bytes),
			 sample_percent(user->huge_bytes, user->resident_bytes));
	}
}

static void add_mappings(const struct top_settings *settings, const struct top_row *row,
			 struct top_view *view)
{
	const struct mount_numbers *now = &row->view.now;
	char text[CLI_TEXT];

	add_line(view, settings, TOP_USER,
		 "    %s in %" PRIu64 " mapping%s, %" PRIu64 " huge pages",
		 cli_bytes(text, (double)now->mapped_bytes), now->mappings,
		 now->mappings == 1 ? "" : "s", now->huge_pages);
}

/* The cached parts of the files of a mount. */
static void add_strips(const struct top_model *model, const struct top_settings *settings,
		       const struct top_row *row, struct top_view *view)
{
	char strip[TOP_LINE], path[TOP_LINE], a[CLI_TEXT], b[CLI_TEXT], c[CLI_TEXT], d[CLI_TEXT];
	unsigned int width = settings->width > 4 ? settings->width - 4 : 1;
	size_t dir = strlen(row->name), i;

	/* A line has room for so many signs of three bytes. */
	if (width > TOP_LINE / 4)
		width = TOP_LINE / 4;
	for (i = 0; i < model->nstrips; i++) {
		const struct top_strip *file = &model->strips[i];
		uint64_t huge, base, dirty;
		const char *name = file->path;

		if (file->dev != row->dev)
			continue;
		if (!strncmp(name, row->name, dir) && name[dir] == '/')
			name += dir + 1;
		top_fit(path, sizeof(path), end_of(name, 24), 24, false);
		top_strip_sum(file, &huge, &base, &dirty);
		add_line(view, settings, TOP_USER,
			 "  %s: %s in 2 MB pages, %s in 4 KB, of %s; %s not written", path,
			 cli_bytes(a, (double)huge), cli_bytes(b, (double)base),
			 cli_bytes(c, (double)file->bytes), cli_bytes(d, (double)dirty));
		top_strip_text(strip, sizeof(strip), file, width, settings->unicode);
		add_line(view, settings, TOP_USER, "  [%s]", strip);
	}
}

void top_view_build(struct top_model *model, const struct top_settings *settings,
		    struct top_view *view)
{
	enum top_sort sort = settings->sort;
	size_t i;

	if (model->count)
		qsort_r(model->rows, model->count, sizeof(*model->rows), by_value, &sort);
	add_head(model, settings, view);
	for (i = 0; i < model->count; i++) {
		const struct top_row *row = &model->rows[i];

		add_columns(view, settings, row);
		if (settings->mappings && row->pid)
			add_mappings(settings, row, view);
		else if (settings->mappings)
			add_users(model, settings, row, view);
		if (settings->strips && !row->pid)
			add_strips(model, settings, row, view);
	}
	if (settings->strips && model->nstrips)
		add_line(view, settings, TOP_NOTE, "%s", top_strip_legend[settings->unicode]);
	if (!model->count)
		add_line(view, settings, TOP_NOTE,
			 "No process here uses HugeMap now, and there is no mount of it.");
	if (model->closed)
		add_line(view, settings, TOP_NOTE,
			 "%u more process%s of other users: only root can look into them.",
			 model->closed, model->closed == 1 ? "" : "es");
}

void top_view_free(struct top_view *view)
{
	free(view->lines);
	*view = (struct top_view){};
}
