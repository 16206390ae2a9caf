// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "guard.h"
#include "system.h"
#include "undo.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_FILES 4
#define MAX_MODULES 2

static struct duties {
	char files[MAX_FILES][4200];
	char tree[4200];
	char group[1100];
	char controllers[64];
	char without[16];
	char setting[160];
	char value[32];
	char modules[MAX_MODULES][32];
	char fast_dir[64];
	int zram;
	bool has_zram;
} *duties;

static int pipe_end = -1;
static pid_t guard_pid;

static void guard_restore(void)
{
	int i;

	if (duties->setting[0])
		write_line(duties->setting, duties->value);
	if (duties->group[0])
		group_remove(duties->group);
	if (duties->controllers[0])
		write_line(duties->controllers, duties->without);
	for (i = 0; i < MAX_FILES; i++)
		if (duties->files[i][0])
			unlink(duties->files[i]);
	if (duties->tree[0])
		tree_remove(duties->tree);
	if (duties->has_zram)
		zram_remove(duties->zram, duties->fast_dir);
	for (i = 0; i < MAX_MODULES; i++)
		module_remove(duties->modules[i]);
}

_Noreturn static void guard_main(int fd)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE };
	size_t i;
	char byte;

	setsid();
	for (i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		signal(signals[i], SIG_IGN);
	/* No process writes to the pipe: this returns when its last writing end is closed. */
	while (read(fd, &byte, 1) < 0 && errno == EINTR)
		;
	guard_restore();
	_exit(0);
}

bool guard_start(void)
{
	int fds[2];

	duties = mmap(NULL, sizeof(*duties), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (duties == MAP_FAILED || pipe2(fds, O_CLOEXEC) < 0)
		return false;
	guard_pid = fork();
	if (guard_pid < 0)
		return false;
	if (!guard_pid) {
		close(fds[1]);
		/* A reader that waits for the end of our output must not wait for the guard. */
		close(STDIN_FILENO);
		close(STDOUT_FILENO);
		close(STDERR_FILENO);
		guard_main(fds[0]);
	}
	close(fds[0]);
	pipe_end = fds[1];
	atexit(guard_stop);
	return true;
}

void guard_stop(void)
{
	if (pipe_end < 0)
		return;
	guard_release();
	while (waitpid(guard_pid, NULL, 0) < 0 && errno == EINTR)
		;
}

void guard_release(void)
{
	close(pipe_end);
	pipe_end = -1;
}

void guard_file(const char *path)
{
	int i;

	guard_forget_file(path);
	for (i = 0; i < MAX_FILES && duties->files[i][0]; i++)
		;
	if (i < MAX_FILES)
		snprintf(duties->files[i], sizeof(duties->files[i]), "%s", path);
}

void guard_forget_file(const char *path)
{
	int i;

	for (i = 0; i < MAX_FILES; i++)
		if (!strcmp(duties->files[i], path))
			duties->files[i][0] = '\0';
}

void guard_tree(const char *path)
{
	snprintf(duties->tree, sizeof(duties->tree), "%s", path);
}

void guard_group(const char *path)
{
	snprintf(duties->group, sizeof(duties->group), "%s", path ? path : "");
}

void guard_controllers(const char *path, const char *value)
{
	snprintf(duties->without, sizeof(duties->without), "%s", value);
	snprintf(duties->controllers, sizeof(duties->controllers), "%s", path);
}

void guard_module(const char *name)
{
	int i;

	for (i = 0; i < MAX_MODULES - 1 && duties->modules[i][0]; i++)
		;
	snprintf(duties->modules[i], sizeof(duties->modules[i]), "%s", name);
}

void guard_fast(int zram, const char *dir)
{
	snprintf(duties->fast_dir, sizeof(duties->fast_dir), "%s", dir);
	duties->zram = zram;
	duties->has_zram = true;
}

void guard_setting(const char *path, const char *value)
{
	/* In this order: the guard must not write a value that is not complete. */
	duties->setting[0] = '\0';
	if (!path)
		return;
	snprintf(duties->value, sizeof(duties->value), "%s", value);
	snprintf(duties->setting, sizeof(duties->setting), "%s", path);
}
