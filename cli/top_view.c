// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* hugemap top: lines of text from the numbers. */
#include "top_view.h"
#include "cli.h"
#include "top_model.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* --- columns --- */

static void top_put_rate(char text[CLI_TEXT], double per_second)
{
	if (per_second < 1e6)
		snprintf(text, CLI_TEXT, "%.0f", per_second);
	else
		snprintf(text, CLI_TEXT, "%.1fM", per_second / 1e6);
}

static void top_put_latency(char text[CLI_TEXT], const struct mount_sample *sample, uint64_t ns)
{
	if (sample->now.latency[MOUNT_FAULT_NS].count)
		cli_time(text, (double)ns);
	else
		snprintf(text, CLI_TEXT, "-");
}

static void top_put_read(char text[CLI_TEXT], const struct mount_sample *sample)
{
	cli_bytes(text, sample_rate(sample, MOUNT_READ_BYTES));
}

static void top_put_write(char text[CLI_TEXT], const struct mount_sample *sample)
{
	cli_bytes(text, sample_rate(sample, MOUNT_WRITTEN_BYTES));
}

static void top_put_faults(char text[CLI_TEXT], const struct mount_sample *sample)
{
	top_put_rate(text, sample_rate(sample, MOUNT_FAULTS));
}

/* The share of hits since the last sample; without faults since then, since the mount. */
static double top_hit_share(const struct mount_sample *sample)
{
	const uint64_t *now = sample->now.count, *before = sample->before.count;
	uint64_t faults = now[MOUNT_FAULTS] - before[MOUNT_FAULTS];

	if (!sample->seconds || !faults || now[MOUNT_FAULTS] < before[MOUNT_FAULTS])
		return sample_percent(now[MOUNT_HITS], now[MOUNT_FAULTS]);
	return sample_percent(now[MOUNT_HITS] - before[MOUNT_HITS], faults);
}

static void top_put_hits(char text[CLI_TEXT], const struct mount_sample *sample)
{
	if (sample->now.count[MOUNT_FAULTS])
		snprintf(text, CLI_TEXT, "%.0f", top_hit_share(sample));
	else
		snprintf(text, CLI_TEXT, "-");
}

static void top_put_dirty(char text[CLI_TEXT], const struct mount_sample *sample)
{
	cli_bytes(text, (double)sample->now.count[MOUNT_DIRTY_BYTES]);
}

static void top_put_io(char text[CLI_TEXT], const struct mount_sample *sample)
{
	snprintf(text, CLI_TEXT, "%" PRIu64, sample->now.count[MOUNT_IO_IN_FLIGHT]);
}

static void top_put_p50(char text[CLI_TEXT], const struct mount_sample *sample)
{
	top_put_latency(text, sample, sample->now.latency[MOUNT_FAULT_NS].p50);
}

static void top_put_p90(char text[CLI_TEXT], const struct mount_sample *sample)
{
	top_put_latency(text, sample, sample->now.latency[MOUNT_FAULT_NS].p90);
}

static void top_put_p99(char text[CLI_TEXT], const struct mount_sample *sample)
{
	top_put_latency(text, sample, sample->now.latency[MOUNT_FAULT_NS].p99);
}

static void top_put_p999(char text[CLI_TEXT], const struct mount_sample *sample)
{
	top_put_latency(text, sample, sample->now.latency[MOUNT_FAULT_NS].p999);
}

static void top_put_evictions(char text[CLI_TEXT], const struct mount_sample *sample)
{
	top_put_rate(text, sample_rate(sample, MOUNT_EVICTIONS));
}

static void top_put_pool(char text[CLI_TEXT], const struct mount_sample *sample)
{
	cli_bytes(text, (double)sample->now.pool_bytes);
}

static void top_put_resident(char text[CLI_TEXT], const struct mount_sample *sample)
{
	cli_bytes(text, (double)sample->now.count[MOUNT_RESIDENT_BYTES]);
}

/**
 * struct column - a column of the table
 * @title: its title
 * @width: its width
 * @from: smallest width of the terminal at which the column is shown
 * @of_process: processes have this number, too
 * @put: makes the text of a cell
 */
static const struct column {
	const char *title;
	unsigned int width;
	unsigned int from;
	bool of_process;
	void (*put)(char text[CLI_TEXT], const struct mount_sample *sample);
} columns[] = {
	{ "READ/S", 8, 24, true, top_put_read },
	{ "WRITE/S", 8, 32, false, top_put_write },
	{ "FAULT/S", 8, 40, true, top_put_faults },
	{ "HIT%", 5, 46, true, top_put_hits },
	{ "DIRTY", 8, 54, false, top_put_dirty },
	{ "IO", 5, 58, false, top_put_io },
	{ "P50", 8, 74, false, top_put_p50 },
	{ "P90", 8, 120, false, top_put_p90 },
	{ "P99", 8, 66, false, top_put_p99 },
	{ "P99.9", 8, 120, false, top_put_p999 },
	{ "EVICT/S", 8, 80, false, top_put_evictions },
	{ "RESIDENT", 9, 100, false, top_put_resident },
	{ "POOL", 8, 100, false, top_put_pool },
};

#define NCOLUMNS (sizeof(columns) / sizeof(columns[0]))

static unsigned int top_name_width(const struct top_settings *settings)
{
	unsigned int width = settings->width;
	size_t i;

	for (i = 0; i < NCOLUMNS; i++)
		if (settings->width >= columns[i].from)
			width -= columns[i].width;
	return width;
}

/* Add a line of columns: a row, or the titles if @row is NULL. */
static void top_add_columns(struct lines *lines, const struct top_settings *settings,
			    const struct top_row *row)
{
	char line[LINE_BYTES], text[CLI_TEXT];
	unsigned int width = top_name_width(settings);
	size_t used, i;

	lines_fit(line, sizeof(line), row ? lines_fit_end(row->name, width) : "NAME", width, true);
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
			column->put(text, &row->sample);
		used += (size_t)snprintf(line + used, sizeof(line) - used, "%*s",
					 (int)column->width, text);
	}
	lines_add(lines, row ? LINE_ROW : LINE_COLUMNS, "%s", line);
}

/* --- order --- */

static double top_sort_value(const struct mount_sample *sample, enum top_sort sort)
{
	switch (sort) {
	case TOP_BY_READ:
		return sample_rate(sample, MOUNT_READ_BYTES);
	case TOP_BY_WRITE:
		return sample_rate(sample, MOUNT_WRITTEN_BYTES);
	case TOP_BY_FAULTS:
		return sample_rate(sample, MOUNT_FAULTS);
	case TOP_BY_HITS:
		return top_hit_share(sample);
	case TOP_BY_DIRTY:
		return (double)sample->now.count[MOUNT_DIRTY_BYTES];
	case TOP_BY_EVICTIONS:
		return sample_rate(sample, MOUNT_EVICTIONS);
	case TOP_BY_LATENCY:
		return (double)sample->now.latency[MOUNT_FAULT_NS].p99;
	default:
		return 0;
	}
}

static int top_compare_value(const void *a, const void *b, void *arg)
{
	const struct top_row *left = a, *right = b;
	const enum top_sort *sort = arg;
	double l = top_sort_value(&left->sample, *sort), r = top_sort_value(&right->sample, *sort);

	if (l != r)
		return l < r ? 1 : -1;
	return strcmp(left->name, right->name);
}

/* --- lines --- */

static void top_add_head(const struct top_model *model, const struct top_settings *settings,
			 struct lines *lines)
{
	double read = 0, written = 0, faults = 0, dirty = 0;
	size_t i, mounts = 0;
	char a[CLI_TEXT], b[CLI_TEXT], c[CLI_TEXT], d[CLI_TEXT];

	for (i = 0; i < model->count; i++) {
		const struct mount_sample *numbers = &model->rows[i].sample;

		mounts += !model->rows[i].pid;
		read += sample_rate(numbers, MOUNT_READ_BYTES);
		written += sample_rate(numbers, MOUNT_WRITTEN_BYTES);
		faults += sample_rate(numbers, MOUNT_FAULTS);
		dirty += (double)numbers->now.count[MOUNT_DIRTY_BYTES];
	}
	lines_add(lines, LINE_TITLE, "hugemap top: %zu mount%s, %zu process%s; every %g s, by %s",
		  mounts, mounts == 1 ? "" : "s", model->count - mounts,
		  model->count - mounts == 1 ? "" : "es", settings->interval,
		  top_keys[settings->sort].name);
	top_put_rate(d, faults);
	lines_add(lines, LINE_SUM, "read %s/s, written %s/s, %s faults/s, dirty %s",
		  cli_bytes(a, read), cli_bytes(b, written), d, cli_bytes(c, dirty));
	top_add_columns(lines, settings, NULL);
}

static void top_add_users(const struct top_model *model, const struct top_settings *settings,
			  const struct top_row *row, struct lines *lines)
{
	char name[64], a[CLI_TEXT], b[CLI_TEXT], path[LINE_BYTES];
	/* The width that the numbers leave for the name of the file. */
	unsigned int width = settings->width > 78 ? settings->width - 65 : 13;
	size_t dir = strlen(row->name), i;

	for (i = 0; i < model->users.count; i++) {
		const struct user *user = &model->users.list[i];
		const char *file = user->path;

		if (user->dev != row->dev)
			continue;
		if (!strncmp(file, row->name, dir) && file[dir] == '/')
			file += dir + 1;
		lines_fit(name, sizeof(name), user->name, 12, true);
		lines_fit(path, sizeof(path), lines_fit_end(file, width), width, true);
		lines_add(lines, LINE_USER,
			  "  %7d %s %s %8s in %" PRIu64 ", %7s here, %3.0f%% huge", user->pid, name,
			  path, cli_bytes(a, (double)user->mapped_bytes), user->mappings,
			  cli_bytes(b, (double)user->resident_bytes),
			  sample_percent(user->huge_bytes, user->resident_bytes));
	}
}

static void top_add_mappings(const struct top_settings *settings, const struct top_row *row,
			     struct lines *lines)
{
	const struct mount_numbers *now = &row->sample.now;
	char text[CLI_TEXT];

	lines_add(lines, LINE_USER, "    %s in %" PRIu64 " mapping%s, %" PRIu64 " huge pages",
		  cli_bytes(text, (double)now->mapped_bytes), now->mappings,
		  now->mappings == 1 ? "" : "s", now->huge_pages);
}

/* Add the strips of the files of a mount. */
static void top_add_strips(const struct top_model *model, const struct top_settings *settings,
			   const struct top_row *row, struct lines *lines)
{
	char strip[LINE_BYTES], path[LINE_BYTES], a[CLI_TEXT], b[CLI_TEXT], c[CLI_TEXT],
		d[CLI_TEXT];
	unsigned int width = settings->width > 4 ? settings->width - 4 : 1;
	size_t dir = strlen(row->name), i;

	/* A sign has up to three bytes. */
	if (width > LINE_BYTES / 4)
		width = LINE_BYTES / 4;
	for (i = 0; i < model->strips.count; i++) {
		const struct top_strip *file = &model->strips.list[i];
		uint64_t huge, base, dirty;
		const char *name = file->path;

		if (file->dev != row->dev)
			continue;
		if (!strncmp(name, row->name, dir) && name[dir] == '/')
			name += dir + 1;
		lines_fit(path, sizeof(path), lines_fit_end(name, 24), 24, false);
		top_strip_sum(file, &huge, &base, &dirty);
		lines_add(lines, LINE_USER,
			  "  %s: %s in 2 MB pages, %s in 4 KB, of %s; %s not written", path,
			  cli_bytes(a, (double)huge), cli_bytes(b, (double)base),
			  cli_bytes(c, (double)file->bytes), cli_bytes(d, (double)dirty));
		top_strip_text(strip, sizeof(strip), file, width, settings->unicode);
		lines_add(lines, LINE_USER, "  [%s]", strip);
	}
}

void top_view_build(struct top_model *model, const struct top_settings *settings,
		    struct lines *lines)
{
	enum top_sort sort = settings->sort;
	size_t i;

	lines->width = settings->width;
	if (model->count)
		qsort_r(model->rows, model->count, sizeof(*model->rows), top_compare_value, &sort);
	top_add_head(model, settings, lines);
	for (i = 0; i < model->count; i++) {
		const struct top_row *row = &model->rows[i];

		top_add_columns(lines, settings, row);
		if (settings->mappings && row->pid)
			top_add_mappings(settings, row, lines);
		else if (settings->mappings)
			top_add_users(model, settings, row, lines);
		if (settings->strips && !row->pid)
			top_add_strips(model, settings, row, lines);
	}
	if (settings->strips && model->strips.count)
		lines_add(lines, LINE_NOTE, "%s", top_strip_legend[settings->unicode]);
	if (!model->count)
		lines_add(lines, LINE_NOTE,
			  "No process here uses HugeMap now, and there is no mount of it.");
	if (model->denied)
		lines_add(lines, LINE_NOTE,
			  "%u more process%s of other users: only root can look into them.",
			  model->denied, model->denied == 1 ? "" : "es");
}
