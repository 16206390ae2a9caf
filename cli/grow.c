// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "cli.h"

#include <stdlib.h>

void *cli_grow(void *list, size_t count, size_t *room, size_t size)
{
	size_t more = *room ? 2 * *room : 16;

	if (count < *room)
		return list;
	list = realloc(list, more * size);
	if (list)
		*room = more;
	return list;
}
