// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Before a mount: what could be wrong, found out while it can still be said well. */
#include "mount.h"
#include "mounts.h"
#include "system.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#define MODULE "hugemap"
#define HUGE_SHIFT 21
#define LEAST_POOL (64ull << 20)

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

static bool tell_mounted(const struct mount_point *point, void *arg)
{
	const dev_t *dev = arg;

	if (point->dev != *dev)
		return true;
	fprintf(stderr, "  it is mounted at %s: unmount it first\n", point->dir);
	return false;
}

/* Mounts of its partitions, what holds it, swap. */
static void tell_parts(const char *name)
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
			mount_points(tell_mounted, &dev);
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
	mount_points(tell_mounted, &st.st_rdev);
	tell_parts(strrchr(path, '/') + 1);
	while (swaps && fscanf(swaps, "%4095s%*[^\n]", swap) == 1)
		if (!strcmp(swap, path))
			fprintf(stderr, "  it is used as swap: swapoff %s first\n", path);
	if (swaps)
		fclose(swaps);
}

/* --- the module --- */

static bool is_loaded(void)
{
	FILE *file = fopen("/proc/filesystems", "re");
	char line[128], name[64];
	bool found = false;

	if (!file)
		return false;
	while (!found && fgets(line, sizeof(line), file)) {
		const char *last = strrchr(line, '\t');

		found = last && sscanf(last, "%63s", name) == 1 && !strcmp(name, MODULE);
	}
	fclose(file);
	return found;
}

/* modules.dep lists what modprobe finds: "updates/dkms/hugemap.ko.xz: ..." */
static bool is_installed(const char *release)
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
		found = !strncmp(name, MODULE ".ko", strlen(MODULE ".ko"));
	}
	free(line);
	fclose(file);
	return found;
}

void mount_find_module(struct mount_module *module)
{
	char path[256];
	struct utsname name;

	uname(&name);
	*module = (struct mount_module){ .loaded = is_loaded() };
	snprintf(module->release, sizeof(module->release), "%s", name.release);
	module->none = access("/proc/modules", F_OK);
	module->installed = is_installed(name.release);
	snprintf(path, sizeof(path), "/lib/modules/%.79s/build/Makefile", module->release);
	module->headers = !access(path, F_OK);
}

/* Runs modprobe; what it complains of goes to @said. Returns its exit status. */
static int run_modprobe(char *said, size_t size)
{
	static char *const argv[] = { "modprobe", MODULE, NULL };
	int pipe_fd[2], status;
	size_t used = 0;
	ssize_t n;
	pid_t pid;

	said[0] = '\0';
	if (pipe2(pipe_fd, O_CLOEXEC) < 0)
		return -1;
	pid = fork();
	if (pid == 0) {
		dup2(pipe_fd[1], STDERR_FILENO);
		/* execvpe() would search our own PATH; the mounts of a boot have none. */
		clearenv();
		setenv("PATH", "/usr/sbin:/usr/bin:/sbin:/bin", 1);
		execvp(argv[0], argv);
		_exit(127);
	}
	close(pipe_fd[1]);
	while (pid > 0 && used + 1 < size &&
	       (n = read(pipe_fd[0], said + used, size - 1 - used)) > 0)
		used += (size_t)n;
	said[used] = '\0';
	said[strcspn(said, "\n")] = '\0';
	close(pipe_fd[0]);
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void tell_alternative(void)
{
	fputs("Without the module, programs can use HugeMap through its library (hugemap_map(3)):\n"
	      "`hugemap doctor` says whether that works here.\n",
	      stderr);
}

/* Debian names its packages after the kernel. */
static void tell_headers(const char *release)
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

static int tell_missing(const struct cli_command *command, const struct mount_module *module)
{
	if (module->none) {
		cli_fail(command, "Linux %s, as it was built here, loads no modules",
			 module->release);
		tell_alternative();
		return CLI_FAILED;
	}
	cli_fail(command, "the kernel module is not installed for Linux %s", module->release);
	if (!module->headers)
		tell_headers(module->release);
	fputs("The package hugemap-dkms brings the module, or, in the source of HugeMap,\n\n"
	      "    make module-install\n\n"
	      "builds and installs it; then this command loads it by itself.\n",
	      stderr);
	tell_alternative();
	return CLI_FAILED;
}

int mount_check_module(const struct cli_command *command, bool verbose)
{
	struct mount_module module;
	char said[512];
	int status;

	mount_find_module(&module);
	if (module.loaded)
		return CLI_OK;
	if (module.none)
		return tell_missing(command, &module);
	status = run_modprobe(said, sizeof(said));
	if (status == 0 && is_loaded()) {
		if (verbose)
			printf("the module %s was loaded\n", MODULE);
		return CLI_OK;
	}
	if (!module.installed)
		return tell_missing(command, &module);
	cli_fail(command, "the kernel module could not be loaded: %s",
		 status == 127 ? "there is no modprobe (package kmod)" :
		 said[0]       ? said :
				 "modprobe does not say why; see dmesg");
	if (strstr(said, "Key was rejected") || strstr(said, "Required key"))
		fputs("This machine loads only signed modules (secure boot): sign it with a key "
		      "that is enrolled by mokutil.\n",
		      stderr);
	else if (strstr(said, "not permitted"))
		fputs("In a container that is for the host to do.\n", stderr);
	tell_alternative();
	return CLI_FAILED;
}

/* --- memory --- */

static uint64_t meminfo(const char *field)
{
	unsigned long long kb = 0;

	read_field("/proc/meminfo", field, &kb);
	return (uint64_t)kb << 10;
}

uint64_t mount_total_memory(void)
{
	return meminfo("MemTotal:");
}

uint64_t mount_default_pool(void)
{
	uint64_t pool = mount_total_memory() / 4;

	if (pool < LEAST_POOL)
		pool = LEAST_POOL;
	return pool >> HUGE_SHIFT << HUGE_SHIFT;
}

/* Free memory in pieces of 2 MB and more; ~0 = it cannot be said. */
static uint64_t free_in_huge_pieces(void)
{
	FILE *file = fopen("/proc/buddyinfo", "re");
	char *line = NULL;
	uint64_t sum = 0;
	size_t room = 0;

	if (!file)
		return ~0ull;
	while (getline(&line, &room, file) > 0) {
		/* "Node 0, zone   Normal    12     3 ...": of order 0, 1, ... */
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
	uint64_t room = meminfo("MemAvailable:"), pieces;
	char a[CLI_TEXT], b[CLI_TEXT];

	if (room && pool > room)
		return cli_fail(command,
				"a pool of %s does not fit: %s of memory are available; ask for "
				"less with -o pool=SIZE",
				cli_bytes(a, (double)pool), cli_bytes(b, (double)room));
	pieces = base_pages ? ~0ull : free_in_huge_pieces();
	if (pool > pieces) {
		printf("Only %s of free memory are in pieces of 2 MB, for a pool of %s: the kernel "
		       "moves pages\ntogether now, which may take a while.\n",
		       cli_bytes(a, (double)pieces), cli_bytes(b, (double)pool));
		fflush(stdout);
		write_line("/proc/sys/vm/compact_memory", "1");
	}
	return CLI_OK;
}
