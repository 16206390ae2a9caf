/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * kernel/cache/port.h for the simulator of the pool engine: that of the core's simulator, with
 * faults where the engine touches what is moved about.
 */
#ifndef HM_USER_SIM_PORT_H
#define HM_USER_SIM_PORT_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../../sim/hm_port_impl.h"

/* memory.c */
void memory_engine_touch(const void *at, size_t bytes);
void memory_engine_copy(void *to, const void *from, size_t bytes);
#define hm_touch(at, bytes) memory_engine_touch(at, bytes)
#define hm_copy(to, from, bytes) memory_engine_copy(to, from, bytes)

#endif /* HM_USER_SIM_PORT_H */
