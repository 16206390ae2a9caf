/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * hugemap stat: a program that uses HugeMap keeps its numbers in a memfd for
 * each pool. They are read, not mapped: a program that shrinks its memfd must
 * not be able to crash us.
 */
#ifndef CLI_STAT_H
#define CLI_STAT_H

#include <stdbool.h>
#include <sys/types.h>

#include "hugemap.h"
#include "stats.h"

#define STAT_MAX_POOLS 16

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
 * @seconds: between .before and .now
 */
struct target {
	pid_t pid;
	unsigned int own_pid;
	int pidfd;
	char name[32];
	unsigned int npools;
	struct pool_file pools[STAT_MAX_POOLS];
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

/* --- stat_print.c --- */
struct json_t;
void stat_print(const struct target *target);
struct json_t *stat_json(const struct target *target);
void stat_list_title(void);
void stat_list_print(const struct target *target);

#endif /* CLI_STAT_H */
