/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Streams: sequential readers and writers, recognised by their faults. */
#ifndef HM_STREAM_H
#define HM_STREAM_H

#include "state.h"

/*
 * A stream with this window may bring in the rest of its block at once. A shorter run of pages may
 * be a single record of a program.
 */
#define HM_STREAM_LONG_WINDOW (HM_BLOCK_PAGES / 2)

/* The pages of one fault: a unit, or the piece of it by which a stream advances. */
struct hm_fault_range {
	u64 first, end;
	u32 step; /* base pages per unit; 1 with HM_SIZE_AUTO */
	u32 block_offset; /* of the faulting page in its block; base pages */
	bool auto_size; /* HM_SIZE_AUTO */
	bool huge; /* HM_SIZE_AUTO, and the page is cached in a huge unit */
};

/* --- for the fault path and promotion; these functions may take stream_lock -------------- */

/* Stores to consecutive pages show that a stream writes the block that starts at @pgoff. */
void hm_stream_add_writer(struct hm_file *file, u64 pgoff);

/*
 * The promotion of a block for a long stream has ended. @done: the block is a huge unit now; false:
 * the pages that the promotion should have read are absent again.
 */
void hm_stream_promoted(struct hm_file *file, u64 pgoff, bool done);

/**
 * hm_stream_reaches() - does an access continue a stream?
 * @file: the file
 * @pgoff: the page of a miss; or, with @write, the first page of a block
 * @write: the access is a store to a cached block
 *
 * Return: true if the access continues a stream of at least opts.stream_min faults including this
 * one; with @write, a stream that stores.
 */
bool hm_stream_reaches(struct hm_file *file, u64 pgoff, bool write);

/*
 * Should units of a stream of this file make room only for each other? True if the file is larger
 * than half of the pool, and no frames are free beyond the reclaim target.
 */
bool hm_stream_is_use_once(struct hm_file *file);

/* --- for read-ahead ------------------------------------------------------------------------ */

/* Publish a change of @s for hm_stream_may_continue(). The caller holds stream_lock. */
void hm_stream_publish_span(struct hm_file *file, const struct hm_stream *s);

/* The same, after the slot of @s came into use or became free. The caller holds stream_lock. */
void hm_stream_publish_slot(struct hm_file *file, const struct hm_stream *s);

/* Does a fault probably continue a stream? Takes no lock; hm_stream_find() decides. */
bool hm_stream_may_continue(const struct hm_file *file, const struct hm_fault_range *range);

/* Return the stream that a fault continues, or NULL. The caller holds stream_lock. */
struct hm_stream *hm_stream_find(struct hm_file *file, const struct hm_fault_range *range);

/* Did this CPU note the page of a fault as the next one in sequence? Takes no lock. */
bool hm_stream_noted(const struct hm_file *file, const struct hm_fault_range *range);

/* Note the page after a fault. Return the number of notes that this CPU took before. */
u64 hm_stream_take_note(const struct hm_file *file, const struct hm_fault_range *range);

/* Pass the clock hand over all streams of a file, and end the expired ones. */
void hm_stream_age_all(struct hm_file *file);

/*
 * Start a stream with a fault, in a free slot or in the slot of the next expired stream. @second: a
 * note shows that it is the second fault in sequence. The caller holds stream_lock, and publishes
 * the slot.
 */
struct hm_stream *hm_stream_start(struct hm_file *file, const struct hm_fault_range *range,
				  bool second);

/* Did the stream start at the start of its file, and is it still in the first block? */
bool hm_stream_is_from_start(const struct hm_stream *s);

/* Is the stream long enough to bring in the rest of its block at once? */
bool hm_stream_is_long(const struct hm_stream *s);

#endif /* HM_STREAM_H */
