// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Checks before a mount, with advice on what to do about a failure. */
#include "mount_check.h"
#include "module.h"
#include "mountinfo.h"
#include "mounts.h"
#include "system.h"

#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define HUGE_SHIFT 21
#define POOL_MIN (64ull << 20)

int mount_check_root(const struct cli_command *command)
{
	if (geteuid() == 0)
		return CLI_OK;
	return cli_fail(command,
			"only root may do this: put sudo before it. Programs can use HugeMap "
			"without a mount and without root, through its library: see "
			"`hugemap doctor`");
}

/* --- source and directory --- */

int mount_check_source(const struct cli_command *command, const char *source)
{
	struct mount mount;
	struct stat st;

	if (stat(source, &st) < 0)
		return cli_fail(command, "%s cannot be used: %s", source, strerror(errno));
	if (S_ISREG(st.st_mode))
		return cli_fail(command,
				"%s is a file: mount the directory that it is in, and all files "
				"there are faster",
				source);
	if (!S_ISDIR(st.st_mode) && !S_ISBLK(st.st_mode))
		return cli_fail(command, "%s is neither a directory nor a block device", source);
	if (S_ISDIR(st.st_mode) && !mount_open(source, &mount))
		return cli_fail(command,
				"%s is on a mount of HugeMap already: one below the other would "
				"keep everything twice",
				source);
	return CLI_OK;
}

int mount_check_dir(const struct cli_command *command, const char *dir)
{
	struct stat st;

	if (stat(dir, &st) < 0)
		return cli_fail(command, "%s cannot be mounted on: %s%s", dir, strerror(errno),
				errno == ENOENT ? "; make it with mkdir" : "");
	if (!S_ISDIR(st.st_mode))
		return cli_fail(command, "%s cannot be mounted on: it is not a directory", dir);
	return CLI_OK;
}

static bool mount_print_mounted(const struct mount_point *point, void *arg)
{
	const dev_t *dev = arg;

	if (point->dev != *dev)
		return true;
	fprintf(stderr, "  it is mounted at %s: unmount it first\n", point->dir);
	return false;
}

/* Print the mounts of the partitions of a disk, and the devices built on it (RAID, LVM). */
static void mount_print_device_users(const char *name)
{
	char pattern[256], line[64];
	glob_t found;
	size_t i;

	snprintf(pattern, sizeof(pattern), "/sys/class/block/%.64s/*/dev", name);
	if (!glob(pattern, 0, NULL, &found))
		for (i = 0; i < found.gl_pathc; i++) {
			unsigned int maj, min;
			dev_t dev;

			if (!read_line(found.gl_pathv[i], line, sizeof(line)) ||
			    sscanf(line, "%u:%u", &maj, &min) != 2)
				continue;
			dev = makedev(maj, min);
			mount_points(mount_print_mounted, &dev);
		}
	globfree(&found);
	snprintf(pattern, sizeof(pattern), "/sys/class/block/%.64s/holders/*", name);
	if (!glob(pattern, 0, NULL, &found))
		for (i = 0; i < found.gl_pathc; i++)
			fprintf(stderr, "  %s is made of it\n",
				strrchr(found.gl_pathv[i], '/') + 1);
	globfree(&found);
}

void mount_explain_device(const char *source)
{
	char path[4096], swap[4096];
	FILE *swaps = fopen("/proc/swaps", "re");
	struct stat st;

	if (stat(source, &st) < 0 || !S_ISBLK(st.st_mode) || !realpath(source, path)) {
		if (swaps)
			fclose(swaps);
		return;
	}
	mount_points(mount_print_mounted, &st.st_rdev);
	mount_print_device_users(strrchr(path, '/') + 1);
	while (swaps && fscanf(swaps, "%4095s%*[^\n]", swap) == 1)
		if (!strcmp(swap, path))
			fprintf(stderr, "  it is used as swap: swapoff %s first\n", path);
	if (swaps)
		fclose(swaps);
}

/* --- the module --- */

static void mount_print_alternative(void)
{
	fputs("Without the module, programs can use HugeMap through its library (hugemap_map(3)):\n"
	      "`hugemap doctor` says whether that works here.\n",
	      stderr);
}

/* Debian's packages of headers have the release of the kernel in their name. */
static void mount_print_headers(const char *release)
{
	const char *end = strrchr(release, '-');

	if (end && (!strcmp(end, "-amd64") || !strcmp(end, "-arm64")))
		fprintf(stderr,
			"To build it, install the headers of this kernel first:\n\n"
			"    apt-get install linux-headers-%s\n\n",
			release);
	else
		fputs("To build it, the headers of this kernel are needed, from where it comes "
		      "from.\n",
		      stderr);
}

static int mount_report_no_module(const struct cli_command *command, const struct module *module)
{
	if (module->none) {
		cli_fail(command, "Linux %s, as it was built here, loads no modules",
			 module->release);
		mount_print_alternative();
		return CLI_FAILED;
	}
	cli_fail(command, "the kernel module is not installed for Linux %s", module->release);
	if (!module->headers)
		mount_print_headers(module->release);
	fputs("The package hugemap-dkms brings the module, or, in the source of HugeMap,\n\n"
	      "    make module-install\n\n"
	      "builds and installs it; then this command loads it by itself.\n",
	      stderr);
	mount_print_alternative();
	return CLI_FAILED;
}

int mount_check_module(const struct cli_command *command, bool verbose)
{
	struct module module;
	char output[512];
	int status;

	module_find(&module);
	if (module.loaded)
		return CLI_OK;
	if (module.none)
		return mount_report_no_module(command, &module);
	status = module_load(MODULE_NAME, NULL, output, sizeof(output));
	module_find(&module);
	if (status == 0 && module.loaded) {
		if (verbose)
			printf("the module %s was loaded\n", MODULE_NAME);
		return CLI_OK;
	}
	if (!module.installed)
		return mount_report_no_module(command, &module);
	cli_fail(command, "the kernel module could not be loaded: %s",
		 status == 127 ? "there is no modprobe (package kmod)" :
		 output[0]     ? output :
				 "modprobe does not say why; see dmesg");
	if (strstr(output, "Key was rejected") || strstr(output, "Required key"))
		fputs("This machine loads only signed modules (secure boot): sign it with a key "
		      "that is enrolled by mokutil.\n",
		      stderr);
	else if (strstr(output, "not permitted"))
		fputs("In a container that is for the host to do.\n", stderr);
	mount_print_alternative();
	return CLI_FAILED;
}

/* --- memory --- */

static uint64_t mount_meminfo(const char *field)
{
	unsigned long long kb = 0;

	read_field("/proc/meminfo", field, &kb);
	return (uint64_t)kb << 10;
}

uint64_t mount_total_memory(void)
{
	return mount_meminfo("MemTotal:");
}

uint64_t mount_default_pool(void)
{
	uint64_t pool = mount_total_memory() / 4;

	if (pool < POOL_MIN)
		pool = POOL_MIN;
	return pool >> HUGE_SHIFT << HUGE_SHIFT;
}

/* Free memory in blocks of 2 MB and more; ~0 = unknown. */
static uint64_t mount_free_huge_bytes(void)
{
	FILE *file = fopen("/proc/buddyinfo", "re");
	char *line = NULL;
	uint64_t sum = 0;
	size_t room = 0;

	if (!file)
		return ~0ull;
	while (getline(&line, &room, file) > 0) {
		/* "Node 0, zone   Normal    12     3 ...": free blocks of order 0, 1, ... */
		char *at = strstr(line, "zone");
		unsigned int order;

		at = at ? at + 4 : line;
		at += strspn(at, " ");
		at += strcspn(at, " ");
		for (order = 0;; order++) {
			char *end;
			uint64_t count = strtoull(at, &end, 10);

			if (end == at)
				break;
			at = end;
			if (order + 12 >= HUGE_SHIFT)
				sum += count << (order + 12);
		}
	}
	free(line);
	fclose(file);
	return sum;
}

int mount_check_memory(const struct cli_command *command, uint64_t pool, bool base_pages)
{
	uint64_t room = mount_meminfo("MemAvailable:"), pieces;
	char a[CLI_TEXT], b[CLI_TEXT];

	if (room && pool > room)
		return cli_fail(command,
				"a pool of %s does not fit: %s of memory are available; ask for "
				"less with -o pool=SIZE",
				cli_bytes(a, (double)pool), cli_bytes(b, (double)room));
	pieces = base_pages ? ~0ull : mount_free_huge_bytes();
	if (pool > pieces) {
		printf("Only %s of free memory are in pieces of 2 MB, for a pool of %s: the kernel "
		       "moves pages\ntogether now, which may take a while.\n",
		       cli_bytes(a, (double)pieces), cli_bytes(b, (double)pool));
		fflush(stdout);
		write_line("/proc/sys/vm/compact_memory", "1");
	}
	return CLI_OK;
}
