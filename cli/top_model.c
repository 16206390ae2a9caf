// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* hugemap top: collect the numbers. */
#include "top_model.h"
#include "cli.h"
#include "process.h"
#include "tell.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <jansson.h>

static struct top_row *top_add_row(struct top_model *model)
{
	struct top_row *row;

	row = cli_grow(model->rows, model->count, &model->room, sizeof(*row));
	if (!row)
		return NULL;
	model->rows = row;
	row = &model->rows[model->count++];
	*row = (struct top_row){ .taken = cli_now() };
	return row;
}

double top_rate(const struct top_steered *steered, enum top_count count)
{
	uint64_t now = steered->now[count], before = steered->before[count];

	return steered->seconds > 0 && now > before ? (double)(now - before) / steered->seconds : 0;
}

/* Insert a mapping if it is among those of which most was touched. */
static void top_add_map(struct top_steered *steered, const struct steer_map *map)
{
	unsigned int at = steered->nmaps;

	if (at < TOP_MAPS)
		steered->nmaps++;
	else if (steered->map[--at].touched >= map->touched)
		return;
	for (; at && steered->map[at - 1].touched < map->touched; at--)
		steered->map[at] = steered->map[at - 1];
	steered->map[at] = *map;
}

static void top_add_process(const struct process *process, void *arg)
{
	const struct steer_page *page = &process->page;
	struct top_row *row = top_add_row(arg);
	struct top_steered *steered;
	unsigned int i;

	if (!row)
		return;
	steered = &row->steered;
	snprintf(row->key, sizeof(row->key), "%d", process->pid);
	snprintf(row->name, sizeof(row->name), "%d %s", process->pid, process->name);
	row->pid = process->pid;
	steered->now[TOP_FAULTS] = page->minflt + page->majflt;
	steered->now[TOP_WAITS] = page->majflt;
	steered->now[TOP_READ_BYTES] = page->read_bytes;
	steered->now[TOP_USED_BYTES] = tell_mapped(page);
	for (i = 0; i < STEER_PAGE_MAPS; i++) {
		const struct steer_map *map = &page->maps[i];

		if (!map->id || map->ended)
			continue;
		steered->mappings++;
		steered->mapped_bytes += map->bytes;
		steered->huge_bytes += map->huge;
		top_add_map(steered, map);
	}
}

static void top_add_mount(const struct mount *mount, void *arg)
{
	struct mount_numbers numbers;
	struct top_row *row;

	if (mount_read(mount, &numbers))
		return;
	row = top_add_row(arg);
	if (!row)
		return;
	row->sample.now = numbers;
	snprintf(row->key, sizeof(row->key), "%u:%u", major(mount->dev), minor(mount->dev));
	snprintf(row->name, sizeof(row->name), "%.255s", mount->dir[0] ? mount->dir : row->key);
	row->dev = mount->dev;
	memcpy(row->page, mount->setting[0], sizeof(row->page));
}

static void top_find_users(struct top_model *model)
{
	dev_t *devs = calloc(model->count + 1, sizeof(*devs));
	size_t i, ndevs = 0;

	for (i = 0; devs && i < model->count; i++)
		if (!model->rows[i].pid)
			devs[ndevs++] = model->rows[i].dev;
	if (devs)
		users_find(devs, ndevs, &model->users);
	free(devs);
	for (i = 0; i < model->count; i++) {
		struct top_row *row = &model->rows[i];

		if (!row->pid)
			users_add_up(&model->users, row->dev, &row->sample.now);
	}
}

static void top_set_before(struct top_row *row, const struct top_model *before)
{
	size_t i;

	row->sample.before = row->sample.now;
	memcpy(row->steered.before, row->steered.now, sizeof(row->steered.before));
	for (i = 0; before && i < before->count; i++) {
		const struct top_row *old = &before->rows[i];

		if (strcmp(old->key, row->key))
			continue;
		row->sample.before = old->sample.now;
		memcpy(row->steered.before, old->steered.now, sizeof(row->steered.before));
		row->sample.seconds = row->steered.seconds = row->taken - old->taken;
	}
}

void top_model_read(struct top_model *model, const struct top_model *before)
{
	size_t i;

	*model = (struct top_model){};
	mount_each(top_add_mount, model);
	model->denied = (unsigned int)process_each(top_add_process, model);
	top_find_users(model);
	/* users.denied counts all processes of other users, including steered ones. */
	if (model->users.denied > model->denied)
		model->denied = model->users.denied;
	for (i = 0; i < model->count; i++)
		top_set_before(&model->rows[i], before);
}

void top_model_free(struct top_model *model)
{
	free(model->rows);
	users_free(&model->users);
	top_strips_free(&model->strips);
	*model = (struct top_model){};
}

static json_t *top_user_json(const struct user *user)
{
	return json_pack("{s:i, s:o, s:o, s:I, s:I, s:I, s:I}", "pid", (int)user->pid, "name",
			 cli_json_text(user->name), "file", cli_json_text(user->path), "mappings",
			 (json_int_t)user->mappings, "mapped_bytes", (json_int_t)user->mapped_bytes,
			 "resident_bytes", (json_int_t)user->resident_bytes, "huge_bytes",
			 (json_int_t)user->huge_bytes);
}

static json_t *top_mount_json(const struct top_model *model, const struct top_row *row)
{
	json_t *object, *list = json_array();
	size_t i;

	for (i = 0; i < model->users.count; i++)
		if (model->users.list[i].dev == row->dev)
			json_array_append_new(list, top_user_json(&model->users.list[i]));
	object = json_pack("{s:s, s:o, s:s, s:o}", "id", row->key, "mount",
			   row->name[0] == '/' ? cli_json_text(row->name) : json_null(), "page",
			   row->page, "users", list);
	sample_add_json(object, &row->sample);
	return object;
}

static json_t *top_map_json(const struct steer_map *map)
{
	return json_pack("{s:o, s:s, s:I, s:I, s:I, s:o}", "file", cli_json_text(map->path),
			 "pattern", steer_pattern_names[map->pattern], "bytes",
			 (json_int_t)map->bytes, "touched_bytes", (json_int_t)map->touched,
			 "huge_bytes", (json_int_t)map->huge, "reason", cli_json_text(map->why));
}

static json_t *top_process_json(const struct top_row *row)
{
	const struct top_steered *steered = &row->steered;
	json_t *files = json_array();
	unsigned int i;

	for (i = 0; i < steered->nmaps; i++)
		json_array_append_new(files, top_map_json(&steered->map[i]));
	return json_pack("{s:i, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:o}",
			 "pid", (int)row->pid, "name", cli_json_text(strchr(row->name, ' ') + 1),
			 "mappings", (json_int_t)steered->mappings, "mapped_bytes",
			 (json_int_t)steered->mapped_bytes, "huge_bytes",
			 (json_int_t)steered->huge_bytes, "faults",
			 (json_int_t)steered->now[TOP_FAULTS], "major_faults",
			 (json_int_t)steered->now[TOP_WAITS], "read_bytes",
			 (json_int_t)steered->now[TOP_READ_BYTES], "used_bytes",
			 (json_int_t)steered->now[TOP_USED_BYTES], "faults_per_s",
			 top_rate(steered, TOP_FAULTS), "major_faults_per_s",
			 top_rate(steered, TOP_WAITS), "read_bytes_per_s",
			 top_rate(steered, TOP_READ_BYTES), "used_bytes_per_s",
			 top_rate(steered, TOP_USED_BYTES), "files", files);
}

json_t *top_model_json(const struct top_model *model, double seconds)
{
	json_t *mounts = json_array(), *processes = json_array();
	size_t i;

	for (i = 0; i < model->count; i++)
		if (model->rows[i].pid)
			json_array_append_new(processes, top_process_json(&model->rows[i]));
		else
			json_array_append_new(mounts, top_mount_json(model, &model->rows[i]));
	return json_pack("{s:I, s:f, s:o, s:o, s:i}", "time", (json_int_t)time(NULL), "seconds",
			 seconds, "mounts", mounts, "processes", processes, "not_permitted",
			 (int)model->denied);
}
