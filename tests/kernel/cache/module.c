// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* A module of the cache's objects, to check that they link. It is never loaded. */
#include <linux/module.h>

MODULE_LICENSE("Dual MIT/GPL");
MODULE_DESCRIPTION("HugeMap: the cache, compiled for the kernel");
