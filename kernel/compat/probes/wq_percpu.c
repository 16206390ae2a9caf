// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* A workqueue says that it is bound to CPUs (6.17). */
#include <linux/workqueue.h>

const unsigned int probe = WQ_PERCPU;
