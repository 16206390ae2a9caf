/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* orphan.c: pinned folios that have left the cache. */
#ifndef HUGEMAP_DATA_ORPHAN_H
#define HUGEMAP_DATA_ORPHAN_H

#include "data.h"

/* Add a folio whose owner is EXTERNAL. The list takes over one reference. */
void hugemap_orphan_add(struct hugemap_mount *mount, struct folio *folio);

/* Free the folios that are no longer pinned. Return true if others remain. */
bool hugemap_orphan_reap(struct hugemap_mount *mount);

/* The mount ends: leave the remaining folios to their pin holders. */
void hugemap_orphan_end(struct hugemap_mount *mount);

#endif /* HUGEMAP_DATA_ORPHAN_H */
