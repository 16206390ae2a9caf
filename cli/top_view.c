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

static void top_put_process_read(char text[CLI_TEXT], const struct top_steered *steered)
{
	cli_bytes(text, top_rate(steered, TOP_READ_BYTES));
}

static void top_put_process_used(char text[CLI_TEXT], const struct top_steered *steered)
{
	cli_bytes(text, top_rate(steered, TOP_USED_BYTES));
}

static void top_put_process_faults(char text[CLI_TEXT], const struct top_steered *steered)
{
	top_put_rate(text, top_rate(steered, TOP_FAULTS));
}

static void top_put_process_waits(char text[CLI_TEXT], const struct top_steered *steered)
{
	top_put_rate(text, top_rate(steered, TOP_WAITS));
}

static void top_put_process_mapped(char text[CLI_TEXT], const struct top_steered *steered)
{
	cli_bytes(text, (double)steered->mapped_bytes);
}

static void top_put_process_huge(char text[CLI_TEXT], const struct top_steered *steered)
{
	cli_bytes(text, (double)steered->huge_bytes);
}

/**
 * struct column - a column of the table of mounts, or of the table of processes
 * @title: its title
 * @width: its width
 * @from: smallest width of the terminal at which the column is shown
 * @put: makes the text of a cell of a mount
 * @put_process: makes the text of a cell of a process
 */
static const struct column {
	const char *title;
	unsigned int width;
	unsigned int from;
	void (*put)(char text[CLI_TEXT], const struct mount_sample *sample);
	void (*put_process)(char text[CLI_TEXT], const struct top_steered *steered);
} mount_columns[] = {
	{ "READ/S", 8, 24, top_put_read, NULL },
	{ "WRITE/S", 8, 32, top_put_write, NULL },
	{ "FAULT/S", 8, 40, top_put_faults, NULL },
	{ "HIT%", 5, 46, top_put_hits, NULL },
	{ "DIRTY", 8, 54, top_put_dirty, NULL },
	{ "IO", 5, 58, top_put_io, NULL },
	{ "P50", 8, 74, top_put_p50, NULL },
	{ "P90", 8, 120, top_put_p90, NULL },
	{ "P99", 8, 66, top_put_p99, NULL },
	{ "P99.9", 8, 120, top_put_p999, NULL },
	{ "EVICT/S", 8, 80, top_put_evictions, NULL },
	{ "RESIDENT", 9, 100, top_put_resident, NULL },
	{ "POOL", 8, 100, top_put_pool, NULL },
	{},
};

static const struct column process_columns[] = {
	{ "READ/S", 9, 24, NULL, top_put_process_read },
	{ "USED/S", 9, 34, NULL, top_put_process_used },
	{ "FAULT/S", 9, 44, NULL, top_put_process_faults },
	{ "WAIT/S", 9, 54, NULL, top_put_process_waits },
	{ "MAPPED", 9, 64, NULL, top_put_process_mapped },
	{ "HUGE", 9, 74, NULL, top_put_process_huge },
	{},
};

static void top_put_cell(char text[CLI_TEXT], const struct column *column,
			 const struct top_row *row)
{
	if (!row)
		snprintf(text, CLI_TEXT, "%s", column->title);
	else if (row->pid)
		column->put_process(text, &row->steered);
	else
		column->put(text, &row->sample);
}

/* Add a line of columns: a row, or the titles if @row is NULL. */
static void top_add_columns(struct lines *lines, const struct top_settings *settings,
			    const struct column *columns, const char *name,
			    const struct top_row *row)
{
	unsigned int width = settings->width;
	char line[LINE_BYTES], text[CLI_TEXT];
	const struct column *column;
	size_t used;

	for (column = columns; column->title; column++)
		if (settings->width >= column->from)
			width -= column->width;
	lines_fit(line, sizeof(line), row ? lines_fit_end(name, width) : name, width, true);
	used = strlen(line);
	for (column = columns; column->title; column++) {
		if (settings->width < column->from)
			continue;
		top_put_cell(text, column, row);
		used += (size_t)snprintf(line + used, sizeof(line) - used, "%*s",
					 (int)column->width, text);
	}
	lines_add(lines, row ? LINE_ROW : LINE_COLUMNS, "%s", line);
}

static void top_add_titles(struct lines *lines, const struct top_settings *settings, bool mounts)
{
	top_add_columns(lines, settings, mounts ? mount_columns : process_columns,
			mounts ? "MOUNT" : "PROCESS", NULL);
}

/* --- order --- */

static double top_sort_process(const struct top_steered *steered, enum top_sort sort)
{
	switch (sort) {
	case TOP_BY_READ:
		return top_rate(steered, TOP_READ_BYTES);
	case TOP_BY_FAULTS:
		return top_rate(steered, TOP_FAULTS);
	case TOP_BY_LATENCY:
		return top_rate(steered, TOP_WAITS);
	default:
		return 0;
	}
}

static double top_sort_mount(const struct mount_sample *sample, enum top_sort sort)
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

static double top_sort_value(const struct top_row *row, enum top_sort sort)
{
	return row->pid ? top_sort_process(&row->steered, sort) :
			  top_sort_mount(&row->sample, sort);
}

/* Mounts come first: the two tables have different columns. */
static int top_compare_value(const void *a, const void *b, void *arg)
{
	const struct top_row *left = a, *right = b;
	const enum top_sort *sort = arg;
	double l = top_sort_value(left, *sort), r = top_sort_value(right, *sort);

	if (!left->pid != !right->pid)
		return left->pid ? 1 : -1;
	if (l != r)
		return l < r ? 1 : -1;
	return strcmp(left->name, right->name);
}

/* --- lines --- */

/* The sums of all mounts; without a mount, those of all processes. */
static void top_add_sums(const struct top_model *model, bool mounts, struct lines *lines)
{
	double read = 0, written = 0, faults = 0, dirty = 0, used = 0, waits = 0;
	char a[CLI_TEXT], b[CLI_TEXT], c[CLI_TEXT], d[CLI_TEXT];
	size_t i;

	for (i = 0; i < model->count; i++) {
		const struct mount_sample *numbers = &model->rows[i].sample;
		const struct top_steered *steered = &model->rows[i].steered;

		if (!model->rows[i].pid != mounts)
			continue;
		read += mounts ? sample_rate(numbers, MOUNT_READ_BYTES) :
				 top_rate(steered, TOP_READ_BYTES);
		faults += mounts ? sample_rate(numbers, MOUNT_FAULTS) :
				   top_rate(steered, TOP_FAULTS);
		written += sample_rate(numbers, MOUNT_WRITTEN_BYTES);
		dirty += (double)numbers->now.count[MOUNT_DIRTY_BYTES];
		used += top_rate(steered, TOP_USED_BYTES);
		waits += top_rate(steered, TOP_WAITS);
	}
	cli_bytes(a, read);
	top_put_rate(b, faults);
	if (mounts) {
		lines_add(lines, LINE_SUM, "read %s/s, written %s/s, %s faults/s, dirty %s", a,
			  cli_bytes(c, written), b, cli_bytes(d, dirty));
		return;
	}
	top_put_rate(d, waits);
	lines_add(lines, LINE_SUM, "read %s/s, used %s/s, %s faults/s, of which %s/s wait", a,
		  cli_bytes(c, used), b, d);
}

static void top_add_head(const struct top_model *model, const struct top_settings *settings,
			 struct lines *lines)
{
	size_t i, mounts = 0, processes;

	for (i = 0; i < model->count; i++)
		mounts += !model->rows[i].pid;
	processes = model->count - mounts;
	lines_add(lines, LINE_TITLE, "hugemap top: %zu mount%s, %zu process%s; every %g s, by %s",
		  mounts, mounts == 1 ? "" : "s", processes, processes == 1 ? "" : "es",
		  settings->interval, top_keys[settings->sort].name);
	top_add_sums(model, mounts, lines);
	top_add_titles(lines, settings, mounts);
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

/* Add a reason, in as many lines as its words need. */
static void top_add_reason(struct lines *lines, const char *text)
{
	const int indent = 11, width = lines->width > 40 ? (int)lines->width - indent : 29;
	int length;

	for (; *text; text += length + (text[length] == ' ')) {
		length = (int)strlen(text);
		if (length > width)
			for (length = width; length && text[length] != ' '; length--)
				;
		length = length ? length : width;
		lines_add(lines, LINE_NOTE, "%*s%.*s", indent, "", length, text);
	}
}

/* Add the files of a process, with the access pattern and the last decision. */
static void top_add_files(const struct top_settings *settings, const struct top_row *row,
			  struct lines *lines)
{
	const struct top_steered *steered = &row->steered;
	/* The width that the numbers leave for the path. */
	unsigned int width = settings->width > 60 ? settings->width - 44 : 16, i;
	char a[CLI_TEXT], b[CLI_TEXT], c[CLI_TEXT];

	for (i = 0; i < steered->nmaps; i++) {
		const struct steer_map *map = &steered->map[i];

		lines_add(lines, LINE_USER, "  %-8s %7s, %7s used, %7s huge  %s",
			  steer_pattern_names[map->pattern], cli_bytes(a, (double)map->bytes),
			  cli_bytes(b, (double)map->touched), cli_bytes(c, (double)map->huge),
			  lines_fit_end(map->path, width));
		top_add_reason(lines, map->why);
	}
	if (steered->mappings > steered->nmaps)
		lines_add(lines, LINE_NOTE, "           and %llu more",
			  (unsigned long long)(steered->mappings - steered->nmaps));
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

		/* The head has the titles of the first table. */
		if (i && row->pid && !model->rows[i - 1].pid)
			top_add_titles(lines, settings, false);
		top_add_columns(lines, settings, row->pid ? process_columns : mount_columns,
				row->name, row);
		if (settings->mappings && row->pid)
			top_add_files(settings, row, lines);
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
