// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Streams are recognised by their faults.
 *
 * A stream is a run of faults, each at or shortly after the end of the previous one. A fault
 * that continues no stream is noted by its CPU. A fault at a noted page is the second one in
 * sequence, and starts a stream. So random accesses take no lock, and write to nothing that
 * other CPUs read: they look at the spans of the file's streams, and at the notes of their CPU.
 *
 * With HM_SIZE_AUTO a miss brings in what its stream needs. Such streams are counted in base
 * pages.
 */
#include "cache.h"
#include "pool.h"
#include "stream.h"

/*
 * The same of one that began where its file does: it mostly wants all of it. One that stores soon
 * has all of a block written, so it has to have come further.
 */
#define LONG_WINDOW_AT_START (HM_BLOCK_PAGES / 32)
#define LONG_WINDOW_OF_STORES (HM_BLOCK_PAGES / 16)

/*
 * Would a stream that chooses its units get to a place ahead of it? What it brought in whole
 * it enters near the start, what has left again, at the start; and the window of base pages
 * ends with their block. Random faults beside what is on its way would have more of it read.
 */
static bool hm_stream_in_order(const struct hm_stream *s, const struct hm_reach *at)
{
	if (!at->chosen || at->first <= s->next || at->first == s->ahead)
		return true;
	if (at->whole)
		return at->into < HM_BLOCK_PAGES / 4;
	return !at->into || hm_block_of(at->first) == hm_block_of(s->next - 1);
}

/* Faults at @next, a step before it, or up to what is on its way, go on with it. */
static bool hm_stream_continues(const struct hm_stream *s, const struct hm_reach *at)
{
	return at->end >= s->next && (at->first <= s->next || at->first <= s->ahead) &&
	       s->step == at->step && hm_stream_in_order(s, at);
}

/*
 * Where the faults of a stream are expected, for a look without the lock: one word, so that
 * what is read has been true as a whole. 0: the slot is free, as no stream expects page 0.
 */
#define SPAN_LENGTH_BITS 26
#define SPAN_LENGTH_MAX ((1ull << SPAN_LENGTH_BITS) - 1)

/* stream_lock is held: whatever changed of a stream is to be seen. */
void hm_stream_publish_span(struct hm_file *file, const struct hm_stream *s)
{
	u64 length = s->ahead > s->next ? s->ahead - s->next : 0;

	if (length > SPAN_LENGTH_MAX)
		length = SPAN_LENGTH_MAX;
	hm_atomic_set(&file->span[s - file->stream],
		      s->step ? s->next << (SPAN_LENGTH_BITS + 1) | length << 1 | (s->step == 1) :
				0);
}

/* stream_lock is held: it begins to be shown, or has ended. */
void hm_stream_begin_or_end(struct hm_file *file, const struct hm_stream *s)
{
	u64 bit = 1ull << (s - file->stream), used = hm_atomic_read(&file->spans);

	hm_stream_publish_span(file, s);
	hm_atomic_set(&file->spans, s->step ? used | bit : used & ~bit);
}

/*
 * Does a fault go on with a stream? A hint, as it is without the lock: who is told yes
 * looks again under it. Told no is whoever came while the stream was changed by somebody else,
 * and might have come a moment before that as well: its fault is noted. A reader's own faults
 * follow each other, and the second sees what the first one wrote before it returned.
 */
bool hm_stream_may_continue(const struct hm_file *file, const struct hm_reach *at)
{
	u64 used = hm_atomic_read(&file->spans);
	u32 i;

	for (i = 0; used; i++, used >>= 1) {
		u64 span = hm_atomic_read(&file->span[i]);
		struct hm_stream s = { .next = span >> (SPAN_LENGTH_BITS + 1) };

		if (!span || at->end < s.next)
			continue;
		s.ahead = s.next + (span >> 1 & SPAN_LENGTH_MAX);
		s.step = span & 1 ? 1 : HM_BLOCK_PAGES;
		if (hm_stream_continues(&s, at))
			return true;
	}
	return false;
}

struct hm_stream *hm_stream_find(struct hm_file *file, const struct hm_reach *at)
{
	struct hm_stream *s = file->stream, *end = s + HM_STREAMS;

	/* Those that are not used have no step. */
	for (; s < end; s++) {
		if (hm_stream_continues(s, at))
			return s;
	}
	return NULL;
}

/*
 * Notes of a CPU: the pages at which its last faults would go on. Each is complete in itself,
 * and a hint: threads that write at once, or a store that has the number of another one
 * that was closed, cost at worst a stream that starts a fault too late or too early.
 */
static u64 hm_stream_note_of(const struct hm_file *file, u64 page, u32 step)
{
	return (u64)file->id << 48 | page << 2 | (step == 1 ? 2 : 1);
}

/*
 * Eight bits of each note, in a few words: that most faults are noted nowhere is seen without a
 * look at all notes.
 */
#define BYTES 0x0101010101010101ull

static u64 hm_stream_tag_of(u64 note)
{
	return (note >> 2) * 0x9e3779b97f4a7c15ull >> 56;
}

static bool hm_stream_has_tag(u64 tags, u64 tag)
{
	u64 zero = tags ^ tag * BYTES; /* in the byte that is looked for */

	return (zero - BYTES) & ~zero & BYTES << 7;
}

bool hm_stream_noted(const struct hm_file *file, const struct hm_reach *at)
{
	const struct hm_shard *shard = hm_local_shard(file->cache);
	u64 note = hm_stream_note_of(file, at->first, at->step), tag = hm_stream_tag_of(note);
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

/* Returns how many its CPU has taken. */
u64 hm_stream_take_note(const struct hm_file *file, const struct hm_reach *at)
{
	struct hm_shard *shard = hm_local_shard(file->cache);
	u64 hand = hm_atomic_read(&shard->note_hand),
	    note = hm_stream_note_of(file, at->end, at->step);
	hm_atomic_t *tags = &shard->tags[hand % HM_NOTES / 8];
	u32 shift = hand % 8 * 8;

	hm_atomic_set(&shard->note[hand % HM_NOTES], note);
	hm_atomic_set(tags, (hm_atomic_read(tags) & ~(0xffull << shift)) | hm_stream_tag_of(note)
										   << shift);
	hm_atomic_set(&shard->note_hand, hand + 1);
	return hand;
}

/*
 * The fault of a store at the start of a block may have told the stream of the block before
 * anybody asks for the store. It is not where a few stores have come to by chance, then.
 */
#define MORE_FAULTS 2u

static bool hm_stream_is_advised(const struct hm_stream *s, u64 pgoff, u32 min)
{
	return s->next == pgoff + HM_BLOCK_PAGES && s->first < pgoff &&
	       s->seen >= min + MORE_FAULTS;
}

/*
 * Does a miss at a page go on with a stream, forward? Then it is one by that, if not
 * before. (A page that is read again and again does not.) Or a store at the start of a block,
 * with one that stores?
 */
bool hm_stream_reaches(struct hm_file *file, u64 pgoff, bool files)
{
	const struct hm_reach at = {
		.first = pgoff,
		.end = pgoff + (files ? HM_BLOCK_PAGES : 1),
		.step = 1,
		.into = (u32)(pgoff - hm_block_start(pgoff)),
		.chosen = true,
	};
	u32 min = file->cache->opts.stream_min;
	bool found = false;
	u32 i;

	if (!hm_stream_may_continue(file, &at))
		return !files && min <= 2 && hm_stream_noted(file, &at);
	hm_spin_lock(&file->stream_lock);
	for (i = 0; i < HM_STREAMS && !found; i++) {
		const struct hm_stream *s = &file->stream[i];

		found = hm_stream_continues(s, &at) && (s->write || !files) &&
			(pgoff >= s->next ? s->seen + 1 >= min :
					    files && hm_stream_is_advised(s, pgoff, min));
	}
	hm_spin_unlock(&file->stream_lock);
	return found;
}

/* The hand comes by: a stream that has not gone on since it last did is over. */
static bool hm_stream_expired(struct hm_stream *s)
{
	if (!s->lives)
		return true;
	s->lives--;
	return false;
}

/* The hand passes all streams. */
void hm_stream_pass_all(struct hm_file *file)
{
	u32 i;

	if (!hm_atomic_read(&file->spans))
		return;
	hm_spin_lock(&file->stream_lock);
	for (i = 0; i < HM_STREAMS; i++) {
		struct hm_stream *s = &file->stream[i];

		if (s->step && hm_stream_expired(s)) {
			s->step = 0;
			hm_stream_begin_or_end(file, s);
		}
	}
	hm_spin_unlock(&file->stream_lock);
}

/* In a free slot, or in that of the next one that is over. @second: a note led to it. */
struct hm_stream *hm_stream_start(struct hm_file *file, const struct hm_reach *at, bool second)
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
		.next = at->end,
		.ahead = at->end,
		.first = at->first,
		.behind = second ? at->first - at->step : at->first,
		.step = at->step,
		.seen = second ? 2 : 1,
		.lives = second,
	};
	if (s->behind == 0 && file->cache->opts.stream_min > 2)
		s->seen++; /* a start at the start is likely to go on */
	return s;
}

/*
 * Has a stream to make room for itself? There is none left, and its file would take a good
 * part of all.
 */
bool hm_stream_is_use_once(struct hm_file *file)
{
	struct hm_cache *cache = file->cache;
	u64 room = (hm_pool_free_target(cache) + cache->opts.evict_batch) * HM_BLOCK_PAGES;

	return hm_file_npages(file) > hm_pool_frames(cache) * HM_BLOCK_PAGES / 2 &&
	       hm_cache_free_pages(cache) <= room;
}

/* In the first block of a file, and in all of it so far. */
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
 * A block was to become one unit for the stream in it, which will not tell of each page there
 * now, if it has. Else what has gone again is not on its way.
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

/* Files in a row have shown that a stream goes through the block that begins there. */
void hm_stream_stores(struct hm_file *file, u64 pgoff)
{
	const struct hm_reach at = {
		.first = pgoff,
		.end = pgoff + HM_BLOCK_PAGES,
		.step = 1,
		.chosen = true,
		.whole = true,
	};
	struct hm_stream *s;

	hm_spin_lock(&file->stream_lock);
	s = hm_stream_find(file, &at);
	/* Not a reader's that comes from further in front. */
	if (!s || (!s->write && s->next <= pgoff)) {
		s = hm_stream_start(file, &at, false);
		s->lives = 1;
		hm_stream_begin_or_end(file, s);
	}
	if (at.end > s->next)
		s->next = at.end;
	if (s->seen < file->cache->opts.stream_min)
		s->seen = file->cache->opts.stream_min;
	s->write = true;
	hm_stream_publish_span(file, s);
	hm_spin_unlock(&file->stream_lock);
}
