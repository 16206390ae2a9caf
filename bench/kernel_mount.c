// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * A mount of the kernel engine for one run. It is attached to no directory, so no other process
 * sees it, and it ends with the run, for whatever reason the run ends.
 */
#include "kernel_mount.h"
#include "guard.h"
#include "module.h"
#include "system.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#define TRIED_POOL (16 * MB) /* enough to see whether it works */

/* The last error that the kernel has reported about a file system context. */
static bool kernel_read_error(int fd, char *why, size_t size)
{
	static const char prefix[] = "hugemap: ";
	char line[512];
	bool found = false;
	ssize_t n;

	/* Each message is a letter, a blank and the text. */
	while ((n = read(fd, line, sizeof(line) - 1)) > 2) {
		const char *text = line + 2;

		line[n] = '\0';
		line[strcspn(line, "\n")] = '\0';
		if (!strncmp(text, prefix, strlen(prefix)))
			text += strlen(prefix);
		if (line[0] != 'e')
			continue;
		snprintf(why, size, "%s", text);
		found = true;
	}
	return found;
}

static int kernel_create(const char *dir, enum hugemap_page page, uint64_t pool_bytes, int *fd)
{
	char pool[32];

	*fd = fsopen(MODULE_NAME, FSOPEN_CLOEXEC);
	if (*fd < 0)
		return -errno;
	snprintf(pool, sizeof(pool), "%lluK", (unsigned long long)pool_bytes >> 10);
	if (fsconfig(*fd, FSCONFIG_SET_STRING, "source", dir, 0) < 0 ||
	    fsconfig(*fd, FSCONFIG_SET_STRING, "pool", pool, 0) < 0 ||
	    fsconfig(*fd, FSCONFIG_SET_STRING, "page", hugemap_page_names[page], 0) < 0 ||
	    fsconfig(*fd, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return -errno;
	return 0;
}

int bench_mount(const char *dir, enum hugemap_page page, uint64_t pool_bytes, char *why,
		size_t size)
{
	int fd, point = -1, err = kernel_create(dir, page, pool_bytes, &fd);

	if (err == -ENOMEM) {
		/* Other runs may have fragmented the memory: compact it and try again. */
		close(fd);
		write_line("/proc/sys/vm/compact_memory", "1");
		err = kernel_create(dir, page, pool_bytes, &fd);
	}
	if (!err) {
		point = fsmount(fd, FSMOUNT_CLOEXEC, 0);
		err = point < 0 ? -errno : 0;
	}
	if (err && (fd < 0 || !kernel_read_error(fd, why, size)))
		snprintf(why, size, "%s", strerror(-err));
	if (fd >= 0)
		close(fd);
	return point;
}

/* --- test of the kernel engine --- */

static const char *kernel_load_module(void)
{
	static char why[256];
	char error[128] = "";
	struct module module;

	module_find(&module);
	if (module.loaded)
		return NULL;
	if (!module.none) {
		module_load(MODULE_NAME, NULL, error, sizeof(error));
		module_find(&module);
	}
	if (module.loaded) {
		guard_module(MODULE_NAME);
		return NULL;
	}
	if (module.none)
		snprintf(why, sizeof(why), "Linux %s, as it was built here, loads no modules",
			 module.release);
	else if (module.installed)
		snprintf(why, sizeof(why), "the module could not be loaded: %s",
			 *error ? error : "modprobe failed");
	else
		snprintf(why, sizeof(why), "the module is not installed for Linux %s",
			 module.release);
	return why;
}

/* Try a mount in a child process: its mount ends with the child, however the child ends. */
static const char *kernel_try_mount(struct result *shared, const char *dir)
{
	static char why[sizeof(shared->error)];
	int status = 0;
	pid_t pid;

	*shared = (struct result){};
	pid = fork();
	if (pid == 0) {
		guard_release();
		if (bench_mount(dir, HUGEMAP_PAGE_AUTO, TRIED_POOL, shared->error,
				sizeof(shared->error)) < 0 &&
		    !shared->error[0])
			snprintf(shared->error, sizeof(shared->error), "it cannot be mounted");
		_exit(0);
	}
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (pid < 0 || status)
		return "it could not be tried";
	memcpy(why, shared->error, sizeof(why));
	return why[0] ? why : NULL;
}

const char *kernel_unusable(struct result *shared, const struct volume *volume)
{
	const char *why;

	if (geteuid())
		return "only root may mount it";
	if (!strcmp(volume->type, MODULE_NAME))
		return "the directory is on a mount of HugeMap already, which the rows of Linux "
		       "show, too";
	why = kernel_load_module();
	return why ? why : kernel_try_mount(shared, volume->dir);
}
