// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * hugemap doctor: whether the kernel engine is available here. The verdict is always GOOD, since
 * steering does not need it.
 */
#include "doctor_check.h"
#include "module.h"
#include "mounts.h"
#include "system.h"

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

/**
 * struct signing - whether this kernel loads only signed modules, and whether ours is signed
 * @lockdown: "none", "integrity" or "confidentiality"
 * @secure_boot: the firmware checked the boot loader
 * @needed: the kernel refuses a module without the signature of a key that it has
 * @signer: the signer of the installed module; "" = there is no signature
 */
struct signing {
	char lockdown[16];
	bool secure_boot;
	bool needed;
	char signer[80];
};

static void doctor_find_signing(struct signing *signing)
{
	FILE *modinfo = popen(
		"PATH=$PATH:/usr/sbin:/sbin modinfo -F signer " MODULE_NAME " 2>/dev/null", "re");
	char line[4];
	bool known = read_choice("/sys/kernel/security/lockdown", signing->lockdown,
				 sizeof(signing->lockdown));

	if (!known)
		snprintf(signing->lockdown, sizeof(signing->lockdown), "none");
	signing->secure_boot = doctor_has_secure_boot();
	/* A kernel that does not report lockdown is probably locked down by Secure Boot. */
	signing->needed =
		strcmp(signing->lockdown, "none") || (!known && signing->secure_boot) ||
		(read_line("/sys/module/module/parameters/sig_enforce", line, sizeof(line)) &&
		 line[0] == 'Y');
	signing->signer[0] = '\0';
	if (!modinfo)
		return;
	if (!fgets(signing->signer, sizeof(signing->signer), modinfo))
		signing->signer[0] = '\0';
	signing->signer[strcspn(signing->signer, "\n")] = '\0';
	pclose(modinfo);
}

/* Report the next step on a kernel that loads only signed modules. */
static void doctor_report_signing(const struct module *module, const struct signing *signing,
				  struct finding *finding)
{
	const char *cause = signing->secure_boot ? "Secure Boot" : "it is locked down";

	if (!module->installed)
		doctor_result(finding, GOOD,
			      "none; this kernel loads only signed modules (%s): build the kernel "
			      "engine by dkms, which signs it, then `mokutil --import "
			      "/var/lib/dkms/mok.pub` and reboot; steering needs no module",
			      cause);
	else if (!signing->signer[0])
		doctor_result(finding, GOOD,
			      "the installed kernel engine has no signature, and this kernel loads "
			      "only signed modules (%s): build it again by dkms, with openssl "
			      "installed; steering needs no module",
			      cause);
	else
		doctor_result(finding, GOOD,
			      "the installed kernel engine is signed by %.79s; if this kernel (%s) "
			      "refuses it, `mokutil --import /var/lib/dkms/mok.pub` and reboot",
			      signing->signer, cause);
}

/* Nothing is mounted. */
static void doctor_report_module(const struct machine *machine, const struct module *module,
				 const struct signing *signing, struct finding *finding)
{
	if (module->loaded)
		doctor_result(finding, GOOD,
			      "the kernel engine is loaded; nothing is mounted: see "
			      "`hugemap mount --help`");
	else if (module->none)
		doctor_result(finding, GOOD,
			      "none: this kernel loads no modules, so it cannot have the kernel "
			      "engine");
	else if (machine->container)
		doctor_result(finding, GOOD,
			      "none: only the host can load the kernel engine, outside this "
			      "container");
	else if (signing->needed)
		doctor_report_signing(module, signing, finding);
	else if (module->installed)
		doctor_result(finding, GOOD,
			      "the kernel engine is installed; `hugemap mount` loads it");
	else if (module->headers)
		doctor_result(finding, GOOD,
			      "none; the kernel engine could be built here: `make module` in "
			      "the source of HugeMap");
	else
		doctor_result(finding, GOOD,
			      "none; to build the kernel engine, the headers of Linux %s "
			      "are missing",
			      module->release);
}

void check_kernel_engine(const struct machine *machine, struct finding *finding)
{
	struct module module;
	struct signing signing;
	struct tally tally = {};

	module_find(&module);
	mount_each(doctor_count_mount, &tally);
	doctor_find_signing(&signing);
	finding->details = json_pack("{s:b, s:b, s:b, s:i, s:s, s:b, s:b, s:s}", "module_loaded",
				     module.loaded, "module_installed", module.installed, "headers",
				     module.headers, "mounts", (int)tally.count, "lockdown",
				     signing.lockdown, "secure_boot", signing.secure_boot,
				     "needs_signature", signing.needed, "signer", signing.signer);
	if (tally.count == 1)
		doctor_result(finding, GOOD, "the kernel engine serves %s", tally.first);
	else if (tally.count)
		doctor_result(finding, GOOD, "the kernel engine serves %u mounts, %s among them",
			      tally.count, tally.first);
	else
		doctor_report_module(machine, &module, &signing, finding);
}
