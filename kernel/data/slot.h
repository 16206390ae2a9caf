/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* slot.c: the memory of a slot, and of the frames in it. */
#ifndef HUGEMAP_DATA_SLOT_H
#define HUGEMAP_DATA_SLOT_H

#include "data.h"

/**
 * hugemap_slot_take() - allocate the memory of a slot that has none
 * @mount: its page size decides between a huge folio and base pages
 * @slot: the slot
 * @insist: reclaim and compact memory for it; otherwise take free memory only
 *
 * Return: 0 or -ENOMEM.
 */
int hugemap_slot_take(struct hugemap_mount *mount, struct hugemap_slot *slot, bool insist);

/* Free the memory of a slot, if it has any. None of its frames is in use. */
void hugemap_slot_give(struct hugemap_slot *slot);

/* The same when the mount has ended, and no lookup of a frame can be under way. */
void hugemap_slot_end(struct hugemap_slot *slot);

bool hugemap_slot_has_memory(const struct hugemap_slot *slot);

/* Return the folio of a frame without a reference: under RCU, or if the caller owns the frame. */
struct folio *hugemap_frame_folio(struct hugemap_mount *mount, u32 frame);

/**
 * hugemap_frame_prepare() - make sure that a frame has memory of the right kind
 * @mount: the mount
 * @unit: a unit whose frame was just taken
 *
 * A slot that was a huge folio becomes base pages, or the reverse. May sleep.
 *
 * Return: 0 or -ENOMEM.
 */
int hugemap_frame_prepare(struct hugemap_mount *mount, const struct hm_unit *unit);

/*
 * The folio of a frame was orphaned: the frame has no memory until hugemap_frame_prepare()
 * allocates some. This cannot fail and allocates nothing.
 */
void hugemap_frame_empty(struct hugemap_mount *mount, const struct hm_unit *unit);

/* A unit has left the cache and its frame is still claimed: discard poisoned memory. */
void hugemap_frame_check(struct hugemap_mount *mount, const struct hm_unit *unit);

#endif /* HUGEMAP_DATA_SLOT_H */
