// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* WQ_PERCPU makes a workqueue per-CPU, since 6.17. */
#include <linux/workqueue.h>

const unsigned int probe = WQ_PERCPU;
