// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "mountinfo.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

/* The kernel writes blanks, tabs, line breaks and backslashes as "\040". */
static void mountinfo_unescape(char *text)
{
	char *to = text;

	while (*text) {
		unsigned int byte;

		if (text[0] == '\\' && sscanf(text + 1, "%3o", &byte) == 1) {
			*to++ = (char)byte;
			text += 4;
		} else {
			*to++ = *text++;
		}
	}
	*to = '\0';
}

static bool mountinfo_parse(const char *line, struct mount_point *point)
{
	const char *rest = strstr(line, " - ");
	unsigned int maj, min;

	if (!rest ||
	    sscanf(line, "%d %d %u:%u %*s %4095s", &point->id, &point->parent, &maj, &min,
		   point->dir) != 5 ||
	    sscanf(rest, " - %31s %4095s", point->type, point->source) != 2)
		return false;
	point->dev = makedev(maj, min);
	mountinfo_unescape(point->dir);
	mountinfo_unescape(point->source);
	return true;
}

bool mount_points(bool (*visit)(const struct mount_point *point, void *arg), void *arg)
{
	FILE *file = fopen("/proc/self/mountinfo", "re");
	struct mount_point point;
	char *line = NULL;
	size_t room = 0;

	if (!file)
		return false;
	while (getline(&line, &room, file) > 0)
		if (mountinfo_parse(line, &point) && !visit(&point, arg))
			break;
	free(line);
	fclose(file);
	return true;
}

struct search {
	const char *dir; /* NULL = by device */
	dev_t dev;
	struct mount_point *point;
	bool found;
};

/* Later lines are mounted over earlier ones, so the last match counts. */
static bool mountinfo_compare(const struct mount_point *point, void *arg)
{
	struct search *search = arg;

	if (search->dir ? !strcmp(search->dir, point->dir) : search->dev == point->dev) {
		*search->point = *point;
		search->found = true;
	}
	return true;
}

bool mount_point_at(const char *dir, struct mount_point *point)
{
	struct search search = { .dir = dir, .point = point };

	return mount_points(mountinfo_compare, &search) && search.found;
}

bool mount_of_hugemap(const char *name, struct mount_point *point)
{
	char dir[PATH_MAX];

	point->dir[0] = '\0';
	if (!realpath(name, dir))
		return false;
	if (mount_point_at(dir, point) && !strcmp(point->type, "hugemap"))
		return true;
	memcpy(point->dir, dir, sizeof(dir));
	return false;
}

bool mount_point_of(dev_t dev, struct mount_point *point)
{
	struct search search = { .dev = dev, .point = point };

	return mount_points(mountinfo_compare, &search) && search.found;
}
