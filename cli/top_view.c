// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* hugemap top: what is shown, as lines of text. */
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

/* The character at @text: its bytes, and the columns that it takes; -1 = cannot be shown. */
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

/* The end of a path says more than its beginning. */
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

static void put_latency(char text[CLI_TEXT], const struct hugemap_latency *latency, uint64_t ns)
{
	if (latency->count)
		cli_time(text, (double)ns);
	else
		snprintf(text, CLI_TEXT, "-");
}

static void put_read(char text[CLI_TEXT], const struct stat_view *view)
{
	cli_bytes(text, STAT_RATE(view, read_bytes));
}

static void put_write(char text[CLI_TEXT], const struct stat_view *view)
{
	cli_bytes(text, STAT_RATE(view, written_bytes));
}

static void put_faults(char text[CLI_TEXT], const struct stat_view *view)
{
	put_rate(text, STAT_RATE(view, faults));
}

/* Of the faults since last time; of all of them, if there were none. */
static double hit_share(const struct stat_view *view)
{
	uint64_t faults = view->now.faults - view->before.faults;

	if (!view->seconds || !faults || view->now.faults < view->before.faults)
		return stat_percent(view->now.hits, view->now.faults);
	return stat_percent(view->now.hits - view->before.hits, faults);
}

static void put_hits(char text[CLI_TEXT], const struct stat_view *view)
{
	if (view->now.faults)
		snprintf(text, CLI_TEXT, "%.0f", hit_share(view));
	else
		snprintf(text, CLI_TEXT, "-");
}

static void put_dirty(char text[CLI_TEXT], const struct stat_view *view)
{
	cli_bytes(text, (double)view->now.dirty_bytes);
}

static void put_io(char text[CLI_TEXT], const struct stat_view *view)
{
	snprintf(text, CLI_TEXT, "%" PRIu64, view->io_depth);
}

static void put_p50(char text[CLI_TEXT], const struct stat_view *view)
{
	put_latency(text, &view->now.fault_ns, view->now.fault_ns.p50);
}

static void put_p90(char text[CLI_TEXT], const struct stat_view *view)
{
	put_latency(text, &view->now.fault_ns, view->now.fault_ns.p90);
}

static void put_p99(char text[CLI_TEXT], const struct stat_view *view)
{
	put_latency(text, &view->now.fault_ns, view->now.fault_ns.p99);
}

static void put_p999(char text[CLI_TEXT], const struct stat_view *view)
{
	put_latency(text, &view->now.fault_ns, view->now.fault_ns.p999);
}

static void put_evictions(char text[CLI_TEXT], const struct stat_view *view)
{
	put_rate(text, STAT_RATE(view, evictions));
}

static void put_pool(char text[CLI_TEXT], const struct stat_view *view)
{
	cli_bytes(text, (double)view->now.pool_bytes);
}

static void put_resident(char text[CLI_TEXT], const struct stat_view *view)
{
	cli_bytes(text, (double)view->now.resident_bytes);
}

/* From left to right; a column is there if lines have @from columns or more. */
static const struct column {
	const char *title;
	unsigned int width;
	unsigned int from;
	void (*put)(char text[CLI_TEXT], const struct stat_view *view);
} columns[] = {
	{ "READ/S", 8, 24, put_read },	     { "WRITE/S", 8, 32, put_write },
	{ "FAULT/S", 8, 40, put_faults },    { "HIT%", 5, 46, put_hits },
	{ "DIRTY", 8, 54, put_dirty },	     { "IO", 5, 58, put_io },
	{ "P50", 8, 74, put_p50 },	     { "P90", 8, 120, put_p90 },
	{ "P99", 8, 66, put_p99 },	     { "P99.9", 8, 120, put_p999 },
	{ "EVICT/S", 8, 80, put_evictions }, { "RESIDENT", 9, 100, put_resident },
	{ "POOL", 8, 100, put_pool },
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

/* A line of columns; of a pool, or the titles. */
static void add_columns(struct top_view *view, const struct top_settings *settings,
			const char *name, const struct stat_view *numbers)
{
	char line[TOP_LINE], text[CLI_TEXT];
	unsigned int width = name_width(settings);
	size_t used, i;

	if (numbers)
		name = end_of(name, width);
	top_fit(line, sizeof(line), name, width, true);
	used = strlen(line);
	for (i = 0; i < NCOLUMNS; i++) {
		if (settings->width < columns[i].from)
			continue;
		if (numbers)
			columns[i].put(text, numbers);
		used += (size_t)snprintf(line + used, sizeof(line) - used, "%*s",
					 (int)columns[i].width, numbers ? text : columns[i].title);
	}
	add_line(view, settings, numbers ? TOP_POOL : TOP_COLUMNS, "%s", line);
}

/* --- order --- */

static double sort_value(const struct stat_view *view, enum top_sort sort)
{
	switch (sort) {
	case TOP_BY_READ:
		return STAT_RATE(view, read_bytes);
	case TOP_BY_WRITE:
		return STAT_RATE(view, written_bytes);
	case TOP_BY_FAULTS:
		return STAT_RATE(view, faults);
	case TOP_BY_HITS:
		return hit_share(view);
	case TOP_BY_DIRTY:
		return (double)view->now.dirty_bytes;
	case TOP_BY_EVICTIONS:
		return STAT_RATE(view, evictions);
	case TOP_BY_LATENCY:
		return (double)view->now.fault_ns.p99;
	default:
		return 0;
	}
}

static int by_value(const void *a, const void *b, void *arg)
{
	const struct top_pool *left = a, *right = b;
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
		const struct stat_view *numbers = &model->pools[i].view;

		mounts += !model->pools[i].pid;
		read += STAT_RATE(numbers, read_bytes);
		written += STAT_RATE(numbers, written_bytes);
		faults += STAT_RATE(numbers, faults);
		dirty += (double)numbers->now.dirty_bytes;
	}
	add_line(view, settings, TOP_TITLE,
		 "hugemap top: %zu mount%s, %zu pool%s of processes; every %g s, by %s", mounts,
		 mounts == 1 ? "" : "s", model->count - mounts,
		 model->count - mounts == 1 ? "" : "s", settings->interval,
		 top_keys[settings->sort].name);
	put_rate(d, faults);
	add_line(view, settings, TOP_SUM, "read %s/s, written %s/s, %s faults/s, dirty %s",
		 cli_bytes(a, read), cli_bytes(b, written), d, cli_bytes(c, dirty));
	add_columns(view, settings, "POOL", NULL);
}

static void add_users(const struct top_model *model, const struct top_settings *settings,
		      const struct top_pool *pool, struct top_view *view)
{
	char name[64], a[CLI_TEXT], b[CLI_TEXT], path[TOP_LINE];
	/* What the numbers leave of the line; the directory of the mount goes without saying. */
	unsigned int width = settings->width > 78 ? settings->width - 65 : 13;
	size_t dir = strlen(pool->name), i;

	for (i = 0; i < model->users.count; i++) {
		const struct user *user = &model->users.list[i];
		const char *file = user->path;

		if (user->dev != pool->dev)
			continue;
		if (!strncmp(file, pool->name, dir) && file[dir] == '/')
			file += dir + 1;
		top_fit(name, sizeof(name), user->name, 12, true);
		top_fit(path, sizeof(path), end_of(file, width), width, true);
		add_line(view, settings, TOP_USER,
			 "  %7d %s %s %8s in %" PRIu64 ", %7s here, %3.0f%% huge", user->pid, name,
			 path, cli_bytes(a, (double)user->mapped_bytes), user->mappings,
			 cli_bytes(b, (double)user->resident_bytes),
			 stat_percent(user->huge_bytes, user->resident_bytes));
	}
}

static void add_mappings(const struct top_settings *settings, const struct top_pool *pool,
			 struct top_view *view)
{
	const struct stat_view *numbers = &pool->view;
	char text[CLI_TEXT];

	if (!strcmp(pool->engine, "steered")) {
		add_line(view, settings, TOP_USER,
			 "    %s in %" PRIu64 " mapping%s, %" PRIu64 " huge pages; steered",
			 cli_bytes(text, (double)numbers->now.mapped_bytes), numbers->mappings,
			 numbers->mappings == 1 ? "" : "s", numbers->now.huge_pages);
		return;
	}
	add_line(view, settings, TOP_USER,
		 "    %s in %" PRIu64 " mapping%s, %" PRIu64 " huge and %" PRIu64
		 " base pages; %s engine%s%s",
		 cli_bytes(text, (double)numbers->now.mapped_bytes), numbers->mappings,
		 numbers->mappings == 1 ? "" : "s", numbers->now.huge_pages,
		 numbers->now.base_pages, pool->engine, pool->io[0] ? ", " : "", pool->io);
}

/* Which part of which file of a mount is cached. */
static void add_strips(const struct top_model *model, const struct top_settings *settings,
		       const struct top_pool *pool, struct top_view *view)
{
	char strip[TOP_LINE], path[TOP_LINE], a[CLI_TEXT], b[CLI_TEXT], c[CLI_TEXT], d[CLI_TEXT];
	unsigned int width = settings->width > 4 ? settings->width - 4 : 1;
	size_t dir = strlen(pool->name), i;

	/* So many signs of three bytes a line has room for. */
	if (width > TOP_LINE / 4)
		width = TOP_LINE / 4;
	for (i = 0; i < model->nstrips; i++) {
		const struct top_strip *file = &model->strips[i];
		uint64_t huge, base, dirty;
		const char *name = file->path;

		if (file->dev != pool->dev)
			continue;
		if (!strncmp(name, pool->name, dir) && name[dir] == '/')
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
		qsort_r(model->pools, model->count, sizeof(*model->pools), by_value, &sort);
	/* They were moved. */
	for (i = 0; i < model->count; i++) {
		struct top_pool *pool = &model->pools[i];

		pool->view.engine = pool->engine;
		pool->view.io = pool->io;
		pool->view.count = pool->pid ? NULL : pool->count;
	}
	add_head(model, settings, view);
	for (i = 0; i < model->count; i++) {
		const struct top_pool *pool = &model->pools[i];

		add_columns(view, settings, pool->name, &pool->view);
		if (settings->mappings && pool->pid)
			add_mappings(settings, pool, view);
		else if (settings->mappings)
			add_users(model, settings, pool, view);
		if (settings->strips && !pool->pid)
			add_strips(model, settings, pool, view);
	}
	if (settings->strips && model->nstrips)
		add_line(view, settings, TOP_NOTE, "%s", top_strip_legend[settings->unicode]);
	if (!model->count)
		add_line(view, settings, TOP_NOTE,
			 "No process here uses HugeMap now, and there is no mount of it.");
	if (model->closed)
		add_line(view, settings, TOP_NOTE,
			 "%u processes belong to others: as root, you could look into them.",
			 model->closed);
}

void top_view_free(struct top_view *view)
{
	free(view->lines);
	*view = (struct top_view){};
}
