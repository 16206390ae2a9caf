// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Locks and leases have a header of their own, since 6.3. */
#include <linux/filelock.h>
