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

/* The variable has four bytes of attributes before its value. */
static bool doctor_has_secure_boot(void)
{
	FILE *file = fopen("/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-"
			   "00e098032b8c",
			   "re");
	char bytes[5] = {};
	bool on = file && fread(bytes, 1, sizeof(bytes), file) == sizeof(bytes) && bytes[4] == 1;

	if (file)
		fclose(file);
	return on;
}

/* A locked-down kernel loads only modules that are signed with a key it knows. */
static bool doctor_needs_signature(char lockdown[16])
{
	if (!read_choice("/sys/kernel/security/lockdown", lockdown, 16))
		snprintf(lockdown, 16, "none");
	return strcmp(lockdown, "none") || doctor_has_secure_boot();
}

void check_kernel_engine(const struct machine *machine, struct finding *finding)
{
	struct module module;
	struct tally tally = {};
	bool needs_signature;
	char lockdown[16];

	module_find(&module);
	mount_each(doctor_count_mount, &tally);
	needs_signature = doctor_needs_signature(lockdown);
	finding->details = json_pack("{s:b, s:b, s:b, s:i, s:s, s:b}", "module_loaded",
				     module.loaded, "module_installed", module.installed, "headers",
				     module.headers, "mounts", (int)tally.count, "lockdown",
				     lockdown, "needs_signature", needs_signature);
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
	else if (needs_signature)
		doctor_result(finding, GOOD,
			      "this kernel loads only signed modules (Secure Boot): `mokutil "
			      "--import /var/lib/dkms/mok.pub` enrols the key of dkms at the next "
			      "boot; steering needs no module");
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
