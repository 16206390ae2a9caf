/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * hugemap stat: a program that uses HugeMap keeps its numbers in a memfd for
 * each pool, and one for what is steered. They are read, not mapped: a program that
 * shrinks its memfd must not be able to crash us. A mount of the kernel engine has them
 * in sysfs.
 */
#ifndef CLI_STAT_H
#define CLI_STAT_H

#include <stdbool.h>
#include <sys/types.h>

#include "hugemap.h"
#include "mounts.h"
#include "page.h"
#include "stats.h"

#define STAT_MAX_POOLS 16
#define STAT_SHORT_WAIT 0.5 /* seconds; for rates, when no interval is given */

/**
 * struct pool_file - the statistics of a pool of a process
 * @fd: open for reading, at offset 0
 * @now: as read last
 * @before: as read the time before that
 */
struct pool_file {
	int fd;
	struct stats now;
	struct stats before;
};

/**
 * struct target - a process to look at
 * @pid: its number here
 * @own_pid: its number in its own PID namespace, which its statistics carry
 * @pidfd: tells when it has ended; -1 = none
 * @name: as ps shows it
 * @pools: see struct pool_file
 * @steer_fd: what the watcher of its mappings tells; -1 = it has none
 * @steer: that, as read last
 * @seconds: between .before and .now
 */
struct target {
	pid_t pid;
	unsigned int own_pid;
	int pidfd;
	char name[32];
	unsigned int npools;
	struct pool_file pools[STAT_MAX_POOLS];
	int steer_fd;
	struct steer_page steer;
	double seconds;
};

/* --- stat_find.c --- */

/**
 * stat_open() - find the pools of a process
 *
 * Return: 0; -ESRCH (no such process), -EACCES (not permitted), -ENOENT (it does
 * not use HugeMap), -EPROTO (another version of HugeMap). Undo with stat_close().
 */
int stat_open(pid_t pid, struct target *target);
void stat_close(struct target *target);
/* Read the numbers again; -ESRCH when the process has ended. */
int stat_read(struct target *target);

/**
 * stat_each() - for each process that uses HugeMap
 * @visit: called with the process
 *
 * Return: processes that could not be looked into.
 */
int stat_each(void (*visit)(const struct target *target, void *arg), void *arg);

/**
 * struct stat_view - the numbers of a pool or a mount, ready to be shown
 * @engine: "pool", "kernel"
 * @io: how it does its I/O; "" = in the one way that it has
 * @now: as read last
 * @before: as read the time before that
 * @seconds: between @before and @now; 0 = there are no rates
 * @age: seconds since the program last told
 * @mappings: that use it
 * @io_depth: I/O operations under way
 * @count: what only a mount counts, see enum mount_count; NULL for a process
 */
struct stat_view {
	const char *engine;
	const char *io;
	struct hugemap_stat now;
	struct hugemap_stat before;
	double seconds;
	double age;
	uint64_t mappings;
	uint64_t io_depth;
	const uint64_t *count;
};

/* A number that grows, in units a second; a field of struct hugemap_stat. */
#define STAT_RATE(view, field) stat_rate(view, (view)->now.field, (view)->before.field)
double stat_rate(const struct stat_view *view, uint64_t now, uint64_t before);
double stat_percent(uint64_t part, uint64_t whole);

/* --- stat_print.c --- */
struct json_t;
void stat_view_of_pool(const struct pool_file *pool, double seconds, struct stat_view *view);
void stat_view_print(const struct stat_view *view);
struct json_t *stat_view_json(const struct stat_view *view);
void stat_print(const struct target *target);
struct json_t *stat_json(const struct target *target);
void stat_list_title(void);
void stat_list_print(const struct target *target);
/* With one object a line, if there will be several. */
void stat_put_json(struct json_t *object, bool line);
void stat_wait(double seconds); /* between two */

/* --- stat_mount.c --- */
void stat_view_of_mount(const struct mount_numbers *now, const struct mount_numbers *before,
			uint64_t mappings, double seconds, struct stat_view *view);
/* Numbers of a mount, again and again; 0 or a negative errno. */
int stat_mount_watch(const char *path, double interval, unsigned long long count, bool json);
/* All mounts: on standard output, and returns how many; or as a list of objects. */
unsigned int stat_mount_list(void);
struct json_t *stat_mount_list_json(void);

#endif /* CLI_STAT_H */
