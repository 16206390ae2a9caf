// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * hugemap doctor: whether the kernel engine is available here. The verdict is always GOOD, since
 * steering does not need it.
 */
#include "doctor_check.h"
#include "module.h"
#include "mounts.h"

#include <string.h>

struct tally {
	unsigned int count;
	char first[128];
};

static void doctor_count_mount(const struct mount *mount, void *arg)
{
	struct tally *tally = arg;

	if (!tally->count++)
		snprintf(tally->first, sizeof(tally->first), "%.127s",
			 mount->dir[0] ? mount->dir : "one elsewhere");
}

void check_kernel_engine(const struct machine *machine, struct finding *finding)
{
	struct module module;
	struct tally tally = {};

	module_find(&module);
	mount_each(doctor_count_mount, &tally);
	finding->details = json_pack("{s:b, s:b, s:b, s:i}", "module_loaded", module.loaded,
				     "module_installed", module.installed, "headers",
				     module.headers, "mounts", (int)tally.count);
	if (tally.count == 1)
		doctor_result(finding, GOOD, "the kernel engine serves %s", tally.first);
	else if (tally.count)
		doctor_result(finding, GOOD, "the kernel engine serves %u mounts, %s among them",
			      tally.count, tally.first);
	else if (module.loaded)
		doctor_result(finding, GOOD,
			      "the kernel engine is loaded; nothing is mounted: see "
			      "`hugemap mount --help`");
	else if (module.none)
		doctor_result(finding, GOOD,
			      "none: this kernel loads no modules, so it cannot have the kernel "
			      "engine");
	else if (machine->container)
		doctor_result(finding, GOOD,
			      "none: only the host can load the kernel engine, outside this "
			      "container");
	else if (module.installed)
		doctor_result(finding, GOOD,
			      "the kernel engine is installed; `hugemap mount` loads it");
	else if (module.headers)
		doctor_result(finding, GOOD,
			      "none; the kernel engine could be built here: `make module` in "
			      "the source of HugeMap");
	else
		doctor_result(finding, GOOD,
			      "none; to build the kernel engine, the headers of Linux %s "
			      "are missing",
			      module.release);
}
