// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* This module checks that the objects of the cache link. It is never loaded. */
#include <linux/module.h>

MODULE_LICENSE("Dual MIT/GPL");
MODULE_DESCRIPTION("HugeMap: the cache, compiled for the kernel");
