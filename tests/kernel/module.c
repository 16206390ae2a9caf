// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* What makes a module of the core's objects. It is never loaded. */
#include <linux/module.h>

MODULE_LICENSE("Dual MIT/GPL");
MODULE_DESCRIPTION("HugeMap: the cache core, compiled for the kernel");
