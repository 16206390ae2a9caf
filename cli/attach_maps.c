// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* hugemap attach: read /proc/PID/maps, or smaps, which also has the program's own advice. */
#include "attach_maps.h"
#include "cli.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

/* Parse the first line of an area. area->path points into the line. */
static bool areas_parse(char *line, struct area *area)
{
	unsigned int maj, min;
	char rights[8];
	int at = 0;

	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %" SCNx64 " %x:%x %" SCNu64 " %n",
		   &area->start, &area->end, rights, &area->offset, &maj, &min, &area->ino,
		   &at) != 7 ||
	    !at)
		return false;
	line[strcspn(line, "\n")] = '\0';
	area->dev = makedev(maj, min);
	area->path = line + at;
	area->writable = rights[1] == 'w';
	area->shared = rights[3] == 's';
	area->hints = 0;
	/* Leave out code: the linker and the kernel handle it. */
	if (rights[2] == 'x')
		area->ino = 0;
	return true;
}

/* Devices, System V memory and anonymous memory have no data that could be read ahead. */
static bool areas_is_file(const struct area *area)
{
	return area->ino && area->path[0] == '/' && strncmp(area->path, "/memfd:", 7) &&
	       strncmp(area->path, "/SYSV", 5) && strncmp(area->path, "/anon_hugepage", 14) &&
	       (strncmp(area->path, "/dev/", 5) || !strncmp(area->path, "/dev/shm/", 9));
}

static bool areas_adjoin(const struct area *last, const struct area *area)
{
	return last->end == area->start && last->dev == area->dev && last->ino == area->ino &&
	       last->shared == area->shared &&
	       last->offset + (last->end - last->start) == area->offset;
}

static struct area *areas_add(struct areas *areas, const struct area *area)
{
	struct area *last = areas->count ? &areas->list[areas->count - 1] : NULL;

	/* The kernel splits a mapping at advice and at mprotect(): merge the areas again. */
	if (last && areas_adjoin(last, area)) {
		last->end = area->end;
		last->writable |= area->writable;
		return last;
	}
	last = cli_grow(areas->list, areas->count, &areas->room, sizeof(*last));
	if (!last)
		return NULL;
	areas->list = last;
	last = &areas->list[areas->count];
	*last = *area;
	last->path = strdup(area->path);
	if (!last->path)
		return NULL;
	areas->count++;
	return last;
}

/* True if a device number is that of a tmpfs, ramfs or hugetlbfs in the process's name space. */
static bool areas_is_in_memory(pid_t pid, dev_t dev)
{
	bool found = false, in_memory = false;
	char path[64], *line = NULL, *type;
	unsigned int maj, min;
	size_t room = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/mountinfo", pid);
	file = major(dev) ? NULL : fopen(path, "re");
	if (!file)
		return false;
	while (!found && getline(&line, &room, file) > 0) {
		type = strstr(line, " - ");
		found = type && sscanf(line, "%*d %*d %u:%u", &maj, &min) == 2 &&
			makedev(maj, min) == dev;
		in_memory = found &&
			    (!strncmp(type, " - tmpfs ", 9) || !strncmp(type, " - ramfs ", 9) ||
			     !strncmp(type, " - hugetlbfs ", 13));
	}
	free(line);
	fclose(file);
	return in_memory;
}

/* Remove short areas and files in memory, which cannot be read ahead. */
static void areas_drop_unwanted(struct areas *areas, pid_t pid, uint64_t min_size)
{
	bool in_memory = false;
	dev_t dev = 0;
	size_t i, n = 0;

	for (i = 0; i < areas->count; i++) {
		struct area *area = &areas->list[i];

		if (area->end - area->start >= min_size && area->dev != dev) {
			dev = area->dev;
			in_memory = areas_is_in_memory(pid, dev);
		}
		if (area->end - area->start < min_size || in_memory)
			free(area->path);
		else
			areas->list[n++] = *area;
	}
	areas->count = n;
}

static unsigned int areas_parse_flags(const char *flags)
{
	static const struct {
		const char *word;
		unsigned int hint;
	} words[] = {
		{ " rr", HINT_RANDOM },
		{ " sr", HINT_SEQUENTIAL },
		{ " hg", HINT_HUGE },
		{ " nh", HINT_SMALL },
	};
	unsigned int hints = 0;
	size_t i;

	for (i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strstr(flags, words[i].word))
			hints |= words[i].hint;
	return hints;
}

int areas_read(pid_t pid, uint64_t min_size, bool hints, struct areas *areas)
{
	struct area area, *last = NULL;
	char path[64], *line = NULL;
	size_t room = 0;
	FILE *file;
	int err;

	*areas = (struct areas){};
	snprintf(path, sizeof(path), "/proc/%d/%s", pid, hints ? "smaps" : "maps");
	file = fopen(path, "re");
	if (!file)
		return errno == ENOENT ? -ESRCH : -errno;
	errno = 0;
	while (getline(&line, &room, file) > 0) {
		if (!strncmp(line, "VmFlags:", 8)) {
			if (last)
				last->hints |= areas_parse_flags(line + 8);
			continue;
		}
		if (!areas_parse(line, &area))
			continue;
		areas->steered |= !!strstr(area.path, "/libhugemap-run.so");
		last = areas_is_file(&area) ? areas_add(areas, &area) : NULL;
	}
	/* Some kernels check the permission only at the first read. */
	err = ferror(file) ? -errno : 0;
	free(line);
	fclose(file);
	areas_drop_unwanted(areas, pid, min_size);
	return err;
}

void areas_free(struct areas *areas)
{
	size_t i;

	for (i = 0; i < areas->count; i++)
		free(areas->list[i].path);
	free(areas->list);
	*areas = (struct areas){};
}

const char *hints_text(unsigned int hints, char text[64])
{
	static const char *const names[] = { "MADV_RANDOM", "MADV_SEQUENTIAL", "MADV_HUGEPAGE",
					     "MADV_NOHUGEPAGE" };
	char *at = text;
	size_t i;

	*at = '\0';
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (!(hints & 1u << i))
			continue;
		if (at > text)
			at = stpcpy(at, ", ");
		at = stpcpy(at, names[i]);
	}
	return text;
}
