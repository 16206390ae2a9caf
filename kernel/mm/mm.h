/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Uses of mm for which mm offers no hook. Each file has one of them, and starts with three
 * sentences: what the module needs, why mm offers no hook for it, and which hook would
 * replace the file.
 */
#ifndef HUGEMAP_MM_H
#define HUGEMAP_MM_H

#include <linux/mm.h>

/* --- poison.c ---------------------------------------------------------------------- */

void hugemap_poison_setup(void);
void hugemap_poison_teardown(void);

/* Has the machine found some of its memory broken? */
bool hugemap_is_poisoned(const struct folio *folio);

/* Could any be? */
bool hugemap_may_be_poisoned(void);

#endif /* HUGEMAP_MM_H */
