// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "object.h"

#include <stdint.h>
#include <string.h>

#define OBJECT_HIDDEN 0x8000 /* in DT_VERSYM: not the default version */

size_t object_value(const struct link_map *map, ElfW(Sxword) tag)
{
	const ElfW(Dyn) * entry;

	for (entry = map->l_ld; entry->d_tag != DT_NULL; entry++)
		if (entry->d_tag == tag)
			return entry->d_un.d_val;
	return 0;
}

/*
 * glibc adds the load address to the entries, but not in a read-only section such as the
 * vDSO's.
 */
const void *object_table(const struct link_map *map, ElfW(Sxword) tag)
{
	size_t at = object_value(map, tag);

	return (const void *)(at && at < map->l_addr ? at + map->l_addr : at);
}

static uint32_t object_hash(const char *name)
{
	uint32_t hash = 5381;

	while (*name)
		hash = hash * 33 + (unsigned char)*name++;
	return hash;
}

void *object_find(const struct link_map *map, const char *name)
{
	const uint32_t *table = object_table(map, DT_GNU_HASH), *buckets, *chain;
	const ElfW(Sym) *symbols = object_table(map, DT_SYMTAB);
	const uint16_t *versions = object_table(map, DT_VERSYM);
	const char *names = object_table(map, DT_STRTAB);
	uint32_t i, hash = object_hash(name);

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
		    !(versions && versions[i] & OBJECT_HIDDEN) &&
		    !strcmp(names + symbols[i].st_name, name))
			return (void *)(map->l_addr + symbols[i].st_value);
	} while (!(chain[i++] & 1));
	return NULL;
}
