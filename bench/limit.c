// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "limit.h"
#include "guard.h"
#include "system.h"
#include "undo.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#define PATH_BYTES 1024

/* The names of the same files in the two versions of control groups. */
struct version {
	const char *kind;
	const char *limit;
	const char *swap_limit;
	const char *peak;
};

static const struct version v1 = {
	.kind = "cgroup v1",
	.limit = "memory.limit_in_bytes",
	.swap_limit = "memory.memsw.limit_in_bytes",
	.peak = "memory.max_usage_in_bytes",
};

static const struct version v2 = {
	.kind = "cgroup v2",
	.limit = "memory.max",
	.swap_limit = "memory.swap.max",
	.peak = "memory.peak",
};

struct limits {
	const struct version *version; /* NULL = no group can be made */
	char above[PATH_BYTES]; /* the group below which the benchmark makes its groups */
	char group[PATH_BYTES + 48]; /* the current group; "" = none */
	unsigned int serial;
	char why[160];
	const char *setting; /* path of read_ahead_kb; "" = none */
	char found[16]; /* value of @setting at the start; "" = unknown */
	bool changeable;
};

/* --- groups --- */

static bool limits_write(const struct limits *limits, const char *file, const char *value)
{
	char path[PATH_BYTES + 96];

	snprintf(path, sizeof(path), "%s/%s", limits->group, file);
	return write_line(path, value);
}

static bool limits_make_group(struct limits *limits, uint64_t bytes, bool swap)
{
	char value[32];

	snprintf(limits->group, sizeof(limits->group), "%s/hugemap-bench.%d.%u", limits->above,
		 getpid(), limits->serial++);
	snprintf(value, sizeof(value), "%llu", (unsigned long long)bytes);
	guard_group(limits->group);
	if (mkdir(limits->group, 0755) == 0 &&
	    limits_write(limits, limits->version->limit, value)) {
		/*
		 * Without a limit of swap, swapped memory would not count. This fails on a machine
		 * without swap, which does no harm.
		 */
		if (!swap)
			limits_write(limits, limits->version->swap_limit,
				     limits->version == &v2 ? "0" : value);
		return true;
	}
	rmdir(limits->group);
	limits->group[0] = '\0';
	guard_group(NULL);
	return false;
}

/* Find where a hierarchy is mounted. */
static bool limits_find_hierarchy(const char *type, const char *option, char mount[PATH_BYTES])
{
	FILE *file = fopen("/proc/self/mountinfo", "re");
	char line[4096];
	bool found = false;

	if (!file)
		return false;
	while (!found && fgets(line, sizeof(line), file)) {
		char fs_type[32], options[512];
		const char *rest = strstr(line, " - ");

		found = rest && sscanf(line, "%*s %*s %*s %*s %1023s", mount) == 1 &&
			sscanf(rest, " - %31s %*s %511s", fs_type, options) == 2 &&
			!strcmp(fs_type, type) && (!option || strstr(options, option));
	}
	fclose(file);
	return found;
}

static void limits_find_own(const char *controller, const char *mount, char own[PATH_BYTES])
{
	FILE *file = fopen("/proc/self/cgroup", "re");
	char line[PATH_BYTES];

	snprintf(own, PATH_BYTES, "%s", mount);
	if (!file)
		return;
	while (fgets(line, sizeof(line), file)) {
		char *names = strchr(line, ':');
		char *group = names ? strchr(names + 1, ':') : NULL;

		if (!group)
			continue;
		*group++ = '\0';
		group[strcspn(group, "\n")] = '\0';
		if (strcmp(names + 1, controller))
			continue;
		if (snprintf(own, PATH_BYTES, "%s%s", mount, strcmp(group, "/") ? group : "") >=
			    PATH_BYTES ||
		    access(own, F_OK))
			snprintf(own, PATH_BYTES, "%s", mount); /* as in a container */
	}
	fclose(file);
}

static bool limits_try_version(struct limits *limits, const struct version *version,
			       const char *type, const char *controller)
{
	char mount[PATH_BYTES];

	if (!limits_find_hierarchy(type, *controller ? controller : NULL, mount))
		return false;
	limits->version = version;
	limits_find_own(controller, mount, limits->above);
	/*
	 * Make the group below the group of this process if possible, otherwise below one of its
	 * ancestors.
	 */
	for (;;) {
		if (limits_make_group(limits, 1ull << 30, false)) {
			limits_end(limits);
			return true;
		}
		if (strlen(limits->above) <= strlen(mount))
			break;
		*strrchr(limits->above, '/') = '\0';
	}
	limits->version = NULL;
	return false;
}

static int own_hierarchy = -1; /* the guard inherits it */

void limits_prepare(void)
{
	char mount[PATH_BYTES];
	int fd;

	if (geteuid() || limits_find_hierarchy("cgroup2", NULL, mount) ||
	    limits_find_hierarchy("cgroup", "memory", mount))
		return;
	fd = fsopen("cgroup2", FSOPEN_CLOEXEC);
	if (fd < 0)
		return;
	if (!fsconfig(fd, FSCONFIG_CMD_CREATE, NULL, NULL, 0))
		own_hierarchy = fsmount(fd, FSMOUNT_CLOEXEC, 0);
	close(fd);
}

/*
 * Wait until no other benchmark of this device runs. Otherwise this one could take the changed
 * setting of the other for the original, and restore that at its end. The guard inherits the locked
 * file, and restores the setting before another benchmark gets the lock.
 */
void limits_lock(const struct volume *volume)
{
	int fd = volume->read_ahead_path[0] ? open(volume->read_ahead_path, O_RDONLY | O_CLOEXEC) :
					      -1;

	if (fd < 0 || !flock(fd, LOCK_EX | LOCK_NB) || errno != EWOULDBLOCK)
		return;
	fprintf(stderr, "hugemap bench: waiting for another benchmark on %s\n", volume->device);
	while (flock(fd, LOCK_EX) < 0 && errno == EINTR)
		;
}

static bool limits_try_own_hierarchy(struct limits *limits)
{
	char path[PATH_BYTES + 96], enabled[256] = "";

	if (own_hierarchy < 0)
		return false;
	snprintf(limits->above, sizeof(limits->above), "/proc/self/fd/%d", own_hierarchy);
	snprintf(path, sizeof(path), "%s/cgroup.subtree_control", limits->above);
	read_line(path, enabled, sizeof(enabled));
	if (!strstr(enabled, "memory")) {
		if (!write_line(path, "+memory"))
			return false;
		guard_controllers(path, "-memory");
	}
	limits->version = &v2;
	if (limits_make_group(limits, 1ull << 30, false)) {
		limits_end(limits);
		return true;
	}
	limits->version = NULL;
	return false;
}

struct limits *limits_create(const struct volume *volume)
{
	struct limits *limits = calloc(1, sizeof(*limits));

	if (!limits)
		return NULL;
	if (!limits_try_version(limits, &v2, "cgroup2", "") &&
	    !limits_try_version(limits, &v1, "cgroup", "memory") &&
	    !limits_try_own_hierarchy(limits))
		snprintf(limits->why, sizeof(limits->why),
			 "no memory control group can be made here%s: the page cache may use all "
			 "memory",
			 geteuid() ? " (root could)" : "");
	limits->setting = volume->read_ahead_path;
	if (*limits->setting)
		read_line(limits->setting, limits->found, sizeof(limits->found));
	/* Writing the current value changes nothing, and shows whether it can be written. */
	limits->changeable = limits->found[0] && write_line(limits->setting, limits->found);
	return limits;
}

void limits_destroy(struct limits *limits)
{
	if (!limits)
		return;
	limits_end(limits);
	limits_restore_read_ahead(limits);
	free(limits);
}

const char *limits_kind(const struct limits *limits)
{
	return limits->version ? limits->version->kind : "none";
}

const char *limits_why(const struct limits *limits)
{
	return limits->why;
}

bool limits_work(const struct limits *limits)
{
	return limits->version;
}

bool limits_begin(struct limits *limits, uint64_t bytes, bool swap)
{
	return !limits->version || limits_make_group(limits, bytes, swap);
}

bool limits_join(const struct limits *limits)
{
	return !limits->group[0] || limits_write(limits, "cgroup.procs", "0");
}

uint64_t limits_peak(const struct limits *limits)
{
	char path[PATH_BYTES + 96];
	unsigned long long bytes = 0;

	if (!limits->group[0])
		return 0;
	snprintf(path, sizeof(path), "%s/%s", limits->group, limits->version->peak);
	return read_field(path, "", &bytes) ? bytes : 0;
}

void limits_end(struct limits *limits)
{
	if (!limits->group[0])
		return;
	group_remove(limits->group);
	limits->group[0] = '\0';
	guard_group(NULL);
}

/* --- read-ahead --- */

unsigned int limits_read_ahead(const struct limits *limits)
{
	return (unsigned int)strtoul(limits->found, NULL, 10);
}

bool limits_can_read_ahead(const struct limits *limits)
{
	return limits->changeable;
}

bool limits_try_stock(const struct limits *limits)
{
	return limits->changeable && limits_read_ahead(limits) != STOCK_READ_AHEAD_KB;
}

bool limits_set_read_ahead(struct limits *limits, unsigned int kb)
{
	char value[16];

	snprintf(value, sizeof(value), "%u", kb);
	guard_setting(limits->setting, limits->found);
	return write_line(limits->setting, value);
}

void limits_restore_read_ahead(struct limits *limits)
{
	if (!limits->changeable)
		return;
	write_line(limits->setting, limits->found);
	guard_setting(NULL, NULL);
}
