/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The monitor's record of the mappings and the advice, in the page that other processes read
 * (page.h), and lines for the user on standard error. Each mapping has an entry in the page (struct
 * steer_map). The entry is NULL if there is no page, or if no entry was free, and then these
 * functions do nothing.
 */
#ifndef HM_STEER_RECORD_H
#define HM_STEER_RECORD_H

#include "page.h"
#include "types.h"

/* Print each decision on the program's standard error. */
extern bool record_verbose;
/* The rank of the process in an MPI program, for these lines; "" = none. */
extern const char *record_rank;
/* The page; NULL = none yet. */
extern struct steer_page *record_page;

/* Take a free entry for a new mapping, and fill it with @content. NULL = no entry is free. */
struct steer_map *record_begin(const struct steer_map *content);
/* Mark the entry of a mapping as ended. */
void record_end(struct steer_map *told);
/* Count a mapping for which no entry was free. */
void record_missed(void);
void record_count(struct steer_map *told, enum steer_act act, u64 bytes);
/* Record the pattern of accesses, unless the program has given hints. */
void record_pattern(struct steer_map *told, enum steer_pattern pattern);
/*
 * Record the result of a system call for a scan or for advice. Only a filter of system calls, which
 * the program has installed by its own system call instruction, makes the kernel refuse these
 * calls.
 */
void record_result(long result);
/* Record that a mapping is not steered, and the reason. */
void record_not_steered(struct steer_map *told, const char *why);
/* Record a decision and its reason, in words. */
void record_why(struct steer_map *told, const char *what, const char *why);

#endif /* HM_STEER_RECORD_H */
