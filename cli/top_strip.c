// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * hugemap top: read which pages of a file are cached, and show them as a strip of signs.
 * HUGEMAP_IOC_CACHED does not change the order of eviction.
 */
#include "top_strip.h"
#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOCK (2ull << 20)

const char *const top_strip_legend[2] = {
	"# 2 MB pages, h some; = 4 KB pages, - half of them, ' few; D d not all written; . not cached",
	"█ 2 MB pages, ▌ some; ▓ 4 KB pages, ▒ half of them, ░ few; D d not all written; · not cached",
};

/* --- reading --- */

static int top_strip_read(int fd, uint64_t bytes, struct top_strip *strip)
{
	uint64_t blocks = bytes ? (bytes + BLOCK - 1) / BLOCK : 1;
	struct hugemap_cached cached = {
		.cell = (blocks + TOP_CELLS - 1) / TOP_CELLS * BLOCK,
		.cells = (uintptr_t)strip->cells,
		.count = TOP_CELLS,
	};

	if (ioctl(fd, HUGEMAP_IOC_CACHED, &cached) < 0)
		return -errno;
	strip->bytes = bytes;
	strip->count = cached.count;
	return 0;
}

int top_strips_add(struct top_strips *strips, const char *path, dev_t dev)
{
	struct top_strip *strip;
	struct stat st;
	size_t i;
	int err, fd;

	for (i = 0; i < strips->count; i++)
		if (!strcmp(strips->list[i].path, path))
			return 0;
	if (strips->count == TOP_STRIPS)
		return -E2BIG;
	fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	strip = cli_grow(strips->list, strips->count, &strips->room, sizeof(*strip));
	err = strip ? 0 : -ENOMEM;
	if (strip) {
		strips->list = strip;
		strip += strips->count;
		err = fstat(fd, &st) < 0 ? -errno : 0;
		/* In another mount name space the same name may be another file. */
		if (!err && dev && st.st_dev != dev)
			err = -ENOENT;
		if (!err)
			err = top_strip_read(fd, (uint64_t)st.st_size, strip);
	}
	close(fd);
	if (err)
		return err;
	strip->dev = st.st_dev;
	strip->path = strdup(path);
	if (!strip->path)
		return -ENOMEM;
	strips->count++;
	return 0;
}

void top_strips_free(struct top_strips *strips)
{
	while (strips->count)
		free(strips->list[--strips->count].path);
	free(strips->list);
	*strips = (struct top_strips){};
}

/* --- text --- */

struct sum {
	uint64_t pages, huge, base, dirty;
};

static void top_strip_add_cells(struct sum *sum, const struct top_strip *strip, size_t first,
				size_t end)
{
	for (; first < end; first++) {
		sum->pages += strip->cells[first].pages;
		sum->huge += strip->cells[first].huge;
		sum->base += strip->cells[first].base;
		sum->dirty += strip->cells[first].dirty;
	}
}

static const char *top_strip_sign(const struct sum *sum, bool unicode)
{
	static const char *const base[2][3] = { { "'", "-", "=" }, { "░", "▒", "▓" } };
	static const char *const huge[2][2] = { { "h", "#" }, { "▌", "█" } };
	uint64_t cached = sum->huge + sum->base;
	bool much = 3 * cached >= 2 * sum->pages;

	if (!cached)
		return unicode ? "·" : ".";
	if (sum->dirty)
		return sum->huge >= sum->base ? "D" : "d";
	if (sum->huge >= sum->base)
		return huge[unicode][much];
	return base[unicode][much ? 2 : 3 * cached >= sum->pages];
}

unsigned int top_strip_text(char *to, size_t size, const struct top_strip *strip,
			    unsigned int width, bool unicode)
{
	size_t shown = strip->count < width ? strip->count : width, i, used = 0;

	*to = '\0';
	for (i = 0; i < shown; i++) {
		struct sum sum = {};
		const char *sign;

		top_strip_add_cells(&sum, strip, i * strip->count / shown,
				    (i + 1) * strip->count / shown);
		sign = top_strip_sign(&sum, unicode);
		if (used + strlen(sign) + 1 > size)
			break;
		memcpy(to + used, sign, strlen(sign) + 1);
		used += strlen(sign);
	}
	return (unsigned int)i;
}

void top_strip_sum(const struct top_strip *strip, uint64_t *huge, uint64_t *base, uint64_t *dirty)
{
	struct sum sum = {};

	top_strip_add_cells(&sum, strip, 0, strip->count);
	*huge = sum.huge << 12;
	*base = sum.base << 12;
	*dirty = sum.dirty << 12;
}
