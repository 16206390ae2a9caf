/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * With the linker option --wrap=look, calls of look() go to __wrap_look(), and __real_look() is the
 * original. The same holds for the other functions here.
 */
#ifndef STEER_TEST_WRAP_H
#define STEER_TEST_WRAP_H

#include "act.h"
#include "area.h"
#include "events.h"
#include "look.h"
#include "state.h"

uint64_t __real_look(const struct looker *looker, uint64_t start, uint64_t end, uint64_t base,
		     unsigned long *seen, struct hm_touch *runs, uint32_t *n, uint64_t *huge);

uint64_t __wrap_look(const struct looker *looker, uint64_t start, uint64_t end, uint64_t base,
		     unsigned long *seen, struct hm_touch *runs, uint32_t *n, uint64_t *huge);

bool __real_device_is_local(uint64_t dev);
bool __wrap_device_is_local(uint64_t dev);

bool __real_area_find(uint64_t address, struct area *area);
bool __wrap_area_find(uint64_t address, struct area *area);

bool __real_event_put(const struct event *event);
bool __wrap_event_put(const struct event *event);

uint32_t __real_events_word(void);
uint32_t __wrap_events_word(void);

void __real_events_sleep(uint32_t word, uint64_t ns, enum sleep kind);
void __wrap_events_sleep(uint32_t word, uint64_t ns, enum sleep kind);

void __real_watch_wait_advice(uint64_t start, uint64_t bytes);
void __wrap_watch_wait_advice(uint64_t start, uint64_t bytes);

void __real_map_find_parts(struct map_parts *parts, uint64_t start, uint64_t end);
void __wrap_map_find_parts(struct map_parts *parts, uint64_t start, uint64_t end);

bool __real_state_change(enum state from, enum state to);
bool __wrap_state_change(enum state from, enum state to);

bool __real_act_sync_all(void);
bool __wrap_act_sync_all(void);

bool __wrap_act_may_read(void);
bool __wrap_act_mark_accessed(const struct map *map, u64 start, u64 end);

#endif /* STEER_TEST_WRAP_H */
