/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What the engine and `hugemap run` tell each other, and nobody else. */
#ifndef HM_FOR_RUN_H
#define HM_FOR_RUN_H

#include <stdatomic.h>
#include <stdbool.h>

/* stray.c: the mapping at an address is better off with the kernel. It must not wait. */
typedef void stray_fn(void *addr);
extern stray_fn *_Atomic hugemap_stray_tell; /* NULL: nobody wants to know */

/*
 * park.c: while a file is mapped, no other process has it open for writing, and this
 * one stores to it through the engine alone.
 */
extern atomic_bool hugemap_files_are_guarded;

#endif /* HM_FOR_RUN_H */
