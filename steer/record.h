/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The monitor's record of the mappings and the advice, in the page that others read (page.h), and
 * the lines for the user. An entry of the page is NULL where there is no page or no room in it.
 */
#ifndef HM_STEER_RECORD_H
#define HM_STEER_RECORD_H

#include "page.h"
#include "types.h"

/* A copy of standard error is taken for each line that is written. */
extern bool record_verbose;
/* The page; NULL = none. Set before anything else is done. */
extern struct steer_page *record_page;

/* Returns the entry for a mapping that begins with this content. */
struct steer_map *record_begin(const struct steer_map *content);
/* The mapping has ended. */
void record_end(struct steer_map *told);
/* There was no room for a mapping. */
void record_missed(void);
void record_count(struct steer_map *told, enum steer_act act, u64 bytes);
/* Record the pattern of accesses, unless the program gives advice itself. */
void record_pattern(struct steer_map *told, enum steer_pattern pattern);
/* Record a decision and its reason, in words. */
void record_why(struct steer_map *told, const char *what, const char *why);

#endif /* HM_STEER_RECORD_H */
