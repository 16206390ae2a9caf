// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* hugemap stat: the numbers of a mount of the kernel engine. */
#include "stat_mount.h"
#include "cli.h"
#include "mount_sample.h"
#include "users.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <jansson.h>

/* --- text --- */

static void stat_print_latency(const char *name, const struct mount_latency *latency)
{
	char text[5][CLI_TEXT];

	if (!latency->count) {
		printf("    %-8s %10s\n", name, "none yet");
		return;
	}
	printf("    %-8s %10" PRIu64 " %9s %9s %9s %9s %9s\n", name, latency->count,
	       cli_time(text[0], (double)latency->p50), cli_time(text[1], (double)latency->p90),
	       cli_time(text[2], (double)latency->p99), cli_time(text[3], (double)latency->p999),
	       cli_time(text[4], (double)latency->max));
}

static void stat_print_cache(const struct mount_sample *sample)
{
	const uint64_t *count = sample->now.count;
	char a[CLI_TEXT], b[CLI_TEXT], c[CLI_TEXT], d[CLI_TEXT];

	printf("  memory      pool %s, free %s, resident %s, dirty %s\n",
	       cli_bytes(a, (double)sample->now.pool_bytes),
	       cli_bytes(b, (double)count[MOUNT_FREE_BYTES]),
	       cli_bytes(c, (double)count[MOUNT_RESIDENT_BYTES]),
	       cli_bytes(d, (double)count[MOUNT_DIRTY_BYTES]));
	printf("  mapped      %s in %" PRIu64 " mapping%s; %" PRIu64 " huge pages, %" PRIu64
	       " base pages\n",
	       cli_bytes(a, (double)sample->now.mapped_bytes), sample->now.mappings,
	       sample->now.mappings == 1 ? "" : "s", sample->now.huge_pages,
	       sample->now.base_pages);
	printf("  faults      %" PRIu64 " (%.0f/s), %.1f %% hits; %" PRIu64 " read, %" PRIu64
	       " zeroed, %" PRIu64 " first stores\n",
	       count[MOUNT_FAULTS], sample_rate(sample, MOUNT_FAULTS),
	       sample_percent(count[MOUNT_HITS], count[MOUNT_FAULTS]), count[MOUNT_FILLS],
	       count[MOUNT_ZERO_FILLS], count[MOUNT_DIRTIED]);
	printf("  prefetch    %" PRIu64 " ahead, %.1f %% used, %" PRIu64 " evicted unused\n",
	       count[MOUNT_AHEAD], sample_percent(count[MOUNT_AHEAD_USED], count[MOUNT_AHEAD]),
	       count[MOUNT_AHEAD_WASTED]);
	printf("  eviction    %" PRIu64 " (%.0f/s), %" PRIu64 " came back in time\n",
	       count[MOUNT_EVICTIONS], sample_rate(sample, MOUNT_EVICTIONS),
	       count[MOUNT_REACTIVATED]);
	printf("  I/O         read %s (%s/s), written %s (%s/s), %" PRIu64 " in flight\n",
	       cli_bytes(a, (double)count[MOUNT_READ_BYTES]),
	       cli_bytes(b, sample_rate(sample, MOUNT_READ_BYTES)),
	       cli_bytes(c, (double)count[MOUNT_WRITTEN_BYTES]),
	       cli_bytes(d, sample_rate(sample, MOUNT_WRITTEN_BYTES)), count[MOUNT_IO_IN_FLIGHT]);
	printf("  errors      %" PRIu64 " reading, %" PRIu64 " writing\n", count[MOUNT_READ_ERRORS],
	       count[MOUNT_WRITE_ERRORS]);
	printf("  latency          count       p50       p90       p99     p99.9       max\n");
	stat_print_latency("fault", &sample->now.latency[MOUNT_FAULT_NS]);
	stat_print_latency("read", &sample->now.latency[MOUNT_READ_NS]);
	stat_print_latency("write", &sample->now.latency[MOUNT_WRITE_NS]);
}

static void stat_print_work(const struct mount_sample *sample)
{
	const uint64_t *count = sample->now.count;
	char a[CLI_TEXT], b[CLI_TEXT];

	printf("  huge        %s of what is resident, %.0f %%; %" PRIu64
	       " blocks promoted, %" PRIu64 " not promoted\n",
	       cli_bytes(a, (double)count[MOUNT_HUGE_BYTES]),
	       sample_percent(count[MOUNT_HUGE_BYTES], count[MOUNT_RESIDENT_BYTES]),
	       count[MOUNT_PROMOTED], count[MOUNT_NOT_PROMOTED]);
	printf("  calls       read(2) copied %s, write(2) %s; %" PRIu64 " syncs\n",
	       cli_bytes(a, (double)count[MOUNT_COPIED_OUT_BYTES]),
	       cli_bytes(b, (double)count[MOUNT_COPIED_IN_BYTES]), count[MOUNT_SYNCS]);
	printf("  pages       %" PRIu64 " times 2 MB mapped at once, %" PRIu64
	       " times 4 KB; %" PRIu64 " made writable in place\n",
	       count[MOUNT_HUGE_MAPPED], count[MOUNT_BASE_MAPPED], count[MOUNT_UPGRADES]);
	printf("  work        %" PRIu64 " reads, %" PRIu64 " writes; %" PRIu64 " cleaned, %" PRIu64
	       " unmaps, %" PRIu64 " pinned, %" PRIu64 " evicted too early\n",
	       count[MOUNT_READ_IOS], count[MOUNT_WRITE_IOS], count[MOUNT_CLEANED],
	       count[MOUNT_UNMAPS], count[MOUNT_PINNED], count[MOUNT_GHOSTS]);
}

static void stat_print_mount(const struct mount *mount, const struct mount_sample *sample)
{
	size_t i;

	if (mount->dir[0])
		printf("%s (%s)\n", mount->dir, mount->source);
	else
		printf("mount %u:%u (in another mount name space)\n", major(mount->dev),
		       minor(mount->dev));
	stat_print_cache(sample);
	stat_print_work(sample);
	printf("  settings   ");
	for (i = 0; i < MOUNT_SETTINGS; i++)
		printf(" %s=%s%s", mount_setting_names[i], mount->setting[i],
		       i + 1 < MOUNT_SETTINGS ? "," : "\n");
	fflush(stdout);
}

/* --- JSON --- */

static json_t *stat_setting_json(const char *text)
{
	char *end;
	long long value = strtoll(text, &end, 10);

	if (!strcmp(text, "on") || !strcmp(text, "off"))
		return json_boolean(text[1] == 'n');
	return *text && !*end ? json_integer(value) : json_string(text);
}

static json_t *stat_mount_json(const struct mount *mount, const struct mount_sample *sample)
{
	json_t *settings = json_object(), *object;
	char id[32];
	size_t i;

	for (i = 0; i < MOUNT_SETTINGS; i++)
		json_object_set_new(settings, mount_setting_names[i],
				    stat_setting_json(mount->setting[i]));
	snprintf(id, sizeof(id), "%u:%u", major(mount->dev), minor(mount->dev));
	object = json_pack("{s:s, s:o, s:o, s:I, s:f, s:o}", "id", id, "mount",
			   mount->dir[0] ? cli_json_text(mount->dir) : json_null(), "source",
			   mount->dir[0] ? cli_json_text(mount->source) : json_null(), "time",
			   (json_int_t)time(NULL), "seconds", sample->seconds, "settings",
			   settings);
	sample_add_json(object, sample);
	return object;
}

/* --- one mount --- */

/* Processes that this user may not inspect are left out. */
static void stat_count_mappings(const struct mount *mount, struct mount_numbers *numbers)
{
	struct users users;

	users_find(&mount->dev, 1, &users);
	users_add_up(&users, mount->dev, numbers);
	users_free(&users);
}

int stat_mount_watch(const char *path, double interval, unsigned long long count, bool json)
{
	struct mount *mount = malloc(sizeof(*mount));
	struct mount_sample sample;
	unsigned long long i;
	int err = mount ? mount_open(path, mount) : -ENOMEM;

	if (!err)
		err = mount_read(mount, &sample.before);
	for (i = 0; !err && i < count; i++) {
		double start = cli_now();

		cli_sleep(interval > 0 ? interval : SAMPLE_SHORT_SECONDS);
		/* A remount changes settings. */
		err = mount_open(path, mount);
		if (!err)
			err = mount_read(mount, &sample.now);
		if (err)
			break;
		stat_count_mappings(mount, &sample.now);
		sample.seconds = cli_now() - start;
		if (json) {
			cli_print_json(stat_mount_json(mount, &sample), interval > 0);
		} else {
			if (i)
				putchar('\n');
			stat_print_mount(mount, &sample);
		}
		sample.before = sample.now;
	}
	free(mount);
	/* If numbers were printed before the unmount, the command succeeded. */
	if ((err == -ENODEV || err == -ENOENT) && i)
		err = 0;
	return err;
}

/* --- all mounts --- */

static void stat_list_mount(const struct mount *mount, void *arg)
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
	       cli_bytes(text[0], (double)numbers.pool_bytes),
	       cli_bytes(text[1], (double)numbers.count[MOUNT_RESIDENT_BYTES]),
	       cli_bytes(text[2], (double)numbers.count[MOUNT_DIRTY_BYTES]));
}

unsigned int stat_mount_list(void)
{
	bool titled = false;

	return mount_each(stat_list_mount, &titled);
}

static void stat_append_mount(const struct mount *mount, void *arg)
{
	struct mount_sample sample = {};

	if (mount_read(mount, &sample.now))
		return;
	stat_count_mappings(mount, &sample.now);
	json_array_append_new(arg, stat_mount_json(mount, &sample));
}

json_t *stat_mount_list_json(void)
{
	json_t *list = json_array();

	mount_each(stat_append_mount, list);
	return list;
}
