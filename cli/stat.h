/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * hugemap stat: numbers of processes whose mappings are steered, and of mounts of the kernel
 * engine.
 *
 * The monitor thread of a process keeps its numbers in a memfd (steer/page.h). The command
 * reads the memfd and does not map it: a process that shrinks its memfd must not be able to
 * crash the command. Numbers of mounts are in sysfs.
 */
#ifndef CLI_STAT_H
#define CLI_STAT_H

#include <stdbool.h>
#include <sys/types.h>

#include "mounts.h"
#include "page.h"

#define STAT_SHORT_WAIT 0.5 /* seconds; for rates of a mount, without --interval */

/**
 * struct target - a process whose mappings are steered
 * @pid: its number here
 * @own_pid: its number in its own PID name space, which its numbers carry
 * @pidfd: becomes readable when the process ends; -1 = none
 * @name: as ps shows it
 * @fd: the memfd of its monitor thread; -1 = not open
 * @page: the numbers, as read last
 */
struct target {
	pid_t pid;
	unsigned int own_pid;
	int pidfd;
	char name[32];
	int fd;
	struct steer_page page;
};

/* --- stat_find.c --- */

/**
 * stat_open() - find the numbers of a process
 *
 * Return: 0; -ESRCH (no such process), -EACCES (not permitted), -ENOENT (its mappings are not
 * steered), -EPROTO (another version of HugeMap). Undo with stat_close().
 */
int stat_open(pid_t pid, struct target *target);
void stat_close(struct target *target);
/* Read the numbers again; -ESRCH when the process has ended. */
int stat_read(struct target *target);

/**
 * stat_each() - for each process whose mappings are steered
 * @visit: called with the process
 *
 * Return: number of such processes whose numbers may not be read.
 */
int stat_each(void (*visit)(const struct target *target, void *arg), void *arg);

/* --- stat_print.c --- */
struct json_t;
void stat_print(const struct target *target);
struct json_t *stat_json(const struct target *target);
void stat_list_title(void);
void stat_list_print(const struct target *target);
/* Print an object and drop it. @line: on one line, if there will be several. */
void stat_put_json(struct json_t *object, bool line);
void stat_wait(double seconds);

/* --- stat_mount.c --- */

/**
 * struct stat_view - the numbers of a mount at two times
 * @now: as read last
 * @before: as read the time before that
 * @seconds: between @before and @now; 0 = there are no rates
 */
struct stat_view {
	struct mount_numbers now, before;
	double seconds;
};

/* Growth of a number in a second. */
double stat_rate(const struct stat_view *view, enum mount_count count);
double stat_percent(uint64_t part, uint64_t whole);
/* Add all numbers, rates and percentages to an object. */
void stat_add_numbers(struct json_t *object, const struct stat_view *view);
/* Numbers of a mount, again and again; 0 or a negative errno. */
int stat_mount_watch(const char *path, double interval, unsigned long long count, bool json);
/* Print all mounts, and return how many there are; or make a list of objects of them. */
unsigned int stat_mount_list(void);
struct json_t *stat_mount_list_json(void);

#endif /* CLI_STAT_H */
