// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Read-ahead and write-behind: streams are recognised by their faults.
 *
 * A stream is a run of faults, each at or shortly after the end of the last
 * one. After opts.stream_min of them (one fewer at the start of the store),
 * a window is brought in ahead of it, and doubled each time the stream gets
 * to the marker, which lies half a window before the end: so that the next
 * half is asked for while the other one is being used, and a stream never
 * waits. What a writing stream leaves behind is written while it writes.
 *
 * A fault that goes on with no stream is noted, by its CPU; a fault where one was
 * expected by a note is the second in sequence, and starts a stream. So random access
 * takes no lock and writes to nothing that other CPUs read: it looks at the spans of the
 * store's streams, and at the notes of its CPU.
 *
 * Where the core chooses what a miss brings in (HM_SIZE_AUTO), this is what it
 * goes by: streams are counted in base pages. The block in which one is seen is read
 * in base pages, some of which are there, in windows that do not leave it; the next
 * one, and what is read ahead from there on, comes as a whole.
 */
#include "internal.h"

#define FIRST_WINDOW_HUGE (4u * HM_BLOCK_PAGES)
#define FIRST_WINDOW_BASE 32u
/* Many a stream of base pages ends soon; the next block of one that does not comes as a whole. */
#define FIRST_WINDOW_CHOSEN 4u
/* From here on, what is left of the block it is in may come at once. Less may be a record. */
#define LONG_WINDOW (HM_BLOCK_PAGES / 2)
/*
 * The same of one that began where its file does: it mostly wants all of it. One that stores soon
 * has all of a block written, so it has to have come further.
 */
#define LONG_WINDOW_AT_START (HM_BLOCK_PAGES / 32)
#define LONG_WINDOW_OF_STORES (HM_BLOCK_PAGES / 16)

/*
 * After so many faults of a CPU that go on with none, a stream has to have gone on itself.
 * Odd: of two files that are read in turn, it is not always the same one that is asked.
 */
#define PASS_FAULTS 17u

/* Pages on their way that are worth one more passing of the hand: as many faults of others. */
#define LIFE HM_STREAMS

/* A writer of base pages is left this far behind before write-behind. */
#define BEHIND_LAG_BASE 64u

/* What faults: a unit, or a part of it that is worth one step. */
struct reach {
	u64 first, end;
	u32 step;
	u32 into; /* its block, in pages */
	bool chosen;
	bool whole; /* chosen, and a block */
};

/*
 * Would a stream that chooses its units get to a place ahead of it? What it brought in whole
 * it enters near the start, what has left again, at the start; and the window of base pages
 * ends with their block. Random faults beside what is on its way would have more of it read.
 */
static bool hm_readahead_in_order(const struct hm_stream *s, const struct reach *at)
{
	if (!at->chosen || at->first <= s->next || at->first == s->ahead)
		return true;
	if (at->whole)
		return at->into < HM_BLOCK_PAGES / 4;
	return !at->into || hm_block_of(at->first) == hm_block_of(s->next - 1);
}

/* Faults at @next, a step before it, or up to what is on its way, go on with it. */
static bool hm_readahead_continues(const struct hm_stream *s, const struct reach *at)
{
	return at->end >= s->next && (at->first <= s->next || at->first <= s->ahead) &&
	       s->step == at->step && hm_readahead_in_order(s, at);
}

/*
 * Where the faults of a stream are expected, for a look without the lock: one word, so that
 * what is read has been true as a whole. 0: the slot is free, as no stream expects page 0.
 */
#define SPAN_LENGTH_BITS 26
#define SPAN_LENGTH_MAX ((1ull << SPAN_LENGTH_BITS) - 1)

/* stream_lock is held: whatever changed of a stream is to be seen. */
static void hm_readahead_publish_span(struct hm_file *file, const struct hm_stream *s)
{
	u64 length = s->ahead > s->next ? s->ahead - s->next : 0;

	if (length > SPAN_LENGTH_MAX)
		length = SPAN_LENGTH_MAX;
	hm_atomic_set(&file->span[s - file->stream],
		      s->step ? s->next << (SPAN_LENGTH_BITS + 1) | length << 1 | (s->step == 1) :
				0);
}

/* stream_lock is held: it begins to be shown, or has ended. */
static void hm_readahead_begin_or_end(struct hm_file *file, const struct hm_stream *s)
{
	u64 bit = 1ull << (s - file->stream), used = hm_atomic_read(&file->spans);

	hm_readahead_publish_span(file, s);
	hm_atomic_set(&file->spans, s->step ? used | bit : used & ~bit);
}

/*
 * Does a fault go on with a stream? A hint, as it is without the lock: who is told yes
 * looks again under it. Told no is whoever came while the stream was changed by somebody else,
 * and might have come a moment before that as well: its fault is noted. A reader's own faults
 * follow each other, and the second sees what the first one wrote before it returned.
 */
static inline bool hm_readahead_may_continue(const struct hm_file *file, const struct reach *at)
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
		if (hm_readahead_continues(&s, at))
			return true;
	}
	return false;
}

static struct hm_stream *hm_readahead_find_stream(struct hm_file *file, const struct reach *at)
{
	struct hm_stream *s = file->stream, *end = s + HM_STREAMS;

	/* Those that are not used have no step. */
	for (; s < end; s++) {
		if (hm_readahead_continues(s, at))
			return s;
	}
	return NULL;
}

/*
 * Notes of a CPU: the pages at which its last faults would go on. Each is complete in itself,
 * and a hint: threads that write at once, or a store that has the number of another one
 * that was closed, cost at worst a stream that starts a fault too late or too early.
 */
static u64 hm_readahead_note_of(const struct hm_file *file, u64 page, u32 step)
{
	return (u64)file->id << 48 | page << 2 | (step == 1 ? 2 : 1);
}

/*
 * Eight bits of each note, in a few words: that most faults are noted nowhere is seen without a
 * look at all notes.
 */
#define BYTES 0x0101010101010101ull

static u64 hm_readahead_tag_of(u64 note)
{
	return (note >> 2) * 0x9e3779b97f4a7c15ull >> 56;
}

static bool hm_readahead_has_tag(u64 tags, u64 tag)
{
	u64 zero = tags ^ tag * BYTES; /* in the byte that is looked for */

	return (zero - BYTES) & ~zero & BYTES << 7;
}

static bool hm_readahead_noted(const struct hm_file *file, const struct reach *at)
{
	const struct hm_shard *shard = hm_local_shard(file->cache);
	u64 note = hm_readahead_note_of(file, at->first, at->step), tag = hm_readahead_tag_of(note);
	bool may_be = false;
	u32 i;

	for (i = 0; i < HM_NOTES / 8; i++)
		may_be |= hm_readahead_has_tag(hm_atomic_read(&shard->tags[i]), tag);
	for (i = 0; may_be && i < HM_NOTES; i++) {
		if (hm_atomic_read(&shard->note[i]) == note)
			return true;
	}
	return false;
}

/* Returns how many its CPU has taken. */
static u64 hm_readahead_take_note(const struct hm_file *file, const struct reach *at)
{
	struct hm_shard *shard = hm_local_shard(file->cache);
	u64 hand = hm_atomic_read(&shard->note_hand),
	    note = hm_readahead_note_of(file, at->end, at->step);
	hm_atomic_t *tags = &shard->tags[hand % HM_NOTES / 8];
	u32 shift = hand % 8 * 8;

	hm_atomic_set(&shard->note[hand % HM_NOTES], note);
	hm_atomic_set(tags, (hm_atomic_read(tags) & ~(0xffull << shift)) | hm_readahead_tag_of(note)
										   << shift);
	hm_atomic_set(&shard->note_hand, hand + 1);
	return hand;
}

/*
 * The fault of a store at the start of a block may have told the stream of the block before
 * anybody asks for the store. It is not where a few stores have come to by chance, then.
 */
#define MORE_FAULTS 2u

static bool hm_readahead_is_advised(const struct hm_stream *s, u64 pgoff, u32 min)
{
	return s->next == pgoff + HM_BLOCK_PAGES && s->first < pgoff &&
	       s->seen >= min + MORE_FAULTS;
}

/*
 * Does a miss at a page go on with a stream, forward? Then it is one by that, if not
 * before. (A page that is read again and again does not.) Or a store at the start of a block,
 * with one that stores?
 */
bool hm_stream_goes_on(struct hm_file *file, u64 pgoff, bool files)
{
	const struct reach at = {
		.first = pgoff,
		.end = pgoff + (files ? HM_BLOCK_PAGES : 1),
		.step = 1,
		.into = (u32)(pgoff - hm_block_start(pgoff)),
		.chosen = true,
	};
	u32 min = file->cache->opts.stream_min;
	bool found = false;
	u32 i;

	if (!hm_readahead_may_continue(file, &at))
		return !files && min <= 2 && hm_readahead_noted(file, &at);
	hm_spin_lock(&file->stream_lock);
	for (i = 0; i < HM_STREAMS && !found; i++) {
		const struct hm_stream *s = &file->stream[i];

		found = hm_readahead_continues(s, &at) && (s->write || !files) &&
			(pgoff >= s->next ? s->seen + 1 >= min :
					    files && hm_readahead_is_advised(s, pgoff, min));
	}
	hm_spin_unlock(&file->stream_lock);
	return found;
}

/* The hand comes by: a stream that has not gone on since it last did is over. */
static bool hm_readahead_expired(struct hm_stream *s)
{
	if (!s->lives)
		return true;
	s->lives--;
	return false;
}

/* The hand passes all streams. */
static void hm_readahead_pass_streams(struct hm_file *file)
{
	u32 i;

	if (!hm_atomic_read(&file->spans))
		return;
	hm_spin_lock(&file->stream_lock);
	for (i = 0; i < HM_STREAMS; i++) {
		struct hm_stream *s = &file->stream[i];

		if (s->step && hm_readahead_expired(s)) {
			s->step = 0;
			hm_readahead_begin_or_end(file, s);
		}
	}
	hm_spin_unlock(&file->stream_lock);
}

/* In a free slot, or in that of the next one that is over. @second: a note led to it. */
static struct hm_stream *hm_readahead_start_stream(struct hm_file *file, const struct reach *at,
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
		} while (!hm_readahead_expired(s));
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
static bool hm_readahead_is_from_start(const struct hm_stream *s)
{
	return s->first <= 1 && s->next <= HM_BLOCK_PAGES;
}

static bool hm_readahead_is_long(const struct hm_stream *s)
{
	if (!hm_readahead_is_from_start(s))
		return s->window >= LONG_WINDOW;
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

		if (s->step != 1 || !hm_readahead_is_long(s) || s->next <= pgoff || s->next >= end)
			continue;
		if (done)
			s->next = end;
		if (done ? s->ahead < end : s->ahead <= end)
			s->ahead = s->next;
		hm_readahead_publish_span(file, s);
	}
	hm_spin_unlock(&file->stream_lock);
}

/* Files in a row have shown that a stream goes through the block that begins there. */
void hm_stream_stores(struct hm_file *file, u64 pgoff)
{
	const struct reach at = {
		.first = pgoff,
		.end = pgoff + HM_BLOCK_PAGES,
		.step = 1,
		.chosen = true,
		.whole = true,
	};
	struct hm_stream *s;

	hm_spin_lock(&file->stream_lock);
	s = hm_readahead_find_stream(file, &at);
	/* Not a reader's that comes from further in front. */
	if (!s || (!s->write && s->next <= pgoff)) {
		s = hm_readahead_start_stream(file, &at, false);
		s->lives = 1;
		hm_readahead_begin_or_end(file, s);
	}
	if (at.end > s->next)
		s->next = at.end;
	if (s->seen < file->cache->opts.stream_min)
		s->seen = file->cache->opts.stream_min;
	s->write = true;
	hm_readahead_publish_span(file, s);
	hm_spin_unlock(&file->stream_lock);
}

/*
 * Has it shown that it is? In a file that is, there are short ones, too, and what they bring in is
 * like anything else: of a tree, perhaps, of which pages in a row are used again and again.
 */
static bool hm_readahead_is_large(const struct hm_file *file, const struct hm_stream *s)
{
	return s->next - s->first >= hm_pool_frames(file->cache) * HM_BLOCK_PAGES / 4;
}

/*
 * Where units are chosen, a window ends where a block does, or in the block of the
 * last fault.
 */
static u64 hm_readahead_whole_blocks(const struct hm_stream *s, u64 end)
{
	return hm_block_of(end) == hm_block_of(s->next - 1) ? end : hm_block_start(end);
}

static void hm_readahead_plan_ahead(struct hm_file *file, struct hm_stream *s,
				    const struct reach *at, u32 max, struct hm_plan *plan)
{
	u64 npages = hm_file_npages(file), end;
	bool chosen = at->chosen;
	u32 first = s->step == 1 ? FIRST_WINDOW_BASE : FIRST_WINDOW_HUGE;

	if (chosen)
		first = at->whole ? FIRST_WINDOW_HUGE : FIRST_WINDOW_CHOSEN;
	plan->start = s->ahead > s->next ? s->ahead : s->next;
	plan->end = plan->start;
	if (plan->start - s->next >= s->window / 2 && s->window)
		return; /* enough is on its way */
	s->window = s->window ? s->window * 2 : first;
	/* It was promoted early, perhaps, and nothing beyond it is wanted. */
	if (at->whole && s->window < first && (s->first > 1 || hm_block_of(at->first)))
		s->window = first;
	if (s->window > max)
		s->window = max;
	s->window -= s->window % s->step;
	end = s->next + s->window;
	if (end > npages)
		end = npages;
	else if (chosen)
		end = hm_readahead_whole_blocks(s, end);
	if (end <= plan->start)
		return;
	plan->end = end;
	if (chosen)
		plan->access.order = HM_ORDER_SEQUENTIAL;
	/* In its first block: those after it come as a whole. */
	if (chosen && (!s->write || hm_readahead_is_from_start(s)) && !at->whole &&
	    hm_readahead_is_long(s) && s->window <= HM_BLOCK_PAGES && max >= LONG_WINDOW)
		plan->access.stream = true;
	if (chosen && hm_readahead_is_large(file, s) && hm_stream_is_use_once(file))
		plan->access.use_once = true;
	plan->mark = plan->end;
	if (plan->end < npages) {
		plan->mark = s->next + s->window / 2 / s->step * s->step;
		if (chosen)
			plan->mark = hm_readahead_whole_blocks(s, plan->mark);
		if (plan->mark < plan->start)
			plan->mark = plan->start;
		if (plan->mark > plan->end)
			plan->mark = plan->end;
	}
	s->ahead = plan->end;
}

static void hm_readahead_plan_behind(struct hm_stream *s, const struct reach *at,
				     struct hm_plan *plan)
{
	u64 first = at->first;
	u32 lag = s->step == 1 ? BEHIND_LAG_BASE : 0;
	u32 least = s->step == 1 ? BEHIND_LAG_BASE : s->step;

	/* A block that is half written would be written twice. */
	if (at->chosen) {
		first = hm_block_start(first);
		lag = 0;
		least = 1;
	}
	if (first < s->behind + lag + least)
		return;
	plan->behind_start = s->behind;
	plan->behind_end = first - lag;
	s->behind = plan->behind_end;
}

static struct reach hm_readahead_reach_of(struct hm_file *file, u64 pgoff, struct hm_access access)
{
	struct reach at = {
		.step = hm_access_is_base(access) ? 1 : HM_BLOCK_PAGES,
		.into = (u32)(pgoff - hm_block_start(pgoff)),
		.chosen = access.size == HM_SIZE_AUTO,
	};
	struct hm_unit unit;

	if (at.chosen) {
		at.step = 1;
		at.whole = hm_peek(file, pgoff, &unit) != HM_ABSENT && unit.npages > 1;
	}
	at.first = at.step == 1 && !at.whole ? pgoff : hm_block_start(pgoff);
	at.end = at.first + (at.whole ? HM_BLOCK_PAGES : at.step);
	return at;
}

bool hm_readahead(struct hm_file *file, u64 pgoff, struct hm_access access, struct hm_plan *plan)
{
	const struct hm_options *opts = &file->cache->opts;
	u32 kb = hm_access_is_base(access) ? opts->readahead_base_kb : opts->readahead_kb;
	u32 max = (u32)((u64)kb << 10 >> HM_PAGE_SHIFT);
	struct reach at = hm_readahead_reach_of(file, pgoff, access);
	struct hm_stream *s;
	bool second = false;

	/* Not as one: compilers clear it with a string instruction. */
	plan->start = 0;
	plan->end = 0;
	plan->mark = 0;
	plan->behind_start = 0;
	plan->behind_end = 0;
	plan->access = access;
	if (access.order == HM_ORDER_SEQUENTIAL)
		plan->access.order = HM_ORDER_LEARN;
	plan->access.cached_only = false;
	if (!hm_readahead_may_continue(file, &at)) {
		second = hm_readahead_noted(file, &at);
		if (!second && opts->stream_min > 1 && access.order != HM_ORDER_SEQUENTIAL) {
			if (hm_readahead_take_note(file, &at) % PASS_FAULTS == 0)
				hm_readahead_pass_streams(file);
			return false;
		}
	}
	hm_spin_lock(&file->stream_lock);
	s = hm_readahead_find_stream(file, &at);
	if (!s) {
		s = hm_readahead_start_stream(file, &at, second);
		hm_readahead_begin_or_end(file, s);
	} else {
		if (at.end > s->next) {
			s->next = at.end;
			s->seen++;
		}
		/* Where random faults pass, too, the more, the longer until it comes by again. */
		s->lives = 1 + (at.chosen ? s->window / LIFE : 0);
	}
	if (access.write)
		s->write = true;
	if (s->write)
		plan->access.write = true;
	if (s->seen >= opts->stream_min || access.order == HM_ORDER_SEQUENTIAL) {
		if (max >= at.step)
			hm_readahead_plan_ahead(file, s, &at, max, plan);
		if (s->write)
			hm_readahead_plan_behind(s, &at, plan);
	}
	hm_readahead_publish_span(file, s);
	hm_spin_unlock(&file->stream_lock);
	return plan->end > plan->start || plan->behind_end > plan->behind_start;
}

void hm_readahead_stopped(struct hm_file *file, const struct hm_plan *plan, u64 pgoff)
{
	u32 i;

	hm_spin_lock(&file->stream_lock);
	for (i = 0; i < HM_STREAMS; i++) {
		struct hm_stream *s = &file->stream[i];

		if (s->step && s->ahead == plan->end && pgoff < s->ahead) {
			s->ahead = pgoff > s->next ? pgoff : s->next;
			hm_readahead_publish_span(file, s);
		}
	}
	hm_spin_unlock(&file->stream_lock);
}
