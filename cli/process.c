// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Find processes whose mappings are steered, in /proc. */
#include "process.h"
#include "system.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * Replace control characters, which could change the state of the user's terminal. Those from
 * U+0080 to U+009F are two bytes long in UTF-8.
 */
static void process_clean(char *text)
{
	for (; *text; text++) {
		if (iscntrl((unsigned char)*text))
			*text = '?';
		else if ((unsigned char)text[0] == 0xc2 && (text[1] & 0xe0) == 0x80)
			text[0] = text[1] = '?';
	}
}

/* The process can write anything into its memfd, so check every field that is used. */
static int process_read_page(int fd, struct steer_page *page)
{
	uint32_t i;

	if (pread(fd, page, sizeof(*page), 0) != (ssize_t)sizeof(*page) ||
	    page->magic != STEER_MAGIC || page->version != STEER_VERSION)
		return -EPROTO;
	for (i = 0; i < STEER_PAGE_MAPS; i++) {
		struct steer_map *map = &page->maps[i];

		map->path[sizeof(map->path) - 1] = '\0';
		map->why[sizeof(map->why) - 1] = '\0';
		process_clean(map->path);
		process_clean(map->why);
		if (map->pattern >= STEER_PATTERNS)
			map->pattern = STEER_UNKNOWN;
	}
	return 0;
}

/* The number of a process in its own PID name space: the last number of the line NSpid. */
static unsigned int process_own_pid(pid_t pid)
{
	char path[64], line[256];
	unsigned int own = (unsigned int)pid;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	file = fopen(path, "re");
	if (!file)
		return own;
	while (fgets(line, sizeof(line), file)) {
		const char *last;

		if (strncmp(line, "NSpid:", 6))
			continue;
		last = strrchr(line, '\t');
		if (last)
			own = (unsigned int)strtoul(last + 1, NULL, 10);
		break;
	}
	fclose(file);
	return own;
}

static bool process_is_monitor(pid_t pid, const char *thread)
{
	char path[64], name[32] = "";

	/* The main thread of this command has the same name, but is no monitor. */
	if (!isdigit((unsigned char)thread[0]) || atoi(thread) == pid)
		return false;
	snprintf(path, sizeof(path), "/proc/%d/task/%.10s/comm", pid, thread);
	return read_line(path, name, sizeof(name)) && !strcmp(name, STEER_THREAD_NAME);
}

static bool process_is_memfd(int dirfd, const char *name)
{
	static const char memfd[] = "/memfd:" STEER_MEMFD_NAME;
	char link[64];
	ssize_t n = readlinkat(dirfd, name, link, sizeof(link) - 1);

	if (n < 0)
		return false;
	link[n] = '\0';
	return !strncmp(link, memfd, strlen(memfd)) &&
	       (link[strlen(memfd)] == ' ' || link[strlen(memfd)] == '\0');
}

static int process_open_memfd(struct process *process, int dirfd, const char *name)
{
	int fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC), err;

	if (fd < 0)
		return -errno;
	err = process_read_page(fd, &process->page);
	/* The memfd of a child may be inherited from its parent and describe the parent. */
	if (!err && process->page.pid != process->own_pid)
		err = -ENOENT;
	if (err)
		close(fd);
	else
		process->fd = fd;
	return err;
}

/* The monitor thread has a descriptor table of its own, which the program does not share. */
static int process_search_thread(struct process *process, const char *thread)
{
	struct dirent *entry;
	int err = -ENOENT;
	char path[64];
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task/%.10s/fd", process->pid, thread);
	dir = opendir(path);
	if (!dir)
		return errno == EACCES ? -EACCES : -ENOENT;
	while (process->fd < 0 && (entry = readdir(dir)))
		if (process_is_memfd(dirfd(dir), entry->d_name))
			err = process_open_memfd(process, dirfd(dir), entry->d_name);
	closedir(dir);
	return err;
}

int process_open(pid_t pid, struct process *process)
{
	struct dirent *entry;
	int err = -ENOENT;
	char path[64];
	DIR *tasks;

	*process = (struct process){ .pid = pid, .pidfd = -1, .fd = -1 };
	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	tasks = opendir(path);
	if (!tasks)
		return errno == ENOENT ? -ESRCH : -errno;
	while (err == -ENOENT && (entry = readdir(tasks))) {
		if (!process_is_monitor(pid, entry->d_name))
			continue;
		process->own_pid = process_own_pid(pid);
		err = process_search_thread(process, entry->d_name);
	}
	closedir(tasks);
	if (err)
		return err;
	snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	read_line(path, process->name, sizeof(process->name));
	process_clean(process->name);
	process->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	return 0;
}

void process_close(struct process *process)
{
	if (process->pidfd >= 0)
		close(process->pidfd);
	process->pidfd = -1;
	if (process->fd >= 0)
		close(process->fd);
	process->fd = -1;
}

/* A zombie is still in /proc, but has ended. */
static bool process_has_ended(const struct process *process)
{
	struct pollfd poll_fd = { .fd = process->pidfd, .events = POLLIN };
	char path[32];

	if (process->pidfd >= 0)
		return poll(&poll_fd, 1, 0) > 0;
	snprintf(path, sizeof(path), "/proc/%d", process->pid);
	return access(path, F_OK);
}

int process_read_last(struct process *process)
{
	return process_read_page(process->fd, &process->page);
}

int process_read(struct process *process)
{
	return process_has_ended(process) ? -ESRCH : process_read_last(process);
}

int process_each(void (*visit)(const struct process *process, void *arg), void *arg)
{
	DIR *dir = opendir("/proc");
	struct process *process = malloc(sizeof(*process));
	struct dirent *entry;
	int denied = 0;

	while (dir && process && (entry = readdir(dir))) {
		int err;

		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		err = process_open((pid_t)atoi(entry->d_name), process);
		if (!err)
			visit(process, arg);
		else if (err == -EACCES)
			denied++;
		process_close(process);
	}
	free(process);
	if (dir)
		closedir(dir);
	return denied;
}
