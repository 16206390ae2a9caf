// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "next.h"

#include <dlfcn.h>
#include <stddef.h>

#include "object.h"

/* glibc's list of loaded libraries, for debuggers. Other C libraries do not have it. */
#pragma weak _r_debug
#pragma weak dlsym

static struct link_map next_library; /* l_ld is NULL before next_use() */

/*
 * A constructor of another library may run before the one of this library, so search on first use.
 */
const struct link_map *next_self(void)
{
	static const struct link_map *self;
	const struct link_map *map;

	if (!self && &_r_debug) {
		map = _r_debug.r_map;
		while (map && map->l_ld != _DYNAMIC)
			map = map->l_next;
		self = map;
	}
	return self;
}

bool next_is_glibc(void)
{
	return next_self();
}

const char *next_own_path(void)
{
	const struct link_map *self = next_self();

	return self ? self->l_name : "";
}

void next_use(const struct link_map *library)
{
	next_library = *library;
}

void *next_function(const char *name)
{
	const struct link_map *map = next_self();
	void *found = NULL;

	if (next_library.l_ld)
		return object_find(&next_library, name);
	if (!map)
		return dlsym ? dlsym(RTLD_NEXT, name) : NULL;
	while (!found && (map = map->l_next))
		found = object_find(map, name);
	return found;
}
