// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "next.h"

#include <dlfcn.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define NEXT_HIDDEN 0x8000 /* in DT_VERSYM: not the default version */

/* glibc's list of loaded libraries, for debuggers. Other C libraries do not have it. */
#pragma weak _r_debug
#pragma weak dlsym

/*
 * A constructor of another library may run before the one of this library, so search on first use.
 */
static const struct link_map *next_self(void)
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

/*
 * glibc adds the load address to the entries, but not in a read-only section such as the
 * vDSO's.
 */
static const void *next_table(const struct link_map *map, ElfW(Sxword) tag)
{
	const ElfW(Dyn) * entry;

	for (entry = map->l_ld; entry->d_tag != DT_NULL; entry++)
		if (entry->d_tag == tag)
			return (const void *)(entry->d_un.d_ptr < map->l_addr ?
						      entry->d_un.d_ptr + map->l_addr :
						      entry->d_un.d_ptr);
	return NULL;
}

static uint32_t next_hash(const char *name)
{
	uint32_t hash = 5381;

	while (*name)
		hash = hash * 33 + (unsigned char)*name++;
	return hash;
}

static void *next_in(const struct link_map *map, const char *name, uint32_t hash)
{
	const uint32_t *table = next_table(map, DT_GNU_HASH), *buckets, *chain;
	const ElfW(Sym) *symbols = next_table(map, DT_SYMTAB);
	const uint16_t *versions = next_table(map, DT_VERSYM);
	const char *names = next_table(map, DT_STRTAB);
	uint32_t i;

	if (!table || !symbols || !names)
		return NULL;
	/* The table: number of buckets, first symbol, words of the filter, shift, the filter. */
	buckets = table + 4 + table[2] * (sizeof(ElfW(Addr)) / sizeof(*table));
	chain = buckets + table[0] - table[1];
	i = buckets[hash % table[0]];
	if (!i)
		return NULL;
	do {
		if ((chain[i] | 1) == (hash | 1) && symbols[i].st_shndx != SHN_UNDEF &&
		    !(versions && versions[i] & NEXT_HIDDEN) &&
		    !strcmp(names + symbols[i].st_name, name))
			return (void *)(map->l_addr + symbols[i].st_value);
	} while (!(chain[i++] & 1));
	return NULL;
}

void *next_function(const char *name)
{
	const struct link_map *map = next_self();
	uint32_t hash = next_hash(name);
	void *found = NULL;

	if (!map)
		return dlsym ? dlsym(RTLD_NEXT, name) : NULL;
	while (!found && (map = map->l_next))
		found = next_in(map, name, hash);
	return found;
}
