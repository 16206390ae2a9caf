// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Scans of all mappings together take at most a hundredth of a processor: they share one credit
 * (pace.h). While hot.c finds hot pages, the credit grows five times as fast.
 */
#include "scan.h"

#include "act.h"
#include "call.h"
#include "hot.h"
#include "memory.h"
#include "pace.h"
#include "record.h"
#include "say.h"
#include "state.h"
#include "wait.h"

#include <string.h>
#include <sys/resource.h>

/*
 * The program must touch this many bytes of a mapping before the monitor decides if huge pages
 * come.
 */
#define SCAN_TRIED (64ull << 20)
/* The interval at which the monitor reads the size of memory. */
#define SCAN_MEMORY_NS (5000 * MS)
/* If a process has read nothing for that long, its files are in the page cache. */
#define SCAN_CACHED_NS (50 * MS)
/* After so many requested bytes it is found out whether they push other pages out. */
#define SCAN_AHEAD (32ull << 20)
/* Memory that was too small is taken for too small for that long. */
#define SCAN_CROWDED_NS (30000 * MS)
/* The monitor detects a change of phase within this time. */
#define SCAN_ANSWER_NS (200 * MS)
/*
 * Most bytes of one slice. The kernel holds mmap_lock for the scan of a slice, so a slice becomes
 * shorter, down to SCAN_SLICE_LEAST, if its scan takes longer than SCAN_SLICE_NS.
 */
#define SCAN_SLICE_MOST (128ull << 20)
#define SCAN_SLICE_LEAST (2ull << 20)
#define SCAN_SLICE_NS (MS / 4)
/* Longest run that counts as single pages: a fault maps up to 16 cached pages around its page. */
#define SCAN_SINGLE 16u
/*
 * The monitor suspends the advice for a mapping after this many page faults and SCAN_ANSWER_NS
 * without a confirmation. N mappings that must be confirmed divide the faults and the scans among
 * them, so both limits are N times as large.
 */
#define SCAN_UNCONFIRMED 64u
/*
 * The monitor takes huge folios from a mapping if at least SCAN_WRITTEN bytes became dirty, and
 * more than SCAN_WRITTEN_TIMES as many bytes as were touched.
 */
#define SCAN_WRITTEN (16ull << 20)
#define SCAN_WRITTEN_TIMES 4u

/* Mappings with a hint for all of them get this part of the time of slices. */
#define SCAN_HINT_SHARE 10

static struct looker scan_looker;
static struct hm_touch *scan_runs; /* LOOK_RUNS of them */
static struct pace scan_pace = PACE_BEGIN;
static u64 scan_memory, scan_memory_at;
static struct hm_shared scan_shared;
static u64 scan_slice_bytes; /* bytes of the next slice */
/* Slices get half of the credit, and windows before streams the other half. */
static s64 scan_slice_credit = PACE_FIRST_NS / 2;
static u32 scan_round;
static u32 scan_sharers = 1; /* mappings that must be confirmed; 1 if there are none */
static u32 scan_next; /* entry of the table at which scan_all() continues */
static u64 scan_faults, scan_written; /* page faults of the program, dirty bytes, so far */
static struct wait scan_wait;
static u64 scan_major; /* major faults of the program so far, without those of the monitor */
static u64 scan_blocks; /* blocks of 512 bytes that the process has read from devices so far */
static u64 scan_touched; /* pages that the process has mapped so far */
static u64 scan_mapped; /* the same, and pages of mappings with hints */
static s64 scan_hint_credit; /* for slices of mappings with hints */
static u64 scan_reads; /* major faults and blocks read by the process so far */
static u64 scan_read; /* time at which scan_reads has changed last */
static u64 scan_read_again, scan_ahead_bytes; /* at the last call of memory_read_again() */
static u64 scan_crowded_at; /* time at which memory was found too small last; 0 = never */
static u64 scan_cpu; /* processor time that was charged */
static u64 scan_last; /* time of the last call of scan_run(); 0 = never */
static u64 scan_faulted; /* time at which scan_run() found page faults last */

/* Return whether an event waits or the thread must end. Neither must wait for the end of a scan. */
static bool scan_is_interrupted(void)
{
	return events_waiting() || !state_is(RUNNING);
}

/*
 * Return the thread's processor time since the last call, except for the time of the advice itself.
 */
static u64 scan_used(void)
{
	u64 cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID) - act_cpu_ns, used = cpu - scan_cpu;

	scan_cpu = cpu;
	return used;
}

/* Charge the credit with this time. Return it. */
static u64 scan_charge(void)
{
	u64 used = scan_used();

	pace_spend(&scan_pace, used);
	return used;
}

static u64 scan_read_pages(void)
{
	return scan_blocks / (PAGE_BYTES / 512);
}

static void scan_earn(u64 ns)
{
	s64 earned = pace_earn(&scan_pace, ns * hot_looks(scan_last)) / 2;

	scan_slice_credit += earned;
	scan_hint_credit += earned / SCAN_HINT_SHARE;
	if (scan_hint_credit > PACE_CREDIT_NS / SCAN_HINT_SHARE)
		scan_hint_credit = PACE_CREDIT_NS / SCAN_HINT_SHARE;
	if (scan_slice_credit > PACE_CREDIT_NS / 2)
		scan_slice_credit = PACE_CREDIT_NS / 2;
}

/* --- results of a scan --- */

/* Return whether the whole mapping has a mode that would slow down another phase of the program. */
static bool scan_must_confirm(const struct map *map)
{
	return map->advisor.mode != HM_MODE_NORMAL && !map_is_hinted(map);
}

static void scan_suspend(struct map *map, bool suspended)
{
	if (map->suspended == suspended)
		return;
	map->suspended = suspended;
	map->changed = true;
}

/* Return whether fresh accesses show that the mode of the mapping still fits. */
static bool scan_confirms(const struct map *map, u32 n)
{
	const struct hm_advisor *a = &map->advisor;
	const struct hm_touch *run;
	const struct hm_track *t;

	if (a->mode == HM_MODE_HUGE) {
		for (t = a->track; t < a->track + HM_TRACKS; t++)
			if (t->grown == a->look && t->way && t->next - t->start >= REGION_PAGES)
				return true;
		return false;
	}
	for (run = scan_runs; run < scan_runs + n; run++)
		if (a->mode == HM_MODE_CHUNK || run->end - run->start <= SCAN_SINGLE)
			return true;
	return false;
}

/*
 * Requests of several processes may fit into memory each, and not together. If the machine reads
 * as much again as this process requests, memory is too small for more.
 */
static void scan_find_crowded(u64 now)
{
	u64 ahead = act_ahead_bytes - scan_ahead_bytes, again;

	if (ahead < SCAN_AHEAD)
		return;
	again = memory_read_again();
	if (scan_ahead_bytes && again - scan_read_again > ahead)
		scan_crowded_at = now;
	scan_read_again = again;
	scan_ahead_bytes = act_ahead_bytes;
}

/*
 * Pass the runs of a look to the policy. @fresh: the same range was scanned a short time ago, so
 * these accesses are new.
 */
static void scan_found(struct map *map, u32 n, u64 now, bool fresh)
{
	u64 touched = 0;
	u32 i;

	for (i = 0; i < n; i++)
		touched += (scan_runs[i].end - scan_runs[i].start) * PAGE_BYTES;
	if (map->told)
		map->told->touched += touched;
	map->looked = true;
	scan_mapped += touched / PAGE_BYTES;
	if (map_is_hinted(map)) {
		hint_count(&map->hint_use, scan_runs, n, map->seen, map->advisor.first);
		return;
	}
	if (!map->nhints && map->advisor.mode & HM_MODE_HUGE)
		map->tried += touched;
	map->touched += touched;
	scan_touched += touched / PAGE_BYTES;
	map->advisor.facts.read = scan_read_pages();
	map->advisor.facts.used = scan_touched;
	map->advisor.facts.memory = scan_memory / PAGE_BYTES;
	map->advisor.facts.shared = scan_shared;
	map->advisor.facts.waits = scan_wait.waits;
	map->advisor.facts.cached = now - scan_read > SCAN_CACHED_NS;
	scan_find_crowded(now);
	hot_found(map, scan_runs, n);
	map->advisor.facts.crowded = scan_crowded_at && now - scan_crowded_at < SCAN_CROWDED_NS;
	hm_advisor_look(&map->advisor, scan_runs, n, now / MS);
	if (map->advisor.count || (fresh && scan_confirms(map, n))) {
		map->confirmed_at = now;
		map->confirmed_faults = scan_faults;
		scan_suspend(map, false);
	}
	if (map->advisor.count)
		scan_pace.fruitless = 0;
	record_pattern(map->told, (enum steer_pattern)map->advisor.pattern);
	if (map->advisor.count || map->changed)
		act_advices(map);
}

/*
 * Take huge folios from a mapping whose program stores little but dirties much. A program that
 * syncs small pieces makes a whole folio dirty with each piece, so with huge folios it would write
 * far more than it stores.
 */
static void scan_judge(struct map *map)
{
	u64 written = scan_written - map->judged_written;
	bool huge = false;
	u32 i;

	if (!map->advisor.facts.writable || map->advisor.facts.small_writes)
		return;
	for (i = 0; i < map->npieces; i++)
		huge |= map->piece[i].given & HM_MODE_HUGE;
	if (huge && written >= SCAN_WRITTEN && written > SCAN_WRITTEN_TIMES * map->touched) {
		map->advisor.facts.small_writes = true;
		map_set_mode(map, map->advisor.first, map->advisor.end, HM_MODE_NORMAL);
	} else if (!huge || map->touched >= SCAN_WRITTEN) {
		map->judged_written = scan_written;
		map->touched = 0;
	}
}

/* --- scans --- */

/* Scan the windows before the streams of a mapping. They are short, so this is cheap. */
static void scan_ahead(struct map *map, u64 now)
{
	struct hm_touch window[HM_TRACKS];
	u32 count = look_windows(&map->advisor, window), n = 0, i;
	u64 huge = 0;

	for (i = 0; i < count; i++)
		look(&scan_looker, map_address(map, window[i].start),
		     map_address(map, window[i].end), map->base, map->seen, scan_runs, &n, &huge);
	if (n)
		scan_found(map, n, now, true);
}

/* Scan a range. Return the address at which the scan stopped. */
static u64 scan_range(struct map *map, u64 at, u64 end, u64 now, bool fresh)
{
	u32 n;

	while (at && at < end && !scan_is_interrupted()) {
		n = 0;
		at = look(&scan_looker, at, end, map->base, map->seen, scan_runs, &n, &map->huge);
		if (n)
			scan_found(map, n, now, fresh);
	}
	return at ? at : end;
}

/*
 * A pass has reached the end of a mapping with a hint for all of it. Report the hint if it makes
 * the program slower, or replace it.
 */
static void scan_judge_hint(struct map *map)
{
	struct hint_use *use = &map->hint_use;
	int advice = map_whole_hint(map)->advice;
	bool fits = hint_fits(map->bytes, scan_memory);
	char text[120], what[40];
	struct say say;

	hint_end_pass(use, &(struct hint_counters){ scan_major, scan_read_pages(), scan_mapped });
	/* Hints of both kinds may cost time only together. */
	if (map->hint_kinds != hint_kind(advice))
		return;
	if (!hint_hurts(use, advice, fits)) {
		if (use->reported && map->told)
			map->told->why[0] = '\0';
		use->reported = 0;
		return;
	}
	if (!act_override_hints && !hint_must_report(use))
		return;
	hint_describe(use, advice, map->advisor.facts.window, text, sizeof(text));
	say_into(&say, what, sizeof(what));
	say_text(&say, hint_name(advice));
	if (!act_override_hints) {
		say_text(&say, " costs time");
	} else if (act_replace_hint(map)) {
		say_text(&say, " is replaced");
		if (map->told)
			map->told->pattern = STEER_UNKNOWN;
	} else {
		return;
	}
	record_why(map->told, what, text);
}

/* A pass has reached the end of a mapping. */
static void scan_end_pass(struct map *map)
{
	if (map_is_hinted(map))
		scan_judge_hint(map);
	map->passed_at = scan_last;
	/*
	 * The kernel has had enough time to map huge pages. If it has mapped none, it never will.
	 */
	if (map->tried >= SCAN_TRIED && !map->huge_works)
		map->advisor.facts.small = !map->huge || !act_reads_regions();
	map->huge_works |= map->huge > 0;
	if (map->told) {
		map->told->huge = map->huge;
		map->told->huge_works = map->huge_works ? 1 : map->tried >= SCAN_TRIED ? 2 : 0;
	}
	map->at = map->start;
	map->pass_ns = map->scan_ns;
	map->scan_ns = map->huge = 0;
	map->round = scan_round;
}

static u64 scan_slice_end(const struct map *map, u64 at)
{
	u64 end = (at + scan_slice_bytes) / REGION_BYTES * REGION_BYTES;

	return end < map_end(map) ? end : map_end(map);
}

/* Scan the last slices of a mapping again. The pages that this scan finds are fresh. */
static void scan_slices_again(struct map *map, u64 now)
{
	bool fresh = now - map->slice_at < SCAN_ANSWER_NS;
	u64 huge = map->huge, at;

	scan_charge();
	for (at = map->slice; at < map->slice_end; at += scan_slice_bytes)
		scan_range(map, at, map_earlier(at + scan_slice_bytes, map->slice_end), now, fresh);
	map->huge = huge;
	map->slice_at = 0;
	scan_slice_credit -= (s64)scan_charge();
}

/*
 * Scan the next slice of a mapping. If scans are @slow, a page may have been touched long before
 * its slice is scanned. So the next look scans the slices of this look again.
 */
static void scan_slice(struct map *map, u64 now, bool slow)
{
	u64 used;

	if (map->slice_at != now)
		map->slice = map->at;
	map->at = scan_range(map, map->at, scan_slice_end(map, map->at), now, !slow);
	map->slice_end = map->at;
	map->slice_at = slow && !map_is_hinted(map) ? now : 0;
	used = scan_charge();
	scan_slice_credit -= (s64)used;
	if (map_is_hinted(map))
		scan_hint_credit -= (s64)used;
	map->scan_ns += used;
	if (used > SCAN_SLICE_NS && scan_slice_bytes > SCAN_SLICE_LEAST)
		scan_slice_bytes /= 2;
	else if (used < SCAN_SLICE_NS / 4 && scan_slice_bytes < SCAN_SLICE_MOST)
		scan_slice_bytes *= 2;
	if (map->at >= map_end(map))
		scan_end_pass(map);
}

/* Return whether a scan of all mappings takes so long that it would detect a new phase too late. */
static bool scan_is_slow(void)
{
	struct map *map;
	u64 sum = 0;

	for_each_map(map)
		if (!map_is_hinted(map))
			sum += map->pass_ns > map->scan_ns ? map->pass_ns : map->scan_ns;
	return sum * 2 * PACE_SHARE > SCAN_ANSWER_NS;
}

/*
 * A hint of the program covers a mapping. Its scans only show whether the hint costs time, so it is
 * scanned seldom.
 */
static bool scan_hint_waits(const struct map *map)
{
	bool paused = map->at == map->start && map->passed_at &&
		      scan_last - map->passed_at < HINT_SCAN_NS;

	return scan_hint_credit <= 0 || paused || !hint_name(map_whole_hint(map)->advice);
}

/* Skip a mapping that gets no advice now. */
static bool scan_skips(const struct map *map)
{
	return map->orphan || map->moving || map->unsettled ||
	       (map_is_hinted(map) && scan_hint_waits(map));
}

/* Scan slices until their credit is spent, or until each mapping was scanned completely once. */
static void scan_all(u64 now)
{
	bool slow = scan_is_slow();
	u32 limit = map_limit(), left = limit, confirm = 0;
	struct hm_shared shared = {};
	struct map *map;
	bool skips;

	for_each_map(map) {
		if (map_is_hinted(map)) {
			map->slice_at = 0;
			continue;
		}
		if (scan_skips(map))
			continue;
		hm_advisor_share(&map->advisor, now / MS, &shared);
		scan_judge(map);
		scan_ahead(map, now);
		if (map->slice_at && scan_slice_credit > 0)
			scan_slices_again(map, now);
		if (!scan_must_confirm(map))
			continue;
		confirm++;
		if (slow && now - map->confirmed_at > SCAN_ANSWER_NS * scan_sharers &&
		    scan_faults - map->confirmed_faults > SCAN_UNCONFIRMED * scan_sharers)
			scan_suspend(map, true);
	}
	scan_shared = shared;
	scan_sharers = confirm ? confirm : 1;
	scan_charge();
	/*
	 * The loop ends when a whole turn through the table has found no mapping to scan: the round
	 * is complete. It stops at a mapping whose last slices must be scanned again first.
	 */
	while (left && scan_slice_credit > 0 && !scan_is_interrupted()) {
		map = map_entry(scan_next % limit);
		skips = !map || scan_skips(map);
		if (!skips && map->slice_at && (map->slice_at != now || map->slice_end != map->at))
			break;
		scan_next++;
		if (skips || map->round == scan_round) {
			left--;
			continue;
		}
		scan_slice(map, now, slow);
		left = limit;
	}
	if (!left)
		scan_round++;
}

/* --- how often --- */

static u64 scan_cpu_ns(const struct rusage *usage)
{
	return ((u64)usage->ru_utime.tv_sec + (u64)usage->ru_stime.tv_sec) * 1000 * MS +
	       ((u64)usage->ru_utime.tv_usec + (u64)usage->ru_stime.tv_usec) * 1000;
}

/*
 * Return the page faults of the program so far. Those of the monitor, whose MADV_POPULATE_READ
 * faults for each page that it maps, are no evidence of accesses.
 */
static u64 scan_count_faults(void)
{
	struct rusage usage, own;

	if (call(SYS_getrusage, RUSAGE_SELF, (long)&usage, 0, 0, 0, 0) < 0 ||
	    call(SYS_getrusage, RUSAGE_THREAD, (long)&own, 0, 0, 0, 0) < 0)
		return 0;
	if ((u64)usage.ru_majflt + (u64)usage.ru_inblock != scan_reads)
		scan_read = scan_last;
	scan_major = (u64)(usage.ru_majflt - own.ru_majflt);
	scan_blocks = (u64)usage.ru_inblock;
	scan_reads = (u64)usage.ru_majflt + scan_blocks;
	scan_written = (u64)usage.ru_oublock * 512;
	wait_count(&scan_wait, scan_last, scan_cpu_ns(&usage) - scan_cpu_ns(&own), scan_major);
	if (record_page) {
		record_page->minflt = (u64)usage.ru_minflt;
		record_page->majflt = (u64)usage.ru_majflt;
		record_page->read_bytes = (u64)usage.ru_inblock * 512;
	}
	return (u64)(usage.ru_minflt - own.ru_minflt) + scan_major;
}

/* hot.c needs the bits of now in a range of pages. */
static void scan_again(struct map *map, u64 start, u64 end)
{
	u64 huge = map->huge;

	scan_range(map, map_address(map, start), map_address(map, end), scan_last, false);
	map->huge = huge;
}

static void scan_look(u64 now)
{
	u64 begin = scan_cpu;

	if (now >= scan_memory_at) {
		scan_memory = memory_for_cache();
		scan_memory_at = now + SCAN_MEMORY_NS;
	}
	scan_pace.fruitless++;
	scan_all(now);
	scan_charge();
	hot_refresh(now, scan_major, scan_memory / PAGE_BYTES, scan_again);
	if (record_page) {
		record_page->looks++;
		record_page->look_ns += scan_cpu - begin;
		record_page->act_ns = act_ns;
	}
}

/*
 * The program has made no page fault for so long that its next accesses may be of another kind.
 * Suspend all advice until new accesses confirm it.
 */
static void scan_suspend_all(void)
{
	struct map *map;

	for_each_map(map)
		if (map->advised)
			scan_suspend(map, true);
	act_sync_all();
}

u64 scan_run(u64 now)
{
	u64 faults, quiet = now - scan_faulted;
	bool paid;

	scan_earn(now - scan_last);
	scan_last = now;
	/* The pause has paid the debt, but not this wake-up. */
	paid = scan_pace.credit_ns >= 0;
	scan_charge();
	faults = scan_count_faults();
	if (faults == scan_faults) {
		if (quiet > PACE_ASLEEP_NS)
			scan_suspend_all();
		return pace_idle_ns(quiet);
	}
	if (paid) {
		if (quiet > PACE_PAUSE_NS)
			scan_pace.fruitless = 0;
		scan_faults = faults;
		scan_faulted = now;
		scan_look(now);
	}
	return pace_wait_ns(&scan_pace, hot_looks(now));
}

void scan_owe_events(void)
{
	pace_owe(&scan_pace, scan_used());
}

bool scan_is_overdrawn(void)
{
	return pace_is_overdrawn(&scan_pace);
}

void scan_count_reads(void)
{
	struct rusage usage;

	if (call(SYS_getrusage, RUSAGE_SELF, (long)&usage, 0, 0, 0, 0) == 0)
		scan_blocks = (u64)usage.ru_inblock;
}

void scan_add(struct map *map, bool existed)
{
	map->advisor.facts.read_at_start = existed ? 0 : scan_read_pages();
}

void scan_soon(void)
{
	scan_pace.fruitless = 0;
	scan_faulted = now_ns();
}

bool scan_begin(struct scan_buffers *buffers)
{
	long fd = call(SYS_openat, AT_FDCWD, (long)"/proc/self/pagemap", O_RDONLY | O_CLOEXEC, 0, 0,
		       0);
	u64 now;

	if (fd < 0)
		return false;
	looker_open(&scan_looker, (int)fd, buffers->looks);
	scan_runs = buffers->runs;
	scan_memory_at = 0;
	scan_slice_bytes = SCAN_SLICE_MOST;
	scan_cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	act_cpu_ns = 0;
	hot_begin();
	now = now_ns();
	/* The credit of the process goes on: a program must not get a new one by a new thread. */
	if (scan_last)
		scan_earn(now - scan_last);
	scan_last = scan_faulted = now;
	return true;
}

void scan_forget(void)
{
	scan_pace = (struct pace){};
	scan_wait = (struct wait){};
	scan_slice_credit = scan_hint_credit = 0;
	scan_last = now_ns();
}
