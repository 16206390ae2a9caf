/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* miss.c: faults that have to wait. */
#ifndef HUGEMAP_DATA_MISS_H
#define HUGEMAP_DATA_MISS_H

#include "data.h"

/**
 * hugemap_miss() - wait until a fault can be served
 * @vmf: the fault
 * @again: the cache core has counted this fault already
 * @store: it is a store to a shared mapping, and fault_may_store() has failed or the page is
 *	not cached
 * @started: local_clock() at the start of the fault
 *
 * Return: 0 if the caller, which still holds the fault lock, should look again; otherwise the
 * value that the fault returns. With VM_FAULT_RETRY the fault lock is dropped and the VMA must
 * not be used.
 */
vm_fault_t hugemap_miss(struct vm_fault *vmf, bool again, bool store, u64 started);

#endif /* HUGEMAP_DATA_MISS_H */
