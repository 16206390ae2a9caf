/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * For tests of calls that move or unmap a mapping while the monitor works. The program is linked
 * with --wrap=watch_wait_advice and --wrap=act_sync_all.
 */
#ifndef STEER_TEST_BESIDE_H
#define STEER_TEST_BESIDE_H

#include "common.h"

#include "map.h"

/* The thread that calls mremap() or munmap() calls this function once, just before the call. */
extern void (*in_move)(void);
/* The monitor waits after it has taken all its advice back, and before it ends. */
extern bool holds_end;
/* The monitor waits. */
extern bool is_held;

/* End the monitor, and let another one begin. */
void stop(void);
/* The monitor takes no event and gives no advice until release_monitor(), which waits for both. */
void hold_monitor(void);
void release_monitor(void);
/* Put events that change nothing, until the ring has room for so many others. */
void fill_ring(uint32_t left);
/* The first mapping counts as advised. */
void give_first_advice(void);

/* Map a file, and read it in order until the monitor gives advice for the whole mapping. */
char *map_advised(int fd);
bool is_advised(const char *at);
/* Reserve addresses for one mapping, or for two mappings, of the whole file. */
char *reserve(void);
char *reserve_two(void);
/* Move a mapping, or a part of it, to other addresses. Returns its new address. */
char *move(char *at, size_t bytes);
/* Map a half of the file, and report that. */
void map_half(int fd, char *at, size_t offset);
/*
 * Map a file by two calls, and read it until both parts have the same advice of the monitor. The
 * kernel joins them to one area then.
 */
char *map_by_halves(char *at);
/* The program maps memory there, and gives advice for it. */
void map_advised_memory(char *at);
/* Does the area that contains an address have a flag in a child of fork()? */
bool child_has_flag(const char *at, const char *flag);

#endif /* STEER_TEST_BESIDE_H */
