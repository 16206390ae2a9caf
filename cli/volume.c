// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Find the file system of a directory, and the device below it. */
#include "system.h"

#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* True if a path is a mount point or below it. */
static bool volume_is_below(const char *path, const char *mount)
{
	size_t n = strlen(mount);

	return !strcmp(mount, "/") ||
	       (!strncmp(path, mount, n) && (path[n] == '/' || path[n] == '\0'));
}

/* mountinfo lists mounts in the order of mounting, so of two at one mount point the last counts. */
static void volume_find_mount(struct volume *volume)
{
	FILE *file = fopen("/proc/self/mountinfo", "re");
	char line[4096];
	size_t best = 0;

	if (!file)
		return;
	while (fgets(line, sizeof(line), file)) {
		char mount[1024], options[256], type[32], source[256];
		const char *rest = strstr(line, " - ");

		if (!rest || sscanf(line, "%*s %*s %*s %*s %1023s %255s", mount, options) != 2 ||
		    sscanf(rest, " - %31s %255s", type, source) != 2 ||
		    !volume_is_below(volume->dir, mount) || strlen(mount) < best)
			continue;
		best = strlen(mount);
		snprintf(volume->type, sizeof(volume->type), "%s", type);
		snprintf(volume->options, sizeof(volume->options), "%s", options);
		snprintf(volume->source, sizeof(volume->source), "%s", source);
	}
	fclose(file);
}

/* btrfs and others have an anonymous device number: then use that of the source. */
static dev_t volume_device_number(const struct volume *volume)
{
	struct stat st;

	if (major(volume->dev))
		return volume->dev;
	if (!stat(volume->source, &st) && S_ISBLK(st.st_mode))
		return st.st_rdev;
	return 0;
}

/* btrfs has a setting of its own, which the device's setting does not change. */
static bool volume_find_btrfs_setting(struct volume *volume, const char *partition)
{
	char pattern[128];
	glob_t found;
	bool ok;

	snprintf(pattern, sizeof(pattern), "/sys/fs/btrfs/*/devices/%.63s", partition);
	ok = !glob(pattern, 0, NULL, &found);
	if (ok)
		snprintf(volume->read_ahead_path, sizeof(volume->read_ahead_path),
			 "%.*s/bdi/read_ahead_kb",
			 (int)(strstr(found.gl_pathv[0], "/devices/") - found.gl_pathv[0]),
			 found.gl_pathv[0]);
	globfree(&found);
	return ok;
}

static void volume_find_setting(struct volume *volume, const char *partition)
{
	/* Network and FUSE file systems have a setting under their own device number. */
	snprintf(volume->read_ahead_path, sizeof(volume->read_ahead_path),
		 "/sys/class/bdi/%u:%u/read_ahead_kb", major(volume->dev), minor(volume->dev));
	if (access(volume->read_ahead_path, F_OK) && volume->device[0] &&
	    !volume_find_btrfs_setting(volume, partition))
		snprintf(volume->read_ahead_path, sizeof(volume->read_ahead_path),
			 "/sys/block/%.63s/bdi/read_ahead_kb", volume->device);
	if (access(volume->read_ahead_path, F_OK))
		volume->read_ahead_path[0] = '\0';
}

static void volume_trim(char *text)
{
	size_t n = strlen(text);

	while (n && text[n - 1] == ' ')
		text[--n] = '\0';
}

static void volume_find_device(struct volume *volume)
{
	dev_t dev = volume_device_number(volume);
	char link[64], path[PATH_MAX], file[PATH_MAX + 32], partition[64] = "", *name;

	if (!dev)
		return volume_find_setting(volume, partition);
	snprintf(link, sizeof(link), "/sys/dev/block/%u:%u", major(dev), minor(dev));
	if (!realpath(link, path))
		return;
	snprintf(partition, sizeof(partition), "%.63s", strrchr(path, '/') + 1);
	snprintf(file, sizeof(file), "%s/partition", path);
	if (!access(file, F_OK))
		*strrchr(path, '/') = '\0'; /* the disk is the parent */
	name = strrchr(path, '/') + 1;
	snprintf(volume->device, sizeof(volume->device), "%.63s", name);
	snprintf(file, sizeof(file), "%s/device/model", path);
	if (read_line(file, volume->model, sizeof(volume->model)))
		volume_trim(volume->model);
	snprintf(file, sizeof(file), "%s/queue/scheduler", path);
	read_choice(file, volume->scheduler, sizeof(volume->scheduler));
	volume_find_setting(volume, partition);
}

int volume_find(const char *dir, struct volume *volume)
{
	struct stat st;

	*volume = (struct volume){};
	if (!realpath(dir, volume->dir))
		return -errno;
	if (stat(volume->dir, &st) < 0)
		return -errno;
	volume->dev = st.st_dev;
	volume_find_mount(volume);
	volume_find_device(volume);
	return 0;
}
