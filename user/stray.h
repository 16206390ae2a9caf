/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What the engine tells `hugemap run`, and nobody else; see stray.c. */
#ifndef HM_STRAY_H
#define HM_STRAY_H

/* The mapping at an address is better off with the kernel. It must not wait. */
typedef void stray_fn(void *addr);
extern stray_fn *_Atomic hugemap_stray_tell; /* NULL: nobody wants to know */

#endif /* HM_STRAY_H */
