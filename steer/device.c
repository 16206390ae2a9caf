// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* The setting of the disk, or of what stands for one (NFS); a partition has its disk's. */
#include "device.h"

#include "call.h"
#include "say.h"

#include <sys/sysmacros.h>

uint64_t device_read_ahead_kb(uint64_t dev)
{
	static const char *const where[][2] = {
		{ "/sys/class/bdi/", "/read_ahead_kb" },
		{ "/sys/dev/block/", "/../queue/read_ahead_kb" },
	};
	char path[96], text[32];
	unsigned int i;
	struct say say;

	for (i = 0; i < 2; i++) {
		say_into(&say, path, sizeof(path));
		say_text(&say, where[i][0]);
		say_number(&say, major(dev));
		say_text(&say, ":");
		say_number(&say, minor(dev));
		say_text(&say, where[i][1]);
		if (call_read_text(path, text, sizeof(text)) > 0)
			return say_parse(text);
	}
	return 0;
}
