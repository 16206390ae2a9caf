// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Finding the statistics of processes, below /proc. */
#include "stat.h"
#include "system.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>


static bool is_link_of(int dirfd, const char *name, const char *memfd)
{
	char link[64], wanted[64];
	ssize_t n = readlinkat(dirfd, name, link, sizeof(link) - 1);

	if (n < 0)
		return false;
	link[n] = '\0';
	snprintf(wanted, sizeof(wanted), "/memfd:%s", memfd);
	return !strncmp(link, wanted, strlen(wanted)) &&
	       (link[strlen(wanted)] == ' ' || link[strlen(wanted)] == '\0');
}

/* 0, or -ESRCH, or -EPROTO if it is not what this version of HugeMap writes. */
static int read_stats(int fd, struct stats *stats)
{
	ssize_t n = pread(fd, stats, sizeof(*stats), 0);

	if (n != (ssize_t)sizeof(*stats) || stats->magic != STATS_MAGIC ||
	    stats->version != STATS_VERSION || stats->bytes != sizeof(*stats))
		return -EPROTO;
	stats->engine[sizeof(stats->engine) - 1] = '\0';
	stats->io[sizeof(stats->io) - 1] = '\0';
	return 0;
}

/* The same pool may be open under several descriptors. */
static bool is_known(const struct target *target, int fd)
{
	struct stat st, other;
	unsigned int i;

	if (fstat(fd, &st) < 0)
		return true;
	for (i = 0; i < target->npools; i++)
		if (!fstat(target->pools[i].fd, &other) && other.st_ino == st.st_ino &&
		    other.st_dev == st.st_dev)
			return true;
	return false;
}

static int add_pool(struct target *target, int dirfd, const char *name)
{
	struct pool_file *pool = &target->pools[target->npools];
	int err;

	if (target->npools == STAT_MAX_POOLS)
		return 0;
	pool->fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC);
	if (pool->fd < 0)
		return -errno;
	err = is_known(target, pool->fd) ? -EEXIST : read_stats(pool->fd, &pool->now);
	/* A child has its parent's descriptors, but not the parent's pools. */
	if (!err && pool->now.pid != target->own_pid)
		err = -EEXIST;
	if (err) {
		close(pool->fd);
		return err;
	}
	pool->before = pool->now;
	target->npools++;
	return 0;
}

/* Its mappings, if they are steered. */
static int read_steer(int fd, struct steer_page *page)
{
	uint32_t i;

	if (pread(fd, page, sizeof(*page), 0) != (ssize_t)sizeof(*page) ||
	    page->magic != STEER_MAGIC || page->version != STEER_VERSION)
		return -EPROTO;
	for (i = 0; i < STEER_PAGE_MAPS; i++) {
		struct steer_map *map = &page->maps[i];

		map->path[sizeof(map->path) - 1] = '\0';
		map->why[sizeof(map->why) - 1] = '\0';
		if (map->pattern >= STEER_PATTERNS)
			map->pattern = STEER_UNKNOWN;
	}
	return 0;
}

static void add_steer(struct target *target, int dirfd, const char *name)
{
	int fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	if (target->steer_fd < 0 && !read_steer(fd, &target->steer) &&
	    target->steer.pid == target->own_pid)
		target->steer_fd = fd;
	else
		close(fd);
}

/* In a container it has another number: the last one in its status. */
static unsigned int own_pid(pid_t pid)
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

/* The watcher is a thread with a table of descriptors of its own. */
static void find_steer(struct target *target)
{
	char path[64], name[32];
	struct dirent *task, *entry;
	DIR *tasks, *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", target->pid);
	tasks = opendir(path);
	while (tasks && target->steer_fd < 0 && (task = readdir(tasks))) {
		if (!isdigit((unsigned char)task->d_name[0]))
			continue;
		snprintf(path, sizeof(path), "/proc/%d/task/%.10s/comm", target->pid, task->d_name);
		name[0] = '\0';
		read_line(path, name, sizeof(name));
		if (strcmp(name, STEER_THREAD_NAME))
			continue;
		snprintf(path, sizeof(path), "/proc/%d/task/%.10s/fd", target->pid, task->d_name);
		dir = opendir(path);
		while (dir && (entry = readdir(dir)))
			if (is_link_of(dirfd(dir), entry->d_name, STEER_MEMFD_NAME))
				add_steer(target, dirfd(dir), entry->d_name);
		if (dir)
			closedir(dir);
	}
	if (tasks)
		closedir(tasks);
}

int stat_open(pid_t pid, struct target *target)
{
	char path[64];
	struct dirent *entry;
	int err, first_err = 0;
	DIR *dir;

	*target = (struct target){
		.pid = pid,
		.own_pid = own_pid(pid),
		.pidfd = -1,
		.steer_fd = -1,
	};
	snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	read_line(path, target->name, sizeof(target->name));
	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	dir = opendir(path);
	if (!dir)
		return errno == ENOENT ? -ESRCH : -errno;
	while ((entry = readdir(dir))) {
		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		if (!is_link_of(dirfd(dir), entry->d_name, STATS_MEMFD_NAME))
			continue;
		err = add_pool(target, dirfd(dir), entry->d_name);
		if (err && err != -EEXIST && !first_err)
			first_err = err;
	}
	closedir(dir);
	find_steer(target);
	if (target->npools || target->steer_fd >= 0) {
		target->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
		return 0;
	}
	return first_err ? first_err : -ENOENT;
}

void stat_close(struct target *target)
{
	unsigned int i;

	if (target->pidfd >= 0)
		close(target->pidfd);
	target->pidfd = -1;
	for (i = 0; i < target->npools; i++)
		close(target->pools[i].fd);
	target->npools = 0;
	if (target->steer_fd >= 0)
		close(target->steer_fd);
	target->steer_fd = -1;
}

/* A process that nobody has waited for is still in /proc, but has ended. */
static bool has_ended(const struct target *target)
{
	struct pollfd poll_fd = { .fd = target->pidfd, .events = POLLIN };
	char path[32];

	if (target->pidfd >= 0)
		return poll(&poll_fd, 1, 0) > 0;
	snprintf(path, sizeof(path), "/proc/%d", target->pid);
	return access(path, F_OK);
}

int stat_read(struct target *target)
{
	unsigned int i;
	int err;

	/* The memfd outlives the process while we have it open. */
	if (has_ended(target))
		return -ESRCH;
	for (i = 0; i < target->npools; i++) {
		struct pool_file *pool = &target->pools[i];

		pool->before = pool->now;
		err = read_stats(pool->fd, &pool->now);
		if (err)
			return err;
	}
	return target->steer_fd >= 0 ? read_steer(target->steer_fd, &target->steer) : 0;
}

int stat_each(void (*visit)(const struct target *target, void *arg), void *arg)
{
	DIR *dir = opendir("/proc");
	struct target *target = malloc(sizeof(*target));
	struct dirent *entry;
	int closed = 0;

	while (dir && target && (entry = readdir(dir))) {
		int err;

		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		err = stat_open((pid_t)atoi(entry->d_name), target);
		if (!err)
			visit(target, arg);
		else if (err == -EACCES || err == -EPERM)
			closed++;
		stat_close(target);
	}
	free(target);
	if (dir)
		closedir(dir);
	return closed;
}
