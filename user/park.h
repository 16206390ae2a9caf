/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What `hugemap run` tells the engine, and nobody else does; see park.c. */
#ifndef HM_PARK_H
#define HM_PARK_H

#include <stdatomic.h>
#include <stdbool.h>

/*
 * While a file is mapped, no other process has it open for writing, and this one
 * stores to it through the engine alone.
 */
extern atomic_bool hugemap_files_are_guarded;

#endif /* HM_PARK_H */
