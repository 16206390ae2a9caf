/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Carrying advice out, and telling what was done. */
#ifndef HM_STEER_ACT_H
#define HM_STEER_ACT_H

#include "map.h"

/* A mapping came (there may be no room to tell of it), or goes. */
void act_begin(struct map *map);
void act_end(struct map *map);
void act_missed(void);
/* The program has advised there: what is ours of another kind is taken back. */
void act_hinted(struct map *map, u64 start, u64 end, int advice);
/* It was moved: what was advised came along, and is taken back. */
void act_moved(struct map *map, const struct map *old);
/* All that was advised is taken back: nobody will look any more. */
void act_take_back(struct map *map);

/* Find out what a mapping's file is, and who had it cached; hold it if it is written. */
void act_settle(struct map *map, int pidfd);

/* Does the program write what it stores by itself? Asked a few times, as more is touched. */
void act_judge(struct map *map);

/* All that the advisor said in its last look. */
void act_advices(struct map *map);

/* For verbose lines: a descriptor in the watcher's table, -1 = none. */
extern int act_verbose_fd;
/* Where it is told; NULL = nowhere. Set before anything else is done. */
extern struct steer_page *act_page;
/* Time that was spent carrying advice out, and processor time of that. */
extern u64 act_ns, act_cpu_ns;

#endif /* HM_STEER_ACT_H */
