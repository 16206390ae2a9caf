// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* hugemap top: collecting the numbers. */
#include "top.h"
#include "cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <jansson.h>

static struct top_pool *add_pool(struct top_model *model)
{
	struct top_pool *pool;

	pool = cli_grow(model->pools, model->count, &model->room, sizeof(*pool));
	if (!pool)
		return NULL;
	model->pools = pool;
	pool = &model->pools[model->count++];
	*pool = (struct top_pool){ .taken = cli_now() };
	return pool;
}

/* Its page cache is Linux's: what is known is what it maps, reads and waits for. */
static void add_steered(struct top_model *model, const struct target *target)
{
	const struct steer_page *page = &target->steer;
	struct top_pool *pool = add_pool(model);
	unsigned int i;

	if (!pool)
		return;
	snprintf(pool->key, sizeof(pool->key), "%d steered", target->pid);
	snprintf(pool->name, sizeof(pool->name), "%d %s", target->pid, target->name);
	pool->pid = target->pid;
	snprintf(pool->engine, sizeof(pool->engine), "steered");
	pool->view.now.faults = page->minflt + page->majflt;
	pool->view.now.hits = page->minflt;
	pool->view.now.read_bytes = page->read_bytes;
	for (i = 0; i < STEER_PAGE_MAPS; i++) {
		const struct steer_map *map = &page->maps[i];

		if (!map->id || map->ended)
			continue;
		pool->view.mappings++;
		pool->view.now.mapped_bytes += map->bytes;
		pool->view.now.huge_pages += map->huge >> 21;
	}
}

static void add_process(const struct target *target, void *arg)
{
	unsigned int i;

	if (target->steer_fd >= 0)
		add_steered(arg, target);

	for (i = 0; i < target->npools; i++) {
		struct top_pool *pool = add_pool(arg);
		struct stat st;

		if (!pool || fstat(target->pools[i].fd, &st) < 0)
			continue;
		stat_view_of_pool(&target->pools[i], 0, &pool->view);
		snprintf(pool->key, sizeof(pool->key), "%d %llu", target->pid,
			 (unsigned long long)st.st_ino);
		snprintf(pool->name, sizeof(pool->name), "%d %s", target->pid, target->name);
		pool->pid = target->pid;
		snprintf(pool->engine, sizeof(pool->engine), "%s", pool->view.engine);
		snprintf(pool->io, sizeof(pool->io), "%s", pool->view.io);
	}
}

static void add_mount(const struct mount *mount, void *arg)
{
	struct mount_numbers numbers;
	struct top_pool *pool;

	if (mount_read(mount, &numbers))
		return;
	pool = add_pool(arg);
	if (!pool)
		return;
	stat_view_of_mount(&numbers, &numbers, 0, 0, &pool->view);
	snprintf(pool->key, sizeof(pool->key), "%u:%u", major(mount->dev), minor(mount->dev));
	snprintf(pool->name, sizeof(pool->name), "%.255s", mount->dir[0] ? mount->dir : pool->key);
	pool->dev = mount->dev;
	snprintf(pool->engine, sizeof(pool->engine), "%s", pool->view.engine);
	memcpy(pool->page, mount->setting[0], sizeof(pool->page));
	memcpy(pool->count, numbers.count, sizeof(pool->count));
}

static void find_users(struct top_model *model)
{
	dev_t *devs = calloc(model->count + 1, sizeof(*devs));
	size_t i, ndevs = 0;

	for (i = 0; devs && i < model->count; i++)
		if (!model->pools[i].pid)
			devs[ndevs++] = model->pools[i].dev;
	if (devs)
		users_find(devs, ndevs, &model->users);
	free(devs);
	for (i = 0; i < model->count; i++) {
		struct top_pool *pool = &model->pools[i];

		if (!pool->pid)
			pool->view.mappings =
				users_add_up(&model->users, pool->dev, &pool->view.now);
	}
}

static void compare(struct top_pool *pool, const struct top_model *before)
{
	size_t i;

	pool->view.before = pool->view.now;
	for (i = 0; before && i < before->count; i++) {
		const struct top_pool *old = &before->pools[i];

		if (strcmp(old->key, pool->key))
			continue;
		pool->view.before = old->view.now;
		pool->view.seconds = pool->taken - old->taken;
	}
}

void top_model_read(struct top_model *model, const struct top_model *before)
{
	size_t i;

	*model = (struct top_model){};
	mount_each(add_mount, model);
	model->closed = (unsigned int)stat_each(add_process, model);
	find_users(model);
	for (i = 0; i < model->count; i++) {
		struct top_pool *pool = &model->pools[i];

		/* They stay where they are from now on. */
		pool->view.engine = pool->engine;
		pool->view.io = pool->io;
		pool->view.count = pool->pid ? NULL : pool->count;
		compare(pool, before);
	}
}

void top_model_free(struct top_model *model)
{
	free(model->pools);
	users_free(&model->users);
	while (model->nstrips)
		free(model->strips[--model->nstrips].path);
	free(model->strips);
	*model = (struct top_model){};
}

static json_t *user_json(const struct user *user)
{
	return json_pack("{s:i, s:o, s:o, s:I, s:I, s:I, s:I}", "pid", (int)user->pid, "name",
			 cli_json_text(user->name), "file", cli_json_text(user->path), "mappings",
			 (json_int_t)user->mappings, "mapped_bytes", (json_int_t)user->mapped_bytes,
			 "resident_bytes", (json_int_t)user->resident_bytes, "huge_bytes",
			 (json_int_t)user->huge_bytes);
}

static json_t *pool_json(const struct top_model *model, const struct top_pool *pool)
{
	json_t *object = stat_view_json(&pool->view), *list = json_array();
	size_t i;

	json_object_set_new(object, "name", cli_json_text(pool->name));
	json_object_set_new(object, "mount", pool->pid ? json_null() : cli_json_text(pool->name));
	json_object_set_new(object, "pid", pool->pid ? json_integer(pool->pid) : json_null());
	json_object_set_new(object, "page", pool->pid ? json_null() : json_string(pool->page));
	for (i = 0; !pool->pid && i < model->users.count; i++)
		if (model->users.list[i].dev == pool->dev)
			json_array_append_new(list, user_json(&model->users.list[i]));
	json_object_set_new(object, "users", list);
	return object;
}

json_t *top_model_json(const struct top_model *model, double seconds)
{
	json_t *pools = json_array();
	size_t i;

	for (i = 0; i < model->count; i++)
		json_array_append_new(pools, pool_json(model, &model->pools[i]));
	return json_pack("{s:I, s:f, s:o, s:i}", "time", (json_int_t)time(NULL), "seconds", seconds,
			 "pools", pools, "not_permitted", (int)model->closed);
}
