// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Calls of madvise(2). None of them changes a byte, dirties a page or allocates blocks of a file.
 *
 * Advice must not reach memory that has replaced the mapping. MADV_RANDOM, MADV_HUGEPAGE, and
 * MADV_NORMAL, MADV_NOHUGEPAGE to take them back, change the mapping. MADV_POPULATE_READ, which
 * marks hot pages as accessed, would allocate memory for holes in a file of tmpfs, and wait for the
 * server of a file of FUSE. So the program's thread puts an event before munmap(), and then waits
 * while @act_advising is set for a part of its range. The monitor sets @act_advising, and gives the
 * advice only if no event waits. At least one of the two threads sees the store of the other:
 *
 * CPU 0 (monitor): act_advising = 1; reads that no event waits; madvise(); act_advising = 0.
 * CPU 1 (program): puts the event; reads act_advising, waits until it is 0; munmap().
 *
 * This advice does no I/O, except for a hot page that was evicted since the look before. The
 * program does not wait for MADV_WILLNEED: the kernel looks up the file once, maps nothing, and
 * does not wait for the data.
 */
#include "act.h"

#include "area.h"
#include "call.h"
#include "device.h"
#include "record.h"
#include "state.h"
#include "uapi.h"

#include <string.h>

/* The mount points are read again after that time. */
#define ACT_DEVICE_NS 1000000000ull
/* Devices whose properties are kept. */
#define ACT_DEVICES 8u

bool act_ending, act_override_hints;
u64 act_ns, act_cpu_ns, act_ahead_bytes;
static u32 act_advising;
static u64 act_start, act_end; /* the range of that advice; set before it */
/* The kernel was built without huge pages and refuses both kinds of advice for them. */
static bool act_no_huge;

/* --- the file --- */

/*
 * Return whether @dev is a device of this machine, and set @window to its read-ahead in pages. The
 * result is kept for ACT_DEVICE_NS, because it takes reads of /proc and /sys. A new device replaces
 * the entry that was read first.
 */
static bool act_device(u64 dev, u64 *window)
{
	static struct {
		u64 dev, window, at;
		bool local;
	} devices[ACT_DEVICES], *d, *oldest;
	u64 now = now_ns();

	oldest = devices;
	for (d = devices; d < devices + ACT_DEVICES && d->dev != dev; d++)
		if (d->at < oldest->at)
			oldest = d;
	if (d == devices + ACT_DEVICES)
		d = oldest;
	if (dev != d->dev || now - d->at > ACT_DEVICE_NS) {
		d->local = device_is_local(dev);
		d->window = d->local ? device_read_ahead_kb(dev) * 1024 / PAGE_BYTES : 0;
		d->dev = dev;
		d->at = now;
	}
	*window = d->window;
	return d->local;
}

/* The kernel refuses advice that it does not know, even for no pages. */
bool act_reads_regions(void)
{
	return !act_no_huge && !call(SYS_madvise, 0, 0, MADV_HUGEPAGE, 0, 0, 0) &&
	       !call(SYS_madvise, 0, 0, MADV_DONTNEED_LOCKED, 0, 0, 0);
}

/* A program may split the mapping into several areas, with mprotect() for example. */
static u64 act_end_of_file(const struct area *first, u64 upto)
{
	struct area area = *first;
	u64 end = area.end;

	while (end < upto && area_find(end, &area) && area.start == end && area.dev == first->dev &&
	       area.ino == first->ino && area.offset - area.start == first->offset - first->start)
		end = area.end;
	return end;
}

/*
 * The event may be old, and the program may have mapped other memory at this address since. If the
 * offset of the area differs from the offset in the event, the mapping is not steered. Only the
 * part that is still mapped is steered.
 */
bool act_settle(struct map *map)
{
	struct area area;

	if (!area_find(map->start, &area) || area.start > map->start || !area.ino ||
	    area.offset + (map->start - area.start) != map->offset)
		return false;
	map->dev = area.dev;
	map->ino = area.ino;
	if (map->told) {
		map->told->dev = area.dev;
		map->told->ino = area.ino;
		memcpy(map->told->path, area.path, sizeof(map->told->path));
	}
	if (!act_device(area.dev, &map->advisor.facts.window)) {
		record_not_steered(map->told, "not on a disk of this machine");
		return false;
	}
	map->advisor.facts.small = !act_reads_regions();
	map_shorten(map, act_end_of_file(&area, map_end(map)));
	return true;
}

/* --- modes --- */

static long act_advise(const struct map *map, u64 start, u64 end, int advice)
{
	long result = call(SYS_madvise, (long)map_address(map, start),
			   (long)((end - start) * PAGE_BYTES), advice, 0, 0, 0);

	record_result(result);
	return result;
}

/* Give advice that the program waits for. Return false if an event waits; see the top. */
static bool act_change(const struct map *map, u64 start, u64 end, int advice, long *result)
{
	bool quiet;

	__atomic_store_n(&act_start, map_address(map, start), __ATOMIC_RELAXED);
	__atomic_store_n(&act_end, map_address(map, end), __ATOMIC_RELAXED);
	__atomic_store_n(&act_advising, 1, __ATOMIC_SEQ_CST);
	quiet = !events_waiting();
	if (quiet)
		*result = act_advise(map, start, end, advice);
	__atomic_store_n(&act_advising, 0, __ATOMIC_SEQ_CST);
	return quiet;
}

/*
 * If the range changes between these loads, the advice that this caller waits for has ended: its
 * event waits, so the monitor gives no other advice for its range.
 */
bool act_is_advising(u64 start, u64 bytes)
{
	return __atomic_load_n(&act_advising, __ATOMIC_SEQ_CST) &&
	       __atomic_load_n(&act_start, __ATOMIC_RELAXED) < start + bytes &&
	       start < __atomic_load_n(&act_end, __ATOMIC_RELAXED);
}

void act_forget(void)
{
	act_advising = 0;
}

/* Give the kernel the wanted advice for a piece. Return false if an event waits. */
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
	map->advisor.facts.small |= act_no_huge;
	if (mode & HM_MODE_HUGE)
		record_count(map->told, STEER_ACT_HUGE, bytes);
	if (mode & HM_MODE_RANDOM)
		record_count(map->told, STEER_ACT_RANDOM, bytes);
	if (mode == HM_MODE_NORMAL)
		record_count(map->told, STEER_ACT_NORMAL, bytes);
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

bool act_replace_hint(struct map *map)
{
	int back = map->hint[0].advice == MADV_HUGEPAGE ? MADV_NOHUGEPAGE : MADV_NORMAL;
	long result = 0;
	bool given;

	if (map->moving)
		return false;
	/* A child of fork() must not lose the hint. So the table changes before the kernel. */
	map_replace_hint(map);
	given = act_change(map, map->advisor.first, map->advisor.end, back, &result);
	if (given && !result)
		return true;
	map_restore_hint(map);
	/* A call that fails because of a hole in the range has changed the rest of the range. */
	map->hint[0].again = given;
	map_publish(map);
	return false;
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
		record_why(map->told, what[advice->mode], hm_advisor_reason(&map->advisor));
}

/* --- reads --- */

/*
 * A waiting event may report the end of the mapping. So the monitor takes it before it reads more.
 * A thread of the program may also wait for the end of the monitor.
 */
bool act_may_read(void)
{
	return state_is(RUNNING) && !act_ending && !events_waiting();
}

static void act_ahead(struct map *map, const struct hm_advice *advice)
{
	u64 step = (u64)(advice->step > 0 ? advice->step : -advice->step), page, pages;

	pages = step == 1 ? hm_advisor_piece(&map->advisor) : 1;
	for (page = advice->start; page < advice->end && act_may_read();
	     page += step == 1 ? pages : step) {
		u64 end = page + pages < advice->end ? page + pages : advice->end;

		act_advise(map, page, end, MADV_WILLNEED);
		act_ahead_bytes += (end - page) * PAGE_BYTES;
		record_count(map->told, STEER_ACT_AHEAD, (end - page) * PAGE_BYTES);
	}
}

bool act_can_mark(void)
{
	return call(SYS_madvise, 0, 0, MADV_POPULATE_READ, 0, 0, 0) == 0;
}

bool act_mark_accessed(const struct map *map, u64 start, u64 end)
{
	long result;

	return act_may_read() && (map_hinted(map, start, end) ||
				  act_change(map, start, end, MADV_POPULATE_READ, &result));
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

		if (advice->kind == HM_ADVICE_AHEAD && !map_hinted(map, advice->start, advice->end))
			act_ahead(map, advice);
	}
	act_ns += now_ns() - begin;
	act_cpu_ns += clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu;
}
