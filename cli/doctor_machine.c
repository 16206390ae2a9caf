// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* hugemap doctor: the kernel and its memory. */
#include "doctor_check.h"
#include "cli.h"
#include "memory.h"

#include <sys/utsname.h>

void check_kernel(const struct machine *machine, struct finding *finding)
{
	struct utsname name;

	uname(&name);
	doctor_result(finding, GOOD, "Linux %s on %s%s", name.release, name.machine,
		      machine->container ? ", in a container" : "");
	finding->details = json_pack("{s:s, s:s, s:b}", "release", name.release, "machine",
				     name.machine, "container", machine->container);
}

void check_memory(const struct machine *machine, struct finding *finding)
{
	unsigned long long total = 0, available = 0;
	uint64_t room = memory_for_cache();
	char text[2][CLI_TEXT];
	bool limited;

	read_field("/proc/meminfo", "MemTotal:", &total);
	read_field("/proc/meminfo", "MemAvailable:", &available);
	total <<= 10;
	available <<= 10;
	/* Without a limit of a control group, @room is 7/8 of the available memory. */
	limited = room < available - available / 4;
	doctor_result(finding, GOOD, "%s of %s can hold data of files%s",
		      cli_bytes(text[0], (double)room), cli_bytes(text[1], (double)total),
		      limited ? ": the control group limits it" : "");
	finding->details = json_pack("{s:I, s:I, s:b}", "total_bytes", (json_int_t)total,
				     "available_bytes", (json_int_t)room, "group_limited", limited);
}
