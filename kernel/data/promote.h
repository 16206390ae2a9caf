/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* promote.c: base pages of a block become a huge unit. */
#ifndef HUGEMAP_DATA_PROMOTE_H
#define HUGEMAP_DATA_PROMOTE_H

#include "data.h"

/* Size of struct hugemap_promotion. */
size_t hugemap_promotion_bytes(void);

/* The promoter thread of a mount. */
int hugemap_promoter(void *mount);

#endif /* HUGEMAP_DATA_PROMOTE_H */
