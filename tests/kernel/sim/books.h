/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The audit of an idle cache; see README.md. */
#ifndef SIM_BOOKS_H
#define SIM_BOOKS_H

#include "cache/port.h"

struct hm_cache;

/*
 * Check the whole cache while no operation is in flight. @beyond: units beyond the end of a
 * file are allowed.
 */
void books_check(struct hm_cache *cache, bool beyond);

#endif /* SIM_BOOKS_H */
