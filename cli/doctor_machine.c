// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* hugemap doctor: the kernel and its memory. */
#include "doctor_check.h"
#include "cli.h"
#include "memory.h"

#include <sys/utsname.h>

#define STOCK_READ_AHEAD_KB 128u

void check_kernel(const struct machine *machine, struct finding *finding)
{
	struct utsname name;

	uname(&name);
	doctor_result(finding, GOOD, "Linux %s on %s%s", name.release, name.machine,
		      machine->container ? ", in a container" : "");
	finding->details = json_pack("{s:s, s:s, s:b}", "release", name.release, "machine",
				     name.machine, "container", machine->container);
}

/* Plain mmap reads that much around a random fault, so the gain of steering depends on it. */
static void doctor_judge_read_ahead(struct finding *finding, const char *device,
				    unsigned long long kb)
{
	char text[CLI_TEXT];

	cli_bytes(text, (double)(kb << 10));
	if (!kb)
		doctor_result(finding, GOOD,
			      "read_ahead_kb of %s is 0: Linux reads single pages, also of files "
			      "that are read in order, where HugeMap gains most",
			      device);
	else if (kb <= STOCK_READ_AHEAD_KB)
		doctor_result(finding, GOOD,
			      "read_ahead_kb of %s is %llu%s: without HugeMap a random fault reads "
			      "up to %s, and a stream waits after each %s",
			      device, kb, kb == STOCK_READ_AHEAD_KB ? ", Linux's usual value" : "",
			      text, text);
	else
		doctor_result(finding, GOOD,
			      "read_ahead_kb of %s is %llu, %.3g times Linux's usual %u: without "
			      "HugeMap a random fault reads up to %s, so random access gains more "
			      "here than on other machines, and streams gain less",
			      device, kb, (double)kb / STOCK_READ_AHEAD_KB, STOCK_READ_AHEAD_KB,
			      text);
}

void check_read_ahead(const struct machine *machine, struct finding *finding)
{
	const struct volume *volume = machine->volume;
	const char *device = volume->device[0] ? volume->device : volume->type;
	unsigned long long kb;

	if (!volume->read_ahead_path[0] || !read_field(volume->read_ahead_path, "", &kb)) {
		doctor_result(finding, GOOD,
			      "%.100s (%s) has no read_ahead_kb: nothing is read ahead there",
			      volume->dir, volume->type);
		finding->details = json_pack("{s:s, s:n}", "device", device, "read_ahead_kb");
		return;
	}
	doctor_judge_read_ahead(finding, device, kb);
	finding->details =
		json_pack("{s:s, s:I}", "device", device, "read_ahead_kb", (json_int_t)kb);
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
