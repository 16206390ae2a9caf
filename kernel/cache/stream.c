// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Streams are recognised by their faults.
 *
 * A stream is a run of faults, each at or shortly after the end of the previous one. If a fault
 * continues no stream, its CPU notes the page after it. A fault at a noted page is the second one
 * in sequence, and starts a stream. So random accesses take no lock, and write to no cache line
 * that other CPUs read: they read only the spans of the file's streams and the notes of their CPU.
 *
 * With HM_SIZE_AUTO a miss brings in the unit that its stream needs. The fields of such a stream
 * advance in base pages.
 */
#include "cache.h"
#include "pool.h"
#include "stream.h"

/*
 * As HM_STREAM_LONG_WINDOW, for a stream that started at the start of its file: it mostly accesses
 * all of the file. If it stores, write-back will write all of the huge unit, so the stream must
 * have come further.
 */
#define LONG_WINDOW_AT_START (HM_BLOCK_PAGES / 32)
#define LONG_WINDOW_OF_STORES (HM_BLOCK_PAGES / 16)

/*
 * With HM_SIZE_AUTO, could the stream itself cause a fault at a page ahead of @next? A stream
 * enters a huge unit of its read-ahead near the start, and a block that was evicted again at the
 * start. Its window of base pages ends with their block. Other faults in the read-ahead are random
 * accesses: if they continued the stream, it would read more.
 */
static bool hm_stream_in_order(const struct hm_stream *s, const struct hm_fault_range *range)
{
	if (!range->auto_size || range->first <= s->next || range->first == s->ahead)
		return true;
	if (range->huge)
		return range->block_offset < HM_BLOCK_PAGES / 4;
	return !range->block_offset || hm_block_of(range->first) == hm_block_of(s->next - 1);
}

/*
 * A fault continues a stream if its range reaches @next, and begins at or before @next or @ahead,
 * the end of the read-ahead.
 */
static bool hm_stream_continues(const struct hm_stream *s, const struct hm_fault_range *range)
{
	return range->end >= s->next && (range->first <= s->next || range->first <= s->ahead) &&
	       s->step == range->step && hm_stream_in_order(s, range);
}

/*
 * A span is the range in which the next fault of a stream is expected. It is one word, so that a
 * reader without the lock gets a consistent range. 0 means a free slot: no stream has @next 0.
 */
#define SPAN_LENGTH_BITS 26
#define SPAN_LENGTH_MAX ((1ull << SPAN_LENGTH_BITS) - 1)

void hm_stream_publish_span(struct hm_file *file, const struct hm_stream *s)
{
	u64 length = s->ahead > s->next ? s->ahead - s->next : 0;

	if (length > SPAN_LENGTH_MAX)
		length = SPAN_LENGTH_MAX;
	hm_atomic_set(&file->span[s - file->stream],
		      s->step ? s->next << (SPAN_LENGTH_BITS + 1) | length << 1 | (s->step == 1) :
				0);
}

void hm_stream_publish_slot(struct hm_file *file, const struct hm_stream *s)
{
	u64 bit = 1ull << (s - file->stream), used = hm_atomic_read(&file->spans);

	hm_stream_publish_span(file, s);
	hm_atomic_set(&file->spans, s->step ? used | bit : used & ~bit);
}

/*
 * The result is a hint, because the call takes no lock. After true the caller checks again under
 * stream_lock. False may be wrong if another task changes the stream at the same time. That is
 * harmless: the fault is noted, as if it had come a moment before the change. The faults of one
 * reader follow each other, so the second one sees the span that the first one published.
 */
bool hm_stream_may_continue(const struct hm_file *file, const struct hm_fault_range *range)
{
	u64 used = hm_atomic_read(&file->spans);
	u32 i;

	for (i = 0; used; i++, used >>= 1) {
		u64 span = hm_atomic_read(&file->span[i]);
		struct hm_stream s = { .next = span >> (SPAN_LENGTH_BITS + 1) };

		if (!span || range->end < s.next)
			continue;
		s.ahead = s.next + (span >> 1 & SPAN_LENGTH_MAX);
		s.step = span & 1 ? 1 : HM_BLOCK_PAGES;
		if (hm_stream_continues(&s, range))
			return true;
	}
	return false;
}

struct hm_stream *hm_stream_find(struct hm_file *file, const struct hm_fault_range *range)
{
	struct hm_stream *s = file->stream, *end = s + HM_STREAMS;

	/* A free slot has step 0, which no fault has. */
	for (; s < end; s++) {
		if (hm_stream_continues(s, range))
			return s;
	}
	return NULL;
}

/*
 * The notes of a CPU: the pages that would continue its last faults. Each note is one word, and a
 * hint. If two threads write notes at the same time, or two files have the same low 26 bits of id,
 * a stream starts one fault too late or too early at worst.
 */
static u64 hm_stream_note_of(const struct hm_file *file, u64 page, u32 step)
{
	return (u64)file->id << 38 | page << 2 | (step == 1 ? 2 : 1);
}

/*
 * The tags: an 8-bit hash of each note, packed into a few words. Most faults match no note, and the
 * tags show that without a read of all notes.
 */
#define EACH_BYTE 0x0101010101010101ull

static u64 hm_stream_tag_of(u64 note)
{
	return (note >> 2) * 0x9e3779b97f4a7c15ull >> 56;
}

static bool hm_stream_has_tag(u64 tags, u64 tag)
{
	u64 diff = tags ^ tag * EACH_BYTE; /* a byte is 0 where the tag matches */

	return (diff - EACH_BYTE) & ~diff & EACH_BYTE << 7;
}

bool hm_stream_noted(const struct hm_file *file, const struct hm_fault_range *range)
{
	const struct hm_shard *shard = hm_local_shard(file->cache);
	u64 note = hm_stream_note_of(file, range->first, range->step), tag = hm_stream_tag_of(note);
	bool may_be = false;
	u32 i;

	for (i = 0; i < HM_NOTES / 8; i++)
		may_be |= hm_stream_has_tag(hm_atomic_read(&shard->tags[i]), tag);
	for (i = 0; may_be && i < HM_NOTES; i++) {
		if (hm_atomic_read(&shard->note[i]) == note)
			return true;
	}
	return false;
}

u64 hm_stream_take_note(const struct hm_file *file, const struct hm_fault_range *range)
{
	struct hm_shard *shard = hm_local_shard(file->cache);
	u64 hand = hm_atomic_read(&shard->note_hand),
	    note = hm_stream_note_of(file, range->end, range->step);
	hm_atomic_t *tags = &shard->tags[hand % HM_NOTES / 8];
	u32 shift = hand % 8 * 8;

	hm_atomic_set(&shard->note[hand % HM_NOTES], note);
	hm_atomic_set(tags, (hm_atomic_read(tags) & ~(0xffull << shift)) | hm_stream_tag_of(note)
										   << shift);
	hm_atomic_set(&shard->note_hand, hand + 1);
	return hand;
}

/*
 * The first store to a block faults before hm_dirty_map_store() looks for its stream, and this
 * fault may move the stream past the block. Example: a stream has stored to pages 0 to 511. The
 * fault on page 512 brings in the whole block and sets ->next to 1024, so the store no longer finds
 * ->next at 512. Such a stream counts only with this many more faults than opts.stream_min, because
 * a few random stores may put a stream there by chance.
 */
#define ADVANCED_MORE_FAULTS 2u

static bool hm_stream_has_advanced(const struct hm_stream *s, u64 pgoff, u32 min)
{
	return s->next == pgoff + HM_BLOCK_PAGES && s->first < pgoff &&
	       s->seen >= min + ADVANCED_MORE_FAULTS;
}

/* A miss must move the stream forward: a page that is read again and again does not continue it. */
bool hm_stream_reaches(struct hm_file *file, u64 pgoff, bool write)
{
	const struct hm_fault_range range = {
		.first = pgoff,
		.end = pgoff + (write ? HM_BLOCK_PAGES : 1),
		.step = 1,
		.block_offset = (u32)(pgoff - hm_block_start(pgoff)),
		.auto_size = true,
	};
	u32 min = file->cache->opts.stream_min;
	bool found = false;
	u32 i;

	if (!hm_stream_may_continue(file, &range))
		return !write && min <= 2 && hm_stream_noted(file, &range);
	hm_spin_lock(&file->stream_lock);
	for (i = 0; i < HM_STREAMS && !found; i++) {
		const struct hm_stream *s = &file->stream[i];

		found = hm_stream_continues(s, &range) && (s->write || !write) &&
			(pgoff >= s->next ? s->seen + 1 >= min :
					    write && hm_stream_has_advanced(s, pgoff, min));
	}
	hm_spin_unlock(&file->stream_lock);
	return found;
}

/* The clock hand passes a stream. Return true if the stream has not continued within its passes. */
static bool hm_stream_expired(struct hm_stream *s)
{
	if (!s->passes_left)
		return true;
	s->passes_left--;
	return false;
}

void hm_stream_age_all(struct hm_file *file)
{
	u32 i;

	if (!hm_atomic_read(&file->spans))
		return;
	hm_spin_lock(&file->stream_lock);
	for (i = 0; i < HM_STREAMS; i++) {
		struct hm_stream *s = &file->stream[i];

		if (s->step && hm_stream_expired(s)) {
			s->step = 0;
			hm_stream_publish_slot(file, s);
		}
	}
	hm_spin_unlock(&file->stream_lock);
}

struct hm_stream *hm_stream_start(struct hm_file *file, const struct hm_fault_range *range,
				  bool second)
{
	struct hm_stream *s;
	u32 i;

	for (i = 0; i < HM_STREAMS && file->stream[i].step; i++)
		;
	if (i < HM_STREAMS) {
		s = &file->stream[i];
	} else {
		do {
			s = &file->stream[file->stream_hand++ % HM_STREAMS];
		} while (!hm_stream_expired(s));
	}
	*s = (struct hm_stream){
		.next = range->end,
		.ahead = range->end,
		.first = range->first,
		.behind = second ? range->first - range->step : range->first,
		.step = range->step,
		.seen = second ? 2 : 1,
		.passes_left = second,
	};
	if (s->behind == 0 && file->cache->opts.stream_min > 2)
		s->seen++; /* a stream at the start of the file is likely to continue */
	return s;
}

bool hm_stream_is_use_once(struct hm_file *file)
{
	struct hm_cache *cache = file->cache;
	u64 room = (hm_pool_free_target(cache) + cache->opts.evict_batch) * HM_BLOCK_PAGES;

	return hm_file_npages(file) > hm_pool_frames(cache) * HM_BLOCK_PAGES / 2 &&
	       hm_cache_free_pages(cache) <= room;
}

bool hm_stream_is_from_start(const struct hm_stream *s)
{
	return s->first <= 1 && s->next <= HM_BLOCK_PAGES;
}

bool hm_stream_is_long(const struct hm_stream *s)
{
	if (!hm_stream_is_from_start(s))
		return s->window >= HM_STREAM_LONG_WINDOW;
	return s->window >= (s->write ? LONG_WINDOW_OF_STORES : LONG_WINDOW_AT_START);
}

/*
 * If the block is huge now, the stream causes no more faults in it: move the stream to the end of
 * the block. Otherwise the pages from @next on are absent again: the read-ahead ends at @next.
 */
void hm_stream_promoted(struct hm_file *file, u64 pgoff, bool done)
{
	u64 end = pgoff + HM_BLOCK_PAGES;
	u32 i;

	hm_spin_lock(&file->stream_lock);
	for (i = 0; i < HM_STREAMS; i++) {
		struct hm_stream *s = &file->stream[i];

		if (s->step != 1 || !hm_stream_is_long(s) || s->next <= pgoff || s->next >= end)
			continue;
		if (done)
			s->next = end;
		if (done ? s->ahead < end : s->ahead <= end)
			s->ahead = s->next;
		hm_stream_publish_span(file, s);
	}
	hm_spin_unlock(&file->stream_lock);
}

void hm_stream_add_writer(struct hm_file *file, u64 pgoff)
{
	const struct hm_fault_range range = {
		.first = pgoff,
		.end = pgoff + HM_BLOCK_PAGES,
		.step = 1,
		.auto_size = true,
		.huge = true,
	};
	struct hm_stream *s;

	hm_spin_lock(&file->stream_lock);
	s = hm_stream_find(file, &range);
	/* Do not make a writer of a stream that reads towards this block. */
	if (!s || (!s->write && s->next <= pgoff)) {
		s = hm_stream_start(file, &range, false);
		s->passes_left = 1;
		hm_stream_publish_slot(file, s);
	}
	if (range.end > s->next)
		s->next = range.end;
	if (s->seen < file->cache->opts.stream_min)
		s->seen = file->cache->opts.stream_min;
	s->write = true;
	hm_stream_publish_span(file, s);
	hm_spin_unlock(&file->stream_lock);
}
