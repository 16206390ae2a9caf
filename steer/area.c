// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* The lines of /proc/self/maps look like this:
 *	7f0000000000-7f0000200000 r--s 00000000 fe:00 1234    /data/file
 */
#include "area.h"

#include "reader.h"

#include <sys/sysmacros.h>

bool area_find(uint64_t address, struct area *area)
{
	struct reader reader;
	unsigned int major;
	bool found = false;
	char permissions[8];

	if (!reader_open(&reader, "/proc/self/maps"))
		return false;
	do {
		area->start = reader_number(&reader, 16);
		area->end = reader_number(&reader, 16);
		reader_word(&reader, permissions, sizeof(permissions));
		area->offset = reader_number(&reader, 16);
		major = (unsigned int)reader_number(&reader, 16);
		area->dev = makedev(major, (unsigned int)reader_number(&reader, 16));
		area->ino = reader_number(&reader, 10);
		if (reader_line(&reader, area->path, sizeof(area->path)) < 0)
			break;
		found = area->end > address;
	} while (!found);
	reader_close(&reader);
	return found;
}
