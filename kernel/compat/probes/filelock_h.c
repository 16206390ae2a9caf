// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Locks and leases are declared in linux/filelock.h, since 6.3. */
#include <linux/filelock.h>
