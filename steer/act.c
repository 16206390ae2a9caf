// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Advice, carried out. Neither the data, the file nor another process shows it: no call
 * changes a byte, dirties a page or allocates blocks of the file.
 *
 * A mapping may have gone, and something else may lie there, when a call is made: advice
 * for a moment's wrong memory changes how it is read, never what is in it.
 */
#include "act.h"

#include "area.h"
#include "call.h"
#include "device.h"
#include "look.h"
#include "say.h"
#include "uapi.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

/* So much is touched before it is asked whether the program syncs, and asked again. */
#define JUDGED_FIRST (4ull << 20)
#define JUDGED_MOST (16ull << 20)
#define JUDGED_STEP (4ull << 20)
/* So many are written by one call: as many as may keep an event waiting. */
#define WRITE_PAGES 2048u
/* Pages that are looked at again after they were written early. */
#define LATELY (64ull << 20 / PAGE_BYTES)

int act_verbose_fd = -1;
struct steer_page *act_page;
u64 act_ns, act_cpu_ns;

/* --- telling --- */

void act_missed(void)
{
	if (act_page)
		act_page->missed++;
}

static struct steer_map *free_entry(void)
{
	struct steer_map *found = NULL, *at;

	for (at = act_page->maps; at < act_page->maps + STEER_PAGE_MAPS; at++) {
		if (!at->id)
			return at;
		/* Those that ended are kept while there is room. */
		if (at->ended && (!found || at->id < found->id))
			found = at;
	}
	return found;
}

void act_begin(struct map *map)
{
	static u64 last_id;
	struct steer_map *told = act_page ? free_entry() : NULL;

	map->told = told;
	if (!told) {
		act_missed();
		return;
	}
	memset(told, 0, sizeof(*told));
	told->start = map->start;
	told->bytes = map->bytes;
	told->offset = map->offset;
	told->writable = map->file.writable;
	told->private = !map->file.shared;
	__atomic_store_n(&told->id, ++last_id, __ATOMIC_RELEASE);
}

void act_end(struct map *map)
{
	if (map->told)
		map->told->ended = 1;
	map->told = NULL;
}

static void count(struct map *map, enum steer_act act, u64 bytes)
{
	if (!map->told)
		return;
	map->told->count[act]++;
	map->told->amount[act] += bytes;
}

/* A line for the user, and the words that `hugemap stat` shows. */
static void tell(struct map *map, const char *what)
{
	struct say say;

	if (!map->told)
		return;
	if (map->told->pattern != STEER_HINTED)
		map->told->pattern = map->advisor.pattern;
	say_into(&say, map->told->why, sizeof(map->told->why));
	say_text(&say, what);
	say_text(&say, ": ");
	say_text(&say, hm_advisor_why(&map->advisor));
	if (act_verbose_fd >= 0) {
		char line[400];

		say_into(&say, line, sizeof(line));
		say_text(&say, "hugemap: ");
		say_text(&say, map->told->path[0] ? map->told->path : "a mapping");
		say_text(&say, ": ");
		say_text(&say, map->told->why);
		say_text(&say, "\n");
		call(SYS_write, act_verbose_fd, (long)line, (long)say.length, 0, 0, 0);
	}
}

/* --- what the file is --- */

/* As the file system knows it: nobody's stores are written for it, as stat() does on NFS. */
static bool stat_file(int fd, struct statx *st)
{
	return call(SYS_statx, fd, (long)"", AT_EMPTY_PATH | AT_STATX_DONT_SYNC,
		    STATX_TYPE | STATX_INO | STATX_MTIME, (long)st, 0) == 0;
}

static s64 changed_ns(const struct statx *st)
{
	return st->stx_mtime.tv_sec * 1000000000ll + st->stx_mtime.tv_nsec;
}

/*
 * The program may have closed the descriptor since and reused its number. A file with another
 * inode is let go at once. The same inode is not enough either: holding another open file
 * description would keep its locks after the program has closed it. The number is certain to
 * mean the mapping's own description only while the caller of mmap() waits, which it does
 * until @map->until.
 */
void act_settle(struct map *map, int pidfd)
{
	bool waits = now_ns() < map->until;
	struct area area;
	struct statx st;

	if (area_at(map->start, &area) < 0)
		return;
	if (map->told) {
		map->told->dev = area.dev;
		map->told->ino = area.ino;
		memcpy(map->told->path, area.path, sizeof(map->told->path));
	}
	/* A caller that no longer waits may close the file and rely on its locks being gone. */
	if (map->hold && map->number >= 0 && waits)
		map_hold(map, pidfd);
	map->advisor.facts.window = device_read_ahead_kb(area.dev) * 1024 / PAGE_BYTES;
	if (map->file.fd < 0)
		return;
	if (!stat_file(map->file.fd, &st) || !S_ISREG(st.stx_mode) ||
	    makedev(st.stx_dev_major, st.stx_dev_minor) != area.dev || st.stx_ino != area.ino) {
		map_let_go(map);
		return;
	}
	map->file.changed_at = changed_ns(&st);
	if (now_ns() >= map->until)
		map_let_go(map);
	map->file.judged_at = JUDGED_FIRST;
}

/* --- modes --- */

static long advise(struct map *map, u64 start, u64 end, int advice)
{
	return call(SYS_madvise, (long)map_address(map, start), (long)((end - start) * PAGE_BYTES),
		    advice, 0, 0, 0);
}

/* Whatever was advised there before. */
static void advise_mode(struct map *map, u64 start, u64 end, enum hm_mode old, enum hm_mode mode)
{
	bool huge = mode == HM_MODE_HUGE || mode == HM_MODE_CHUNK;
	bool was_huge = old == HM_MODE_HUGE || old == HM_MODE_CHUNK;
	bool one = mode == HM_MODE_RANDOM || mode == HM_MODE_CHUNK;
	bool was_one = old == HM_MODE_RANDOM || old == HM_MODE_CHUNK;
	u64 bytes = (end - start) * PAGE_BYTES;

	if (one != was_one)
		advise(map, start, end, one ? MADV_RANDOM : MADV_NORMAL);
	if (huge != was_huge)
		advise(map, start, end, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
	if (huge)
		count(map, STEER_ACT_HUGE, bytes);
	if (one)
		count(map, STEER_ACT_RANDOM, bytes);
	if (mode == HM_MODE_NORMAL)
		count(map, STEER_ACT_NORMAL, bytes);
}

/* Appends a piece, or makes the last one longer; false if there are too many. */
static bool append(struct piece *pieces, u32 *n, u64 start, u64 end, enum hm_mode mode)
{
	if (start >= end)
		return true;
	if (*n && pieces[*n - 1].mode == mode && pieces[*n - 1].end == start) {
		pieces[*n - 1].end = end;
		return true;
	}
	if (*n == MAP_PIECES)
		return false;
	pieces[(*n)++] = (struct piece){ start, end, mode };
	return true;
}

/* Nothing happens if the mapping would fall into more pieces than are allowed. */
static bool split(struct map *map, u64 start, u64 end, enum hm_mode mode)
{
	struct piece pieces[MAP_PIECES];
	u32 n = 0, i;

	for (i = 0; i < map->npieces; i++) {
		const struct piece *p = &map->piece[i];
		u64 from = p->start > start ? p->start : start;
		u64 to = p->end < end ? p->end : end;

		if (from >= to) {
			if (!append(pieces, &n, p->start, p->end, p->mode))
				return false;
			continue;
		}
		if (!append(pieces, &n, p->start, from, p->mode) ||
		    !append(pieces, &n, from, to, mode) || !append(pieces, &n, to, p->end, p->mode))
			return false;
	}
	memcpy(map->piece, pieces, n * sizeof(*pieces));
	map->npieces = n;
	map_advised(map);
	return true;
}

static void set_mode(struct map *map, u64 start, u64 end, enum hm_mode mode)
{
	struct piece old[MAP_PIECES];
	u32 n = map->npieces, i;

	memcpy(old, map->piece, n * sizeof(*old));
	if (!split(map, start, end, mode))
		return;
	for (i = 0; i < n; i++) {
		u64 from = old[i].start > start ? old[i].start : start;
		u64 to = old[i].end < end ? old[i].end : end;

		if (from < to && old[i].mode != mode)
			advise_mode(map, from, to, old[i].mode, mode);
	}
}

/* A word on huge pages leaves what was said on reading ahead, and the other way round. */
void act_hinted(struct map *map, u64 start, u64 end, int advice)
{
	bool on_huge = advice == MADV_HUGEPAGE || advice == MADV_NOHUGEPAGE;
	u32 i;

	for (i = 0; i < map->npieces; i++) {
		const struct piece *p = &map->piece[i];
		u64 from = p->start > start ? p->start : start;
		u64 to = p->end < end ? p->end : end;

		if (from >= to)
			continue;
		if (on_huge && (p->mode == HM_MODE_RANDOM || p->mode == HM_MODE_CHUNK))
			advise(map, from, to, MADV_NORMAL);
		if (!on_huge && (p->mode == HM_MODE_HUGE || p->mode == HM_MODE_CHUNK))
			advise(map, from, to, MADV_NOHUGEPAGE);
	}
	split(map, start, end, HM_MODE_NORMAL);
	if (map->nhints && map->told)
		map->told->pattern = STEER_HINTED;
}

/* Ranges without hints of the program's: each page once, a mode for all of the rest. */
static void set_mode_around_hints(struct map *map, u64 start, u64 end, enum hm_mode mode)
{
	u64 from = start;

	while (from < end) {
		u64 to = end;
		u32 i;

		for (i = 0; i < map->nhints; i++) {
			const struct hint *h = &map->hint[i];

			if (h->start <= from && from < h->end) {
				from = h->end;
				break;
			}
			if (from < h->start && h->start < to)
				to = h->start;
		}
		if (i < map->nhints)
			continue;
		set_mode(map, from, to, mode);
		from = to;
	}
}

void act_take_back(struct map *map)
{
	set_mode_around_hints(map, map->advisor.first, map->advisor.end, HM_MODE_NORMAL);
}

void act_moved(struct map *map, const struct map *old)
{
	const struct advised *was = &steer_advised[old - steer_maps];

	if (old->nhints) {
		/* Which of it is the program's, and where, is not worth knowing. */
		map->nhints = 1;
		map->hint[0] = (struct hint){ map->advisor.first, map->advisor.end };
	} else {
		if (was->random)
			advise(map, map->advisor.first, map->advisor.end, MADV_NORMAL);
		if (was->huge)
			advise(map, map->advisor.first, map->advisor.end, MADV_NOHUGEPAGE);
	}
	map_advised(map);
}

static void carry_mode(struct map *map, const struct hm_advice *advice)
{
	static const char *const what[HM_MODES] = {
		[HM_MODE_NORMAL] = "left to the kernel again",
		[HM_MODE_RANDOM] = "single pages are read",
		[HM_MODE_HUGE] = "huge pages are read ahead",
		[HM_MODE_CHUNK] = "2 MB are read at a time",
	};
	bool all = advice->start == map->advisor.first && advice->end == map->advisor.end;

	set_mode_around_hints(map, advice->start, advice->end, advice->mode);
	if (all && !map_is_hinted(map))
		tell(map, what[advice->mode]);
}

/* --- reading and writing --- */

static void carry_ahead(struct map *map, const struct hm_advice *advice)
{
	u64 step = (u64)(advice->step > 0 ? advice->step : -advice->step), page;

	if (step == 1) {
		for (page = advice->start; page < advice->end;) {
			u64 end = page + hm_advisor_piece(&map->advisor);

			end = end < advice->end ? end : advice->end;
			advise(map, page, end, MADV_WILLNEED);
			page = end;
		}
		count(map, STEER_ACT_AHEAD, (advice->end - advice->start) * PAGE_BYTES);
		return;
	}
	for (page = advice->start; page < advice->end; page += step) {
		advise(map, page, page + 1, MADV_WILLNEED);
		count(map, STEER_ACT_AHEAD, PAGE_BYTES);
	}
}

static void carry_fill(struct map *map, const struct hm_advice *advice)
{
	if (advise(map, advice->start, advice->end, MADV_POPULATE_READ) < 0)
		return; /* not before Linux 5.14, nor beyond the end of the file */
	look_mark(map->seen, advice->start, advice->end);
	count(map, STEER_ACT_POPULATE, (advice->end - advice->start) * PAGE_BYTES);
}

static bool stat_pages(const struct map *map, u64 start, u64 end, struct steer_cachestat *stat)
{
	u64 at = map_address(map, start);
	struct steer_cachestat_range range = {
		.off = map->offset + (at < map->start ? 0 : at - map->start),
		.len = (end - start) * PAGE_BYTES,
	};

	return call(SYS_cachestat, map->file.fd, (long)&range, (long)stat, 0, 0, 0) == 0;
}

/*
 * What was written early and is stored to again is written twice, and faults once more. A
 * mapping in which that happens is left to the kernel's own time.
 */
static bool is_rewritten(struct map *map)
{
	struct steer_cachestat stat;

	if (!map->file.rewritten && map->written < map->written_end &&
	    stat_pages(map, map->written, map->written_end, &stat))
		map->file.rewritten = stat.nr_dirty > (map->written_end - map->written) / 16;
	return map->file.rewritten;
}

/* What a stream has passed last; false if none is there. */
static bool last_passed(const struct hm_advisor *a, u64 *start, u64 *end)
{
	const struct hm_track *t, *longest = NULL;
	u64 length, most = 0;

	for (t = a->track; t < a->track + HM_TRACKS; t++) {
		length = t->next - t->start;
		if (t->grown != a->look || t->way <= 0 || length <= most)
			continue;
		longest = t;
		most = length;
	}
	if (most < JUDGED_FIRST / PAGE_BYTES)
		return false;
	most = most < JUDGED_MOST / PAGE_BYTES ? most : JUDGED_MOST / PAGE_BYTES;
	*end = longest->next;
	*start = *end - most;
	return true;
}

/*
 * The file is stored to, and what a stream passed a while ago is clean, though nobody was
 * asked to write it yet: then the program syncs, piece by piece. In huge folios it would
 * write more. Said twice, it counts.
 */
void act_judge(struct map *map)
{
	struct steer_cachestat stat;
	struct statx st;
	u64 start, end;
	bool synced;

	if (map->file.fd < 0 || map->file.wrote || map->file.touched < map->file.judged_at ||
	    !last_passed(&map->advisor, &start, &end))
		return;
	map->file.judged_at = map->file.touched + JUDGED_STEP;
	if (!stat_pages(map, start, start + (end - start) / 2, &stat) ||
	    !stat_file(map->file.fd, &st)) {
		map->advisor.facts.synced = false;
		return;
	}
	synced = changed_ns(&st) != map->file.changed_at && !stat.nr_dirty && !stat.nr_writeback;
	map->file.changed_at = changed_ns(&st);
	if (synced == map->file.synced)
		map->advisor.facts.synced = synced;
	map->file.synced = synced;
}

static void carry_write(struct map *map, const struct hm_advice *advice)
{
	struct steer_cachestat stat;
	u64 page, end, at;
	u32 word = events_word();

	if (map->file.fd < 0 || is_rewritten(map))
		return;
	if (stat_pages(map, advice->start, advice->end, &stat) && !stat.nr_dirty)
		return;
	/* Of one stream, and of what it has written last. */
	if (advice->start != map->written_end || map->written_end - map->written > LATELY)
		map->written = advice->start;
	map->file.wrote = true;
	for (page = advice->start; page < advice->end; page = end) {
		at = map_address(map, page);
		end = page + WRITE_PAGES < advice->end ? page + WRITE_PAGES : advice->end;
		call(SYS_sync_file_range, map->file.fd,
		     (long)(map->offset + (at < map->start ? 0 : at - map->start)),
		     (long)((end - page) * PAGE_BYTES), SYNC_FILE_RANGE_WRITE, 0, 0);
		count(map, STEER_ACT_WRITE, (end - page) * PAGE_BYTES);
		map->written_end = end;
		/* Somebody waits; the rest is the kernel's. */
		if (events_word() != word)
			return;
	}
}

void act_advices(struct map *map)
{
	u64 begin = now_ns(), cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	u32 i;

	for (i = 0; i < map->advisor.count; i++) {
		const struct hm_advice *advice = &map->advisor.advice[i];

		if (advice->kind == HM_ADVICE_MODE)
			carry_mode(map, advice);
		else if (advice->kind == HM_ADVICE_WRITE)
			carry_write(map, advice);
		else if (map_hinted(map, advice->start, advice->end))
			continue;
		else if (advice->kind == HM_ADVICE_AHEAD)
			carry_ahead(map, advice);
		else
			carry_fill(map, advice);
	}
	if (map->told && map->told->pattern != STEER_HINTED)
		map->told->pattern = map->advisor.pattern;
	act_ns += now_ns() - begin;
	act_cpu_ns += clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu;
}
