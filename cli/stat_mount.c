// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* hugemap stat: the numbers of a mount of the kernel engine. */
#include "stat.h"
#include "cli.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <jansson.h>

void stat_view_of_mount(const struct mount_numbers *now, const struct mount_numbers *before,
			uint64_t mappings, double seconds, struct stat_view *view)
{
	*view = (struct stat_view){
		.engine = "kernel",
		.io = "",
		.now = now->stat,
		.before = before->stat,
		.seconds = seconds,
		.mappings = mappings,
		.io_depth = now->io_in_flight,
		.count = now->count,
	};
}

/* --- one mount --- */

static void print_mount(const struct mount *mount, const struct stat_view *view)
{
	const uint64_t *count = view->count;
	char a[CLI_TEXT], b[CLI_TEXT];
	size_t i;

	if (mount->dir[0])
		printf("%s (%s)\n", mount->dir, mount->source);
	else
		printf("mount %u:%u (in another mount name space)\n", major(mount->dev),
		       minor(mount->dev));
	stat_view_print(view);
	printf("  huge        %s of what is resident, %.0f %%; %" PRIu64
	       " blocks promoted, %" PRIu64 " refused\n",
	       cli_bytes(a, (double)count[MOUNT_HUGE]),
	       stat_percent(count[MOUNT_HUGE], view->now.resident_bytes), count[MOUNT_PROMOTED],
	       count[MOUNT_REFUSED]);
	printf("  calls       read(2) copied %s, write(2) %s; %" PRIu64 " syncs\n",
	       cli_bytes(a, (double)count[MOUNT_COPIED_OUT]),
	       cli_bytes(b, (double)count[MOUNT_COPIED_IN]), count[MOUNT_SYNCS]);
	printf("  pages       %" PRIu64 " times 2 MB mapped at once, %" PRIu64
	       " times 4 KB; %" PRIu64 " made writable in place\n",
	       count[MOUNT_HUGE_MAPPED], count[MOUNT_BASE_MAPPED], count[MOUNT_UPGRADES]);
	printf("  work        %" PRIu64 " reads, %" PRIu64 " writes; %" PRIu64 " cleaned, %" PRIu64
	       " unmaps, %" PRIu64 " pinned, %" PRIu64 " evicted too early\n",
	       count[MOUNT_READ_IOS], count[MOUNT_WRITE_IOS], count[MOUNT_CLEANED],
	       count[MOUNT_UNMAPS], count[MOUNT_PINNED], count[MOUNT_GHOSTS]);
	printf("  settings   ");
	for (i = 0; i < MOUNT_SETTINGS; i++)
		printf(" %s=%s%s", mount_setting_names[i], mount->setting[i],
		       i + 1 < MOUNT_SETTINGS ? "," : "\n");
	fflush(stdout);
}

static json_t *setting_json(const char *text)
{
	char *end;
	long long value = strtoll(text, &end, 10);

	if (!strcmp(text, "on") || !strcmp(text, "off"))
		return json_boolean(text[1] == 'n');
	return *text && !*end ? json_integer(value) : json_string(text);
}

static json_t *mount_json(const struct mount *mount, const struct stat_view *view)
{
	json_t *settings = json_object();
	char id[32];
	size_t i;

	for (i = 0; i < MOUNT_SETTINGS; i++)
		json_object_set_new(settings, mount_setting_names[i],
				    setting_json(mount->setting[i]));
	snprintf(id, sizeof(id), "%u:%u", major(mount->dev), minor(mount->dev));
	return json_pack("{s:s, s:o, s:o, s:I, s:f, s:o, s:[o]}", "id", id, "mount",
			 mount->dir[0] ? cli_json_text(mount->dir) : json_null(), "source",
			 mount->dir[0] ? cli_json_text(mount->source) : json_null(), "time",
			 (json_int_t)time(NULL), "seconds", view->seconds, "settings", settings,
			 "pools", stat_view_json(view));
}

/* What is mapped of it now, as far as one may look. */
static uint64_t count_mappings(const struct mount *mount, struct mount_numbers *numbers)
{
	struct users users;
	uint64_t mappings;

	users_find(&mount->dev, 1, &users);
	mappings = users_add_up(&users, mount->dev, &numbers->stat);
	users_free(&users);
	return mappings;
}

int stat_mount_watch(const char *path, double interval, unsigned long long count, bool json)
{
	struct mount *mount = malloc(sizeof(*mount));
	struct mount_numbers now, before;
	unsigned long long i;
	int err = mount ? mount_open(path, mount) : -ENOMEM;

	if (!err)
		err = mount_read(mount, &before);
	for (i = 0; !err && i < count; i++) {
		double start = cli_now();
		struct stat_view view;
		uint64_t mappings;

		stat_wait(interval > 0 ? interval : STAT_SHORT_WAIT);
		/* Settings may have changed as well. */
		err = mount_open(path, mount);
		if (!err)
			err = mount_read(mount, &now);
		if (err)
			break;
		mappings = count_mappings(mount, &now);
		stat_view_of_mount(&now, &before, mappings, cli_now() - start, &view);
		if (json) {
			stat_put_json(mount_json(mount, &view), interval > 0);
		} else {
			if (i)
				putchar('\n');
			print_mount(mount, &view);
		}
		before = now;
	}
	free(mount);
	/* That it was unmounted is no failure once there were numbers. */
	if ((err == -ENODEV || err == -ENOENT) && i)
		err = 0;
	return err;
}

/* --- all mounts --- */

static void list_one(const struct mount *mount, void *arg)
{
	struct mount_numbers numbers;
	char text[3][CLI_TEXT], id[32];
	bool *titled = arg;

	if (mount_read(mount, &numbers))
		return;
	if (!*titled)
		printf("%-28s %10s %10s %10s\n", "MOUNT", "POOL", "RESIDENT", "DIRTY");
	*titled = true;
	snprintf(id, sizeof(id), "%u:%u", major(mount->dev), minor(mount->dev));
	printf("%-28s %10s %10s %10s\n", mount->dir[0] ? mount->dir : id,
	       cli_bytes(text[0], (double)numbers.stat.pool_bytes),
	       cli_bytes(text[1], (double)numbers.stat.resident_bytes),
	       cli_bytes(text[2], (double)numbers.stat.dirty_bytes));
}

unsigned int stat_mount_list(void)
{
	bool titled = false;

	return mount_each(list_one, &titled);
}

static void append_one(const struct mount *mount, void *arg)
{
	struct mount_numbers numbers;
	struct stat_view view;
	uint64_t mappings;

	if (mount_read(mount, &numbers))
		return;
	mappings = count_mappings(mount, &numbers);
	stat_view_of_mount(&numbers, &numbers, mappings, 0, &view);
	json_array_append_new(arg, mount_json(mount, &view));
}

json_t *stat_mount_list_json(void)
{
	json_t *list = json_array();

	mount_each(append_one, list);
	return list;
}
