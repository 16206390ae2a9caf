/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Processes whose mappings are steered.
 *
 * The monitor thread of a process keeps its numbers in a memfd (steer/page.h). The command
 * reads the memfd and does not map it: a process that shrinks its memfd must not be able to
 * crash the command.
 */
#ifndef CLI_PROCESS_H
#define CLI_PROCESS_H

#include <sys/types.h>

#include "page.h"

/**
 * struct process - a process whose mappings are steered
 * @pid: its number here
 * @own_pid: its number in its own PID name space, which is in @page
 * @pidfd: becomes readable when the process ends; -1 = none
 * @name: as ps shows it
 * @fd: the memfd of its monitor thread; -1 = not open
 * @page: the numbers, as read last
 */
struct process {
	pid_t pid;
	unsigned int own_pid;
	int pidfd;
	char name[32];
	int fd;
	struct steer_page page;
};

/**
 * process_open() - find the numbers of a process
 *
 * Return: 0; -ESRCH (no such process), -EACCES (not permitted), -ENOENT (its mappings are not
 * steered), -EPROTO (another version of HugeMap). Undo with process_close().
 */
int process_open(pid_t pid, struct process *process);
void process_close(struct process *process);
/* Read the numbers again; -ESRCH when the process has ended. */
int process_read(struct process *process);
/* Read the numbers again, even if the process has ended: its open memfd stays readable. */
int process_read_last(struct process *process);

/**
 * process_each() - find all processes whose mappings are steered
 * @visit: called with each of them
 *
 * Return: number of such processes whose numbers may not be read.
 */
int process_each(void (*visit)(const struct process *process, void *arg), void *arg);

#endif /* CLI_PROCESS_H */
