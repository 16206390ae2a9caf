// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* The lines of /proc/self/maps look like this:
 *	7f0000000000-7f0000200000 r--s 00000000 fe:00 1234    /data/file
 */
#include "area.h"

#include <sys/sysmacros.h>

bool area_open(struct reader *reader)
{
	return reader_open(reader, "/proc/self/maps");
}

bool area_next(struct reader *reader, struct area *area)
{
	unsigned int major;
	char permissions[8];

	area->start = reader_number(reader, 16);
	area->end = reader_number(reader, 16);
	reader_word(reader, permissions, sizeof(permissions));
	area->offset = reader_number(reader, 16);
	major = (unsigned int)reader_number(reader, 16);
	area->dev = makedev(major, (unsigned int)reader_number(reader, 16));
	area->ino = reader_number(reader, 10);
	return reader_line(reader, area->path, sizeof(area->path)) >= 0;
}

bool area_find(uint64_t address, struct area *area)
{
	struct reader reader;
	bool found = false;

	if (!area_open(&reader))
		return false;
	while (!found && area_next(&reader, area))
		found = area->end > address;
	reader_close(&reader);
	return found;
}
