/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* aops.c: the address space operations of a cached file. */
#ifndef HUGEMAP_DATA_AOPS_H
#define HUGEMAP_DATA_AOPS_H

#include "data.h"

extern const struct address_space_operations hugemap_aops;

#endif /* HUGEMAP_DATA_AOPS_H */
