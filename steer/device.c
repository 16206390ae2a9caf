// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "device.h"

#include "reader.h"
#include "say.h"

#include <string.h>
#include <sys/sysmacros.h>

/* btrfs names its settings after a count of its mounts. */
#define BTRFS_MOUNTS 64u
/* The upper directory of an overlayfs, or the last of its lower directories if it has none. */
#define DEVICE_MAIN UINT32_MAX
/* So many layers of an overlayfs are examined. */
#define DEVICE_LAYERS 16u

/**
 * struct mount - a line of /proc/self/mountinfo
 * @dev: of the file system
 * @type: of the file system
 * @below: for an overlayfs: the directory of a layer; "" = it has fewer layers
 */
struct mount {
	uint64_t dev;
	char type[16];
	char below[512];
};

static bool device_text_is(const char *a, const char *b)
{
	while (*a && *a == *b)
		a++, b++;
	return *a == *b;
}

/* Returns the length of @prefix if it is @path or one of its parent directories, else 0. */
static size_t device_prefix(const char *path, const char *prefix)
{
	size_t n = 0;

	while (prefix[n] && prefix[n] == path[n])
		n++;
	if (prefix[n])
		return 0;
	return n == 1 || path[n] == '/' || !path[n] ? n : 0;
}

/* Read the value of an option up to a comma, or one directory of a list up to a colon. */
static int device_option(struct reader *reader, char *value, size_t size)
{
	size_t n = 0;
	int c;

	while ((c = reader_next(reader)) > ' ' && c != ',' && c != ':')
		if (n + 1 < size)
			value[n++] = (char)c;
	value[n] = '\0';
	return c;
}

static bool device_is_layer(const char *option)
{
	return device_text_is(option, "upperdir") || device_text_is(option, "lowerdir") ||
	       device_text_is(option, "lowerdir+") || device_text_is(option, "datadir+");
}

/*
 * Read the options of the super block to the end of the line, and find @below of an overlayfs: the
 * directory with this number in them, or DEVICE_MAIN. An empty name lies between directories for
 * data only and the others.
 */
static int device_below(struct reader *reader, unsigned int layer, struct mount *mount)
{
	char name[16], directory[sizeof(mount->below)];
	bool upper = false, is_upper, is_layer;
	unsigned int seen = 0;
	size_t n = 0;
	int c;

	while ((c = reader_next(reader)) >= 0 && c != '\n') {
		if (c == ',') {
			n = 0;
			continue;
		}
		if (c != '=') {
			if (n + 1 < sizeof(name))
				name[n++] = (char)c;
			continue;
		}
		name[n] = '\0';
		n = 0;
		is_upper = device_text_is(name, "upperdir");
		is_layer = device_is_layer(name);
		upper |= is_upper;
		do {
			c = device_option(reader, directory, sizeof(directory));
			if (is_layer && directory[0] &&
			    (layer == DEVICE_MAIN ? is_upper == upper : seen++ == layer))
				memcpy(mount->below, directory, sizeof(directory));
		} while (c == ':');
		if (c < 0 || c == '\n')
			break;
	}
	return c;
}

/* Find the mount of a file system, or with a path the one that the path lies in. */
static bool device_mount(uint64_t dev, const char *path, unsigned int layer, struct mount *found)
{
	char point[512], word[16];
	struct reader reader;
	size_t length = 0, n;
	int c = 0;

	found->type[0] = '\0';
	if (!reader_open(&reader, "/proc/self/mountinfo"))
		return false;
	while (c >= 0) {
		struct mount mount = {};
		unsigned int major;

		reader_number(&reader, 10);
		reader_number(&reader, 10);
		major = (unsigned int)reader_number(&reader, 10);
		mount.dev = makedev(major, (unsigned int)reader_number(&reader, 10));
		reader_word(&reader, word, sizeof(word)); /* the root of the mount */
		reader_word(&reader, point, sizeof(point));
		do
			c = reader_word(&reader, word, sizeof(word));
		while (c == ' ' && !device_text_is(word, "-"));
		if (c != ' ')
			break;
		reader_word(&reader, mount.type, sizeof(mount.type));
		c = reader_word(&reader, word, sizeof(word)); /* the source */
		if (c == ' ')
			c = device_below(&reader, layer, &mount);
		n = path ? device_prefix(path, point) : mount.dev == dev;
		/* A later mount at the same place covers the earlier one. */
		if (!n || n < length)
			continue;
		length = n;
		*found = mount;
	}
	reader_close(&reader);
	return found->type[0];
}

/*
 * Go from an overlayfs to the mount that holds the data of the layer in @below. A container may not
 * show it.
 */
static bool device_descend(struct mount *mount)
{
	unsigned int depth;

	for (depth = 0; depth < 4 && device_text_is(mount->type, "overlay"); depth++) {
		char path[sizeof(mount->below)];
		struct say say;

		say_into(&say, path, sizeof(path));
		say_text(&say, mount->below);
		if (path[0] != '/' || !device_mount(0, path, DEVICE_MAIN, mount))
			return false;
	}
	return !device_text_is(mount->type, "overlay");
}

/* Find the mount that holds the data of a file system, or of the main layer of an overlayfs. */
static bool device_lowest(uint64_t dev, struct mount *mount)
{
	return device_mount(dev, NULL, DEVICE_MAIN, mount) && device_descend(mount);
}

static uint64_t device_setting(const char *before, uint64_t a, uint64_t b, const char *after)
{
	char path[96], text[32];
	struct say say;

	say_into(&say, path, sizeof(path));
	say_text(&say, before);
	say_number(&say, a);
	if (b != UINT64_MAX) {
		say_text(&say, ":");
		say_number(&say, b);
	}
	say_text(&say, after);
	return call_read_text(path, text, sizeof(text)) > 0 ? say_parse(text) : 0;
}

/* A partition has the setting of its disk. */
static uint64_t device_kb(uint64_t dev)
{
	uint64_t kb = device_setting("/sys/class/bdi/", major(dev), minor(dev), "/read_ahead_kb");

	return kb ? kb :
		    device_setting("/sys/dev/block/", major(dev), minor(dev),
				   "/../queue/read_ahead_kb");
}

/*
 * The number of the btrfs mount is not known, so the smallest setting of all btrfs mounts counts.
 */
static uint64_t device_btrfs_kb(void)
{
	uint64_t kb = 0, one, i;

	for (i = 1; i <= BTRFS_MOUNTS; i++) {
		one = device_setting("/sys/class/bdi/btrfs-", i, UINT64_MAX, "/read_ahead_kb");
		if (one && (!kb || one < kb))
			kb = one;
	}
	return kb;
}

uint64_t device_read_ahead_kb(uint64_t dev)
{
	uint64_t kb = device_kb(dev);
	struct mount mount;

	if (!kb && device_lowest(dev, &mount))
		kb = device_text_is(mount.type, "btrfs") ? device_btrfs_kb() : device_kb(mount.dev);
	return kb ? kb : DEVICE_READ_AHEAD_KB;
}

static bool device_is_disk(const struct mount *mount)
{
	if (!major(mount->dev))
		return device_text_is(mount->type, "btrfs");
	return !(mount->type[0] == 'f' && mount->type[1] == 'u' && mount->type[2] == 's' &&
		 mount->type[3] == 'e');
}

/*
 * A file may lie in any layer of an overlayfs. A layer that is not found may be on another machine.
 * A container finds none of its layers. @found: the main one was found
 */
static bool device_layers_are_local(uint64_t dev, bool found)
{
	struct mount mount;
	unsigned int layer;

	for (layer = 0; layer < DEVICE_LAYERS; layer++) {
		if (!device_mount(dev, NULL, layer, &mount))
			return false;
		if (!mount.below[0])
			return true;
		if (device_descend(&mount) ? !device_is_disk(&mount) : found)
			return false;
	}
	return true;
}

bool device_is_local(uint64_t dev)
{
	struct mount mount;

	if (!device_mount(dev, NULL, DEVICE_MAIN, &mount))
		return false;
	if (!device_text_is(mount.type, "overlay"))
		return device_is_disk(&mount);
	return device_layers_are_local(dev, device_descend(&mount));
}
