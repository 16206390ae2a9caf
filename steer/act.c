// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * No call here changes a byte, dirties a page or allocates blocks of a file.
 *
 * Advice that changes a mapping (MADV_RANDOM, MADV_HUGEPAGE and the way back) must not reach
 * memory that has replaced the mapping. So the program's thread puts an event before munmap(),
 * and then waits while @act_advising is set. The monitor sets @act_advising, and gives the
 * advice only if it has taken all events. At least one of the two sees the other:
 * CPU 0 (monitor): act_advising = 1; reads that no event waits; madvise(); act_advising = 0.
 * CPU 1 (program): puts the event; reads act_advising, waits until it is 0; munmap().
 * Advice to read (MADV_WILLNEED, MADV_POPULATE_READ) leaves nothing behind and is not waited for.
 */
#include "act.h"

#include "area.h"
#include "call.h"
#include "device.h"
#include "look.h"
#include "say.h"
#include "uapi.h"

#include <string.h>

bool act_verbose, act_ending;
struct steer_page *act_page;
u64 act_ns, act_cpu_ns;
static u32 act_advising;
/* The kernel has no huge pages: it refuses both kinds of advice for them. */
static bool act_no_huge;

/* --- reports --- */

void act_missed(void)
{
	if (act_page)
		act_page->missed++;
}

static struct steer_map *act_free_entry(void)
{
	struct steer_map *found = NULL, *at;

	for (at = act_page->maps; at < act_page->maps + STEER_PAGE_MAPS; at++) {
		if (!at->id)
			return at;
		/* Entries of mappings that ended are kept while there is room. */
		if (at->ended && (!found || at->id < found->id))
			found = at;
	}
	return found;
}

void act_begin(struct map *map)
{
	static u64 last_id;
	struct steer_map *told = act_page ? act_free_entry() : NULL;

	map->told = told;
	if (!told) {
		act_missed();
		return;
	}
	memset(told, 0, sizeof(*told));
	told->start = map->start;
	told->bytes = map->bytes;
	told->offset = map->offset;
	told->writable = map->writable;
	told->private = !map->shared;
	__atomic_store_n(&told->id, ++last_id, __ATOMIC_RELEASE);
}

void act_end(struct map *map)
{
	if (map->told)
		map->told->ended = 1;
	map->told = NULL;
}

static void act_count(struct map *map, enum steer_act act, u64 bytes)
{
	if (!map->told)
		return;
	map->told->count[act]++;
	map->told->amount[act] += bytes;
}

/*
 * A descriptor of the program may be closed at any time, so the copy of its standard error
 * exists only while a line is written.
 */
static void act_write_error(const struct say *say)
{
	long pid = call(SYS_getpid, 0, 0, 0, 0, 0, 0);
	long process = call(SYS_pidfd_open, pid, 0, 0, 0, 0, 0), fd;

	if (process < 0)
		return;
	fd = call(SYS_pidfd_getfd, process, 2, 0, 0, 0, 0);
	if (fd >= 0) {
		call(SYS_write, fd, (long)say->text, (long)say->length, 0, 0, 0);
		call(SYS_close, fd, 0, 0, 0, 0, 0);
	}
	call(SYS_close, process, 0, 0, 0, 0, 0);
}

/* A line for the user, and the words that `hugemap stat` shows. */
static void act_tell(struct map *map, const char *what)
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
	if (act_verbose) {
		char line[400];

		say_into(&say, line, sizeof(line));
		say_text(&say, "hugemap: ");
		say_text(&say, map->told->path[0] ? map->told->path : "a mapping");
		say_text(&say, ": ");
		say_text(&say, map->told->why);
		say_text(&say, "\n");
		act_write_error(&say);
	}
}

/* --- the file --- */

/*
 * The event may be old, and another file may be mapped there by now. If its offset differs from
 * the offset of the event, the mapping is not steered.
 */
bool act_settle(struct map *map)
{
	struct area area;

	if (!area_find(map->start, &area) || area.start > map->start || !area.ino ||
	    area.offset + (map->start - area.start) != map->offset || !device_is_local(area.dev))
		return false;
	if (map->told) {
		map->told->dev = area.dev;
		map->told->ino = area.ino;
		memcpy(map->told->path, area.path, sizeof(map->told->path));
	}
	map->advisor.facts.window = device_read_ahead_kb(area.dev) * 1024 / PAGE_BYTES;
	return true;
}

/* --- modes --- */

static long act_advise(const struct map *map, u64 start, u64 end, int advice)
{
	return call(SYS_madvise, (long)map_address(map, start), (long)((end - start) * PAGE_BYTES),
		    advice, 0, 0, 0);
}

/* Give advice that changes the mapping. Returns false if an event waits; see above. */
static bool act_change(const struct map *map, u64 start, u64 end, int advice, long *result)
{
	bool quiet;

	__atomic_store_n(&act_advising, 1, __ATOMIC_SEQ_CST);
	quiet = !events_waiting();
	if (quiet)
		*result = act_advise(map, start, end, advice);
	__atomic_store_n(&act_advising, 0, __ATOMIC_SEQ_CST);
	return quiet;
}

bool act_is_advising(void)
{
	return __atomic_load_n(&act_advising, __ATOMIC_SEQ_CST);
}

void act_forget(void)
{
	act_page = NULL;
	act_advising = 0;
}

/* Give the kernel the advice that is wanted for a piece. Returns false if an event waits. */
static bool act_sync_piece(struct map *map, struct piece *p)
{
	enum hm_mode mode = map->suspended || act_ending ? HM_MODE_NORMAL : p->mode;
	u64 bytes = (p->end - p->start) * PAGE_BYTES;
	enum hm_mode change = p->given ^ mode;
	long result = 0;

	if (!change)
		return true;
	if (!map->advised) {
		map->advised = true;
		map_publish(map);
	}
	if (change & HM_MODE_RANDOM &&
	    !act_change(map, p->start, p->end, mode & HM_MODE_RANDOM ? MADV_RANDOM : MADV_NORMAL,
			&result))
		return false;
	p->given ^= change & HM_MODE_RANDOM;
	if (change & HM_MODE_HUGE && !act_no_huge &&
	    !act_change(map, p->start, p->end,
			mode & HM_MODE_HUGE ? MADV_HUGEPAGE : MADV_NOHUGEPAGE, &result))
		return false;
	p->given ^= change & HM_MODE_HUGE;
	act_no_huge |= change & HM_MODE_HUGE && result == -EINVAL;
	if (mode & HM_MODE_HUGE)
		act_count(map, STEER_ACT_HUGE, bytes);
	if (mode & HM_MODE_RANDOM)
		act_count(map, STEER_ACT_RANDOM, bytes);
	if (mode == HM_MODE_NORMAL)
		act_count(map, STEER_ACT_NORMAL, bytes);
	return true;
}

static bool act_sync_pieces(struct map *map)
{
	long result;
	u32 i;

	for (i = 0; i < map->npieces; i++)
		if (!act_sync_piece(map, &map->piece[i]))
			return false;
	for (i = 0; i < map->nhints; i++) {
		struct hint *h = &map->hint[i];

		if (h->again && !act_change(map, h->start, h->end, h->advice, &result))
			return false;
		h->again = false;
	}
	return true;
}

bool act_sync(struct map *map)
{
	if (!map->changed || map->moving)
		return true;
	map->changed = !act_sync_pieces(map);
	map_publish(map);
	return !map->changed;
}

bool act_sync_all(void)
{
	struct map *map;

	for_each_map(map) {
		if (!act_sync(map))
			return false;
		if (map->orphan && !map->changed)
			map_drop(map);
	}
	return true;
}

static void act_mode(struct map *map, const struct hm_advice *advice)
{
	static const char *const what[HM_MODES] = {
		[HM_MODE_NORMAL] = "left to the kernel again",
		[HM_MODE_RANDOM] = "single pages are read",
		[HM_MODE_HUGE] = "huge pages are read ahead",
		[HM_MODE_CHUNK] = "2 MB are read at a time",
	};
	bool all = advice->start == map->advisor.first && advice->end == map->advisor.end;

	map_set_mode(map, advice->start, advice->end, advice->mode);
	if (all && !map_is_hinted(map))
		act_tell(map, what[advice->mode]);
}

/* --- reads --- */

/* A waiting event may report the end of the mapping, so the monitor does not read the rest. */
static bool act_may_read(void)
{
	return !act_ending && !events_waiting();
}

static void act_ahead(struct map *map, const struct hm_advice *advice)
{
	u64 step = (u64)(advice->step > 0 ? advice->step : -advice->step), page, pages;

	pages = step == 1 ? hm_advisor_piece(&map->advisor) : 1;
	for (page = advice->start; page < advice->end && act_may_read();
	     page += step == 1 ? pages : step) {
		u64 end = page + pages < advice->end ? page + pages : advice->end;

		act_advise(map, page, end, MADV_WILLNEED);
		act_count(map, STEER_ACT_AHEAD, (end - page) * PAGE_BYTES);
	}
}

/* MADV_POPULATE_READ fails before Linux 5.14, and beyond the end of the file. */
static void act_fill(struct map *map, const struct hm_advice *advice)
{
	if (!act_may_read() || act_advise(map, advice->start, advice->end, MADV_POPULATE_READ) < 0)
		return;
	look_mark(map->seen, advice->start, advice->end);
	act_count(map, STEER_ACT_POPULATE, (advice->end - advice->start) * PAGE_BYTES);
}

void act_advices(struct map *map)
{
	u64 begin = now_ns(), cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	u32 i;

	for (i = 0; i < map->advisor.count; i++)
		if (map->advisor.advice[i].kind == HM_ADVICE_MODE)
			act_mode(map, &map->advisor.advice[i]);
	act_sync(map);
	for (i = 0; i < map->advisor.count && !map->changed && !map->moving; i++) {
		const struct hm_advice *advice = &map->advisor.advice[i];

		if (map_hinted(map, advice->start, advice->end))
			continue;
		if (advice->kind == HM_ADVICE_AHEAD)
			act_ahead(map, advice);
		else if (advice->kind == HM_ADVICE_FILL)
			act_fill(map, advice);
	}
	if (map->told && map->told->pattern != STEER_HINTED)
		map->told->pattern = map->advisor.pattern;
	act_ns += now_ns() - begin;
	act_cpu_ns += clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu;
}
