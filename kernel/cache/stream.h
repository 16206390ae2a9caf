/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Streams: sequential readers and writers, recognised by their faults. */
#ifndef HM_STREAM_H
#define HM_STREAM_H

#include "state.h"

/* From here on, what is left of the block it is in may come at once. Less may be a record. */
#define HM_STREAM_LONG_WINDOW (HM_BLOCK_PAGES / 2)

/* What faults: a unit, or a part of it that is worth one step. */
struct hm_reach {
	u64 first, end;
	u32 step;
	u32 into; /* its block, in pages */
	bool chosen;
	bool whole; /* chosen, and a block */
};

void hm_stream_stores(struct hm_file *file, u64 pgoff);
void hm_stream_promoted(struct hm_file *file, u64 pgoff, bool done);
bool hm_stream_reaches(struct hm_file *file, u64 pgoff, bool files);
bool hm_stream_is_use_once(struct hm_file *file);

void hm_stream_publish_span(struct hm_file *file, const struct hm_stream *s);
void hm_stream_begin_or_end(struct hm_file *file, const struct hm_stream *s);
bool hm_stream_may_continue(const struct hm_file *file, const struct hm_reach *at);
struct hm_stream *hm_stream_find(struct hm_file *file, const struct hm_reach *at);
bool hm_stream_noted(const struct hm_file *file, const struct hm_reach *at);
u64 hm_stream_take_note(const struct hm_file *file, const struct hm_reach *at);
void hm_stream_pass_all(struct hm_file *file);
struct hm_stream *hm_stream_start(struct hm_file *file, const struct hm_reach *at, bool second);
bool hm_stream_is_from_start(const struct hm_stream *s);
bool hm_stream_is_long(const struct hm_stream *s);

#endif /* HM_STREAM_H */
