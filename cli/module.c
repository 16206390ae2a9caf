// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* The kernel module: whether this kernel has it, and loading it. */
#include "module.h"
#include "system.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

static bool module_is_loaded(void)
{
	FILE *file = fopen("/proc/filesystems", "re");
	char line[128], name[64];
	bool found = false;

	if (!file)
		return false;
	while (!found && fgets(line, sizeof(line), file)) {
		const char *last = strrchr(line, '\t');

		found = last && sscanf(last, "%63s", name) == 1 && !strcmp(name, MODULE_NAME);
	}
	fclose(file);
	return found;
}

/* modules.dep lists the modules that modprobe finds: "updates/dkms/hugemap.ko.xz: ..." */
static bool module_is_installed(const char *release)
{
	char path[256], *line = NULL;
	size_t room = 0;
	bool found = false;
	FILE *file;

	snprintf(path, sizeof(path), "/lib/modules/%s/modules.dep", release);
	file = fopen(path, "re");
	if (!file)
		return false;
	while (!found && getline(&line, &room, file) > 0) {
		const char *name;

		line[strcspn(line, ":\n")] = '\0';
		name = strrchr(line, '/');
		name = name ? name + 1 : line;
		found = !strncmp(name, MODULE_NAME ".ko", strlen(MODULE_NAME ".ko"));
	}
	free(line);
	fclose(file);
	return found;
}

void module_find(struct module *module)
{
	char path[256];
	struct utsname name;

	uname(&name);
	*module = (struct module){ .loaded = module_is_loaded() };
	snprintf(module->release, sizeof(module->release), "%s", name.release);
	module->none = access("/proc/modules", F_OK);
	module->installed = module_is_installed(name.release);
	snprintf(path, sizeof(path), "/lib/modules/%.79s/build/Makefile", module->release);
	module->headers = !access(path, F_OK);
}

int module_load(const char *name, const char *option, char *error, size_t size)
{
	char *const argv[] = { "modprobe", (char *)name, (char *)option, NULL };

	return spawn_wait(argv, error, size);
}
