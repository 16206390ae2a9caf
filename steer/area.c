// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* The lines of /proc/self/maps look like this:
 *	7f0000000000-7f0000200000 r--s 00000000 fe:00 1234    /data/file
 */
#include "area.h"

#include "uapi.h"

#include <string.h>
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

/* Linux 6.11 and later find an area without the list. Returns -errno if there is none. */
static long area_query(const struct reader *reader, uint64_t address, struct area *area)
{
	char path[4096];
	struct procmap_query query = {
		.size = sizeof(query),
		.query_flags = PROCMAP_QUERY_COVERING_OR_NEXT_VMA,
		.query_addr = address,
		.vma_name_size = sizeof(path),
		.vma_name_addr = (uint64_t)(uintptr_t)path,
	};
	long result = call(SYS_ioctl, reader->fd, (long)PROCMAP_QUERY, (long)&query, 0, 0, 0);
	size_t length = query.vma_name_size ? query.vma_name_size - 1 : 0;
	size_t cut = length < sizeof(area->path) ? 0 : length - (sizeof(area->path) - 1);

	if (result < 0)
		return result;
	*area = (struct area){
		.start = query.vma_start,
		.end = query.vma_end,
		.offset = query.vma_offset,
		.dev = makedev(query.dev_major, query.dev_minor),
		.ino = query.inode,
	};
	memcpy(area->path, path + cut, length - cut);
	return 0;
}

bool area_find(uint64_t address, struct area *area)
{
	struct reader reader;
	long result;
	bool found;

	if (!area_open(&reader))
		return false;
	result = area_query(&reader, address, area);
	found = !result;
	while (!found && result != -ENOENT && area_next(&reader, area))
		found = area->end > address;
	reader_close(&reader);
	return found;
}
