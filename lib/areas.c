// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "areas.h"

#include <inttypes.h>
#include <string.h>

bool areas_open(struct areas *areas, const char *path)
{
	areas->file = fopen(path, "re");
	areas->pending = false;
	return areas->file;
}

void areas_close(struct areas *areas)
{
	fclose(areas->file);
}

static bool areas_read(struct areas *areas)
{
	return fgets(areas->line, sizeof(areas->line), areas->file);
}

static bool areas_parse(struct areas *areas, struct area *area)
{
	int path = 0;

	if (sscanf(areas->line, "%" SCNxPTR "-%" SCNxPTR " %*s %" SCNx64 " %x:%x %" SCNu64 " %n",
		   &area->start, &area->end, &area->offset, &area->major, &area->minor, &area->ino,
		   &path) != 6)
		return false;
	areas->line[strcspn(areas->line, "\n")] = '\0';
	area->path = areas->line + path;
	return true;
}

bool areas_next(struct areas *areas, struct area *area)
{
	while (areas->pending || areas_read(areas)) {
		areas->pending = false;
		if (areas_parse(areas, area))
			return true;
	}
	return false;
}

const char *areas_next_line(struct areas *areas)
{
	struct area next;

	if (!areas_read(areas))
		return NULL;
	areas->pending = areas_parse(areas, &next);
	return areas->pending ? NULL : areas->line;
}
