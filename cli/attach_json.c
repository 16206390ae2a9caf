// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* hugemap attach: the summary as JSON. */
#include "attach_print.h"
#include "attach_state.h"
#include "cli.h"

#include <jansson.h>

static json_t *attach_json_hints(unsigned int bits)
{
	json_t *list = json_array();
	char text[64];
	unsigned int bit;

	for (bit = 1; bit <= HINT_SMALL; bit <<= 1)
		if (bits & bit)
			json_array_append_new(list, json_string(hints_text(bit, text)));
	return list;
}

static json_t *attach_json_picture(const struct picture *picture)
{
	json_t *rows = json_array(), *cells;
	unsigned int row, column;

	for (row = 0; row < picture->rows; row++) {
		cells = json_array();
		for (column = 0; column < PICTURE_COLUMNS; column++)
			json_array_append_new(
				cells, json_integer((json_int_t)picture->touched[row][column]));
		json_array_append_new(rows, cells);
	}
	return rows;
}

static json_t *attach_json_sampled(const struct picture *picture)
{
	json_t *rows = json_array();
	unsigned int row;

	for (row = 0; row < picture->rows; row++)
		json_array_append_new(rows, json_boolean(picture->sampled[row]));
	return rows;
}

static json_int_t attach_json_bytes(uint64_t count)
{
	return (json_int_t)(count * PAGE_BYTES);
}

static json_t *attach_json_hint_cost(const struct attach *attach, const struct watched *map)
{
	char cost[128], text[192];
	const char *name = watched_hint_cost(attach, map, cost, sizeof(cost));

	if (!name)
		return json_null();
	snprintf(text, sizeof(text), "%s: %s", name, cost);
	return json_string(text);
}

static json_t *attach_json_map(const struct attach *attach, const struct watched *map)
{
	uint64_t column[PICTURE_COLUMNS];

	return json_pack(
		"{s:o, s:I, s:I, s:b, s:b, s:s, s:o, s:o, s:I, s:I, s:I, s:I, s:f, s:o, s:o}",
		"path", cli_json_text(map->area.path), "offset", (json_int_t)map->area.offset,
		"bytes", (json_int_t)watched_bytes(map), "writable", map->area.writable, "ended",
		map->ended, "pattern", watched_pattern_name(watched_pattern(map)), "hints",
		attach_json_hints(map->area.hints), "hint_cost", attach_json_hint_cost(attach, map),
		"touched_bytes", attach_json_bytes(map->touched), "resident_bytes",
		attach_json_bytes(watched_resident(map, column)), "huge_bytes",
		(json_int_t)map->huge, "ahead_bytes", (json_int_t)map->ahead_bytes, "row_seconds",
		map->picture.row_seconds, "touched_pages", attach_json_picture(&map->picture),
		"sampled", attach_json_sampled(&map->picture));
}

int attach_write_json(const struct attach *attach)
{
	const struct usage *begin = &attach->begin, *now = &attach->now;
	const struct usage *from = attach->first.at < 0 ? begin : &attach->first;
	json_t *list = json_array(), *root;
	size_t i;
	int err;

	for (i = 0; i < attach->count; i++)
		json_array_append_new(list, attach_json_map(attach, attach->maps[i]));
	root = json_pack("{s:i, s:o, s:f, s:b, s:I, s:I, s:I, s:I, s:I, s:i, s:b, s:o}", "pid",
			 (int)attach->pid, "name", cli_json_text(attach->name), "seconds", now->at,
			 "helped", attach->advising, "minor_faults",
			 (json_int_t)(now->minor - begin->minor), "major_faults",
			 (json_int_t)(now->major - begin->major), "read_bytes",
			 (json_int_t)(now->read_bytes - begin->read_bytes), "touched_bytes",
			 attach_json_bytes(now->touched), "watch_ns", (json_int_t)attach->watch_ns,
			 "missed", (int)attach->missed, "waits",
			 usage_waits(from, now) || usage_reads(from, now), "mappings", list);
	err = cli_write_json(stdout, root);
	json_decref(root);
	return err;
}
