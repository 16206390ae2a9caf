// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The monitor thread exists while large mappings do.
 *
 * It has a table of descriptors of its own that begins empty. It takes no signals, and calls no
 * function of the C library that takes a lock or allocates. Its processor time is paid from one
 * credit of a hundredth of a processor (pace.h). While there are no page faults it scans nothing.
 *
 * All its data is its own, except for the ring of events and the page that others read.
 */
#include "watch.h"

#include "act.h"
#include "call.h"
#include "look.h"
#include "memory.h"
#include "pace.h"
#include "permit.h"
#include "say.h"
#include "thread.h"
#include "uapi.h"

#include <sched.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>

/* After so many touched bytes it is decided whether huge pages come. */
#define WATCH_TRIED (64ull << 20)
/* The size of memory is read that often. */
#define WATCH_MEMORY_NS (5000 * MS)
/* The thread stays for that long after its last mapping. */
#define WATCH_LINGER_NS (50 * MS)
/* A change of phase is answered within that time. */
#define WATCH_ANSWER_NS (200 * MS)
/* mmap_lock is held for a scan of so much at most, and less if pages are many and single. */
#define WATCH_SLICE_MOST (128ull << 20)
#define WATCH_SLICE_LEAST (2ull << 20)
#define WATCH_SLICE_NS (MS / 4)
/* A run of more pages than that is none of single pages: a fault maps 16 that are cached. */
#define WATCH_SINGLE 16u
/* So many page faults without a confirmation suspend the advice for a mapping. */
#define WATCH_UNCONFIRMED 64u
/* A mapping loses huge folios if so much became dirty, and so many times its touched bytes. */
#define WATCH_WRITTEN (16ull << 20)
#define WATCH_WRITTEN_TIMES 4u

enum state {
	STOPPED,
	STARTING, /* the thread is being made; the maker takes no signals */
	RUNNING,
	STOPPING,
};

bool watch_verbose;

static int watch_state = STOPPED; /* enum state */
static int watch_barred; /* calls that need the process without the thread */
/* The thread was tried, and this kernel or its rules do not allow it. */
#ifdef HM_NO_WATCH
static bool watch_cannot = true;
#else
static bool watch_cannot;
#endif
static struct thread watch_thread;
static struct looker watch_looker;
static struct pace watch_pace;
static u64 watch_memory, watch_memory_at;
static u64 watch_slice; /* bytes that are scanned at once */
static s64 watch_slice_credit; /* slices get half of the credit, the streams the rest */
static u32 watch_round; /* of scans */
static u32 watch_next; /* the entry in the table where scans go on */
static u64 watch_faults, watch_written; /* of the process so far: page faults, dirty bytes */
static u64 watch_cpu; /* processor time that was charged */

/*
 * All memory of the monitor, taken once, in a call of the program that maps memory. Memory taken
 * at another time could come to lie in a hole that the program has just made for itself.
 */
static struct own {
	char thread[THREAD_BYTES];
	struct steer_page page __attribute__((aligned(4096)));
	char pad[4096 - sizeof(struct steer_page) % 4096];
	struct hm_touch runs[LOOK_RUNS];
	u64 looks[LOOK_BYTES / 8];
	struct map maps[STEER_PAGE_MAPS];
} *watch_own;

static bool watch_is(enum state state)
{
	return __atomic_load_n(&watch_state, __ATOMIC_SEQ_CST) == (int)state;
}

static bool watch_change(enum state from, enum state to)
{
	int expected = (int)from;

	return __atomic_compare_exchange_n(&watch_state, &expected, (int)to, false,
					   __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

/* Something waits that is more urgent than a scan. */
static bool watch_is_interrupted(void)
{
	return events_waiting() || !watch_is(RUNNING);
}

/* Charge all processor time but that of the advice itself. Returns the charged time. */
static u64 watch_charge(void)
{
	u64 cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID) - act_cpu_ns, used = cpu - watch_cpu;

	watch_cpu = cpu;
	pace_spend(&watch_pace, used);
	return used;
}

static void watch_earn(u64 ns)
{
	pace_earn(&watch_pace, ns);
	watch_slice_credit += (s64)(ns / PACE_SHARE / 2);
	if (watch_slice_credit > PACE_CREDIT_NS / 2)
		watch_slice_credit = PACE_CREDIT_NS / 2;
}

/* --- results of a scan --- */

/* The whole mapping has a mode that harms if another phase has begun. */
static bool watch_must_confirm(const struct map *map)
{
	return map->advisor.mode != HM_MODE_NORMAL && !map_is_hinted(map);
}

static void watch_suspend(struct map *map, bool suspended)
{
	if (map->suspended == suspended)
		return;
	map->suspended = suspended;
	map->changed = true;
}

/* Do fresh accesses show that the mode of the mapping still fits? */
static bool watch_confirms(const struct map *map, u32 n)
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
	for (run = watch_own->runs; run < watch_own->runs + n; run++)
		if (a->mode == HM_MODE_CHUNK || run->end - run->start <= WATCH_SINGLE)
			return true;
	return false;
}

/* @fresh: the same range was scanned a short time ago, so these accesses are new. */
static void watch_found(struct map *map, u32 n, u64 now, bool fresh)
{
	u64 touched = 0;
	u32 i;

	for (i = 0; i < n; i++)
		touched += (watch_own->runs[i].end - watch_own->runs[i].start) * PAGE_BYTES;
	if (map->told)
		map->told->touched += touched;
	if (!map->nhints && map->advisor.mode & HM_MODE_HUGE)
		map->tried += touched;
	map->touched += touched;
	map->advisor.facts.memory = watch_memory / PAGE_BYTES;
	hm_advisor_look(&map->advisor, watch_own->runs, n, now / MS);
	if (map->advisor.count || (fresh && watch_confirms(map, n))) {
		map->confirmed_at = now;
		map->confirmed_faults = watch_faults;
		watch_suspend(map, false);
	}
	if (map->advisor.count)
		watch_pace.fruitless = 0;
	if (map->advisor.count || map->changed)
		act_advices(map);
}

/*
 * A program that syncs small pieces makes a whole folio dirty with each piece. In huge folios it
 * would write far more than it stores, so such a mapping gets none.
 */
static void watch_judge(struct map *map)
{
	u64 written = watch_written - map->judged_written;
	bool huge = false;
	u32 i;

	if (!map->advisor.facts.writable || map->advisor.facts.small_writes)
		return;
	for (i = 0; i < map->npieces; i++)
		huge |= map->piece[i].given & HM_MODE_HUGE;
	if (huge && written >= WATCH_WRITTEN && written > WATCH_WRITTEN_TIMES * map->touched) {
		map->advisor.facts.small_writes = true;
		map_set_mode(map, map->advisor.first, map->advisor.end, HM_MODE_NORMAL);
	} else if (!huge || map->touched >= WATCH_WRITTEN) {
		map->judged_written = watch_written;
		map->touched = 0;
	}
}

/* --- scans --- */

/* There is little ahead of a stream, so this is cheap. */
static void watch_scan_ahead(struct map *map, u64 now)
{
	struct hm_touch window[HM_TRACKS];
	u32 count = look_windows(&map->advisor, window), n = 0, i;
	u64 huge = 0;

	for (i = 0; i < count; i++)
		look(&watch_looker, map_address(map, window[i].start),
		     map_address(map, window[i].end), map->base, map->seen, watch_own->runs, &n,
		     &huge);
	if (n)
		watch_found(map, n, now, true);
}

/* Returns where the scan stopped. */
static u64 watch_scan(struct map *map, u64 at, u64 end, u64 now, bool fresh)
{
	u32 n;

	while (at && at < end && !watch_is_interrupted()) {
		n = 0;
		at = look(&watch_looker, at, end, map->base, map->seen, watch_own->runs, &n,
			  &map->huge);
		if (n)
			watch_found(map, n, now, fresh);
	}
	return at ? at : end;
}

/* A scan of all of a mapping is complete. */
static void watch_end_pass(struct map *map)
{
	/* By now the kernel maps touched pages as huge pages, or it never will. */
	if (map->tried >= WATCH_TRIED && !map->huge_works)
		map->advisor.facts.small = !map->huge;
	map->huge_works |= map->huge > 0;
	if (map->told) {
		map->told->huge = map->huge;
		map->told->huge_works = map->huge_works ? 1 : map->advisor.facts.small ? 2 : 0;
	}
	map->at = map->start;
	map->pass_ns = map->scan_ns;
	map->scan_ns = map->huge = 0;
	map->round = watch_round;
}

static u64 watch_slice_end(const struct map *map, u64 at)
{
	u64 end = (at + watch_slice) / REGION_BYTES * REGION_BYTES;

	return end < map_end(map) ? end : map_end(map);
}

/*
 * Scan the next slice of a mapping. If scans are @slow, a page may have been touched long before
 * its slice is scanned. So each slice is scanned twice in succession, and the pages that the
 * second scan finds are fresh.
 */
static void watch_scan_slice(struct map *map, u64 now, bool slow)
{
	u64 at = map->at, huge, used;

	if (slow && map->slice_at && map->slice < at) {
		huge = map->huge;
		watch_scan(map, map->slice, at, now, now - map->slice_at < WATCH_ANSWER_NS);
		map->huge = huge;
		watch_slice_credit -= (s64)watch_charge();
	}
	map->slice = at;
	map->slice_at = now;
	map->at = watch_scan(map, at, watch_slice_end(map, at), now, !slow);
	used = watch_charge();
	watch_slice_credit -= (s64)used;
	map->scan_ns += used;
	if (used > WATCH_SLICE_NS && watch_slice > WATCH_SLICE_LEAST)
		watch_slice /= 2;
	else if (used < WATCH_SLICE_NS / 4 && watch_slice < WATCH_SLICE_MOST)
		watch_slice *= 2;
	if (map->at >= map_end(map))
		watch_end_pass(map);
}

/* Does a scan of all mappings take longer than a change of phase may go unanswered? */
static bool watch_is_slow(void)
{
	struct map *map;
	u64 sum = 0;

	for_each_map(map)
		sum += map->pass_ns > map->scan_ns ? map->pass_ns : map->scan_ns;
	return sum * 2 * PACE_SHARE > WATCH_ANSWER_NS;
}

/* If the program has advised all of a mapping, the monitor gives no advice: no look is needed. */
static bool watch_skips(const struct map *map)
{
	return map->orphan || map->moving || map_is_hinted(map);
}

/* Scan until the credit for slices is spent, or all of each mapping was scanned once. */
static void watch_scan_all(u64 now)
{
	bool slow = watch_is_slow();
	u32 left = STEER_PAGE_MAPS;
	struct map *map;

	for_each_map(map) {
		if (watch_skips(map))
			continue;
		watch_judge(map);
		watch_scan_ahead(map, now);
		if (slow && watch_must_confirm(map) && now - map->confirmed_at > WATCH_ANSWER_NS &&
		    watch_faults - map->confirmed_faults > WATCH_UNCONFIRMED)
			watch_suspend(map, true);
	}
	watch_charge();
	/* @left entries in succession had nothing to scan: the round is complete. */
	while (left && watch_slice_credit > 0 && !watch_is_interrupted()) {
		map = &steer_maps[watch_next++ % STEER_PAGE_MAPS];
		if (!map->start || watch_skips(map) || map->round == watch_round) {
			left--;
			continue;
		}
		watch_scan_slice(map, now, slow);
		left = STEER_PAGE_MAPS;
	}
	if (!left)
		watch_round++;
}

/* --- how often --- */

static u64 watch_count_faults(void)
{
	struct rusage usage;

	if (call(SYS_getrusage, RUSAGE_SELF, (long)&usage, 0, 0, 0, 0) < 0)
		return 0;
	watch_written = (u64)usage.ru_oublock * 512;
	if (act_page) {
		act_page->minflt = (u64)usage.ru_minflt;
		act_page->majflt = (u64)usage.ru_majflt;
		act_page->read_bytes = (u64)usage.ru_inblock * 512;
	}
	return (u64)usage.ru_minflt + (u64)usage.ru_majflt;
}

static void watch_look(u64 now)
{
	u64 begin = watch_cpu;

	if (now >= watch_memory_at) {
		watch_memory = memory_for_cache();
		watch_memory_at = now + WATCH_MEMORY_NS;
	}
	watch_pace.fruitless++;
	watch_scan_all(now);
	watch_charge();
	if (act_page) {
		act_page->looks++;
		act_page->look_ns += watch_cpu - begin;
		act_page->act_ns = act_ns;
	}
}

/* --- the thread --- */

static int watch_open(const char *path)
{
	return (int)call(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC, 0, 0, 0);
}

/*
 * The page lies in a memfd of the monitor's table, where other processes find it. Its contents
 * stay when the thread goes and comes again.
 */
static void watch_open_page(void)
{
	struct steer_page *page = &watch_own->page;
	int fd = (int)call(SYS_memfd_create, (long)STEER_MEMFD_NAME, 1 /* MFD_CLOEXEC */, 0, 0, 0,
			   0);

	if (fd >= 0 &&
	    (act_page ? call(SYS_write, fd, (long)page, sizeof(*page), 0, 0, 0) ==
				(long)sizeof(*page) :
			call(SYS_ftruncate, fd, sizeof(*page), 0, 0, 0, 0) == 0) &&
	    !call_failed(call(SYS_mmap, (long)page, sizeof(*page), PROT_READ | PROT_WRITE,
			      MAP_SHARED | MAP_FIXED, fd, 0)))
		call(SYS_madvise, (long)page, sizeof(*page), MADV_DONTFORK, 0, 0, 0);
	page->pid = (uint32_t)call(SYS_getpid, 0, 0, 0, 0, 0, 0);
	page->version = STEER_VERSION;
	page->magic = STEER_MAGIC;
	__atomic_store_n(&act_page, page, __ATOMIC_RELEASE);
}

/* The monitor needs no rights for its own process, and a program may drop its own. */
static void watch_drop_rights(void)
{
	struct {
		uint32_t version;
		int pid;
	} header = { 0x20080522 /* _LINUX_CAPABILITY_VERSION_3 */, 0 };
	uint32_t none[6] = {};

	call(SYS_capset, (long)&header, (long)none, 0, 0, 0, 0);
}

static bool watch_begin(void)
{
	struct sched_param normal = {};

	call(SYS_prctl, PR_SET_NAME, (long)STEER_THREAD_NAME, 0, 0, 0, 0);
	/* The thread that started it may have a real-time priority. */
	call(SYS_sched_setscheduler, 0, SCHED_OTHER, (long)&normal, 0, 0, 0);
	/* From here on the table is the monitor's own, and empty. */
	if (call(SYS_close_range, 0, ~0u, CLOSE_RANGE_UNSHARE, 0, 0, 0) < 0)
		return false;
	looker_open(&watch_looker, watch_open("/proc/self/pagemap"), watch_own->looks);
	if (watch_looker.fd < 0)
		return false;
	watch_drop_rights();
	watch_open_page();
	act_verbose = watch_verbose;
	watch_memory_at = 0;
	watch_slice = WATCH_SLICE_MOST;
	watch_cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	act_cpu_ns = 0;
	watch_pace = PACE_BEGIN;
	watch_slice_credit = PACE_CREDIT_NS / 2;
	return true;
}

/* Returns whether a mapping is new. @settle: the monitor can find out about its file. */
static bool watch_take_events(bool settle)
{
	struct event event;
	unsigned int lost;
	struct map *map;
	bool new = false;

	while (event_take(&event)) {
		map = map_follow(&event);
		if (!map)
			continue;
		if (settle && act_settle(map))
			new = true;
		else
			map_drop(map);
	}
	lost = events_lost();
	if (lost)
		map_recover(lost & EVENTS_LOST_HINT);
	events_done();
	return new;
}

/* The field of /proc/self/stat so many after the name, which may contain blanks. */
static const char *watch_stat_field(const char *text, int n)
{
	const char *at = strrchr(text, ')');

	while (at && n--)
		at = strchr(at + 1, ' ');
	return at ? at + 1 : "";
}

/*
 * A process ends with its last thread, which must not be this one. If the first thread has ended
 * and no other one is left, this thread ends at once.
 */
static void watch_end_with_others(void)
{
	char text[1024];

	call_read_text("/proc/self/stat", text, sizeof(text));
	if (*watch_stat_field(text, 1) == 'Z' && say_parse(watch_stat_field(text, 18)) <= 2)
		call(SYS_exit, 0, 0, 0, 0, 0, 0);
}

/* No access for so long that the next one may be of another kind. */
static void watch_suspend_all(void)
{
	struct map *map;

	for_each_map(map)
		if (map->advised)
			watch_suspend(map, true);
}

/* Returns when there has been no mapping for a while, or when the thread is to end. */
static void watch_loop(void)
{
	u64 now = now_ns(), last = now, mapped = now, faulted = now, alive = now, faults;

	while (watch_is(RUNNING)) {
		uint32_t word = events_word();

		if (watch_take_events(true))
			watch_pace.fruitless = 0;
		now = now_ns();
		if (!act_sync_all()) {
			/* Another event is being put. */
			events_sleep(word, MS);
			continue;
		}
		if (map_count())
			mapped = now;
		else if (now - mapped > WATCH_LINGER_NS)
			return;
		if (now - alive >= PACE_ASLEEP_NS) {
			watch_end_with_others();
			alive = now;
		}
		watch_charge();
		watch_earn(now - last);
		last = now;
		faults = watch_count_faults();
		if (faults == watch_faults) {
			if (now - faulted > PACE_ASLEEP_NS) {
				watch_suspend_all();
				act_sync_all();
			}
			events_sleep(word,
				     map_count() ? pace_idle_ns(now - faulted) : WATCH_LINGER_NS);
			continue;
		}
		if (watch_pace.credit_ns >= 0) {
			if (now - faulted > PACE_PAUSE_NS)
				watch_pace.fruitless = 0;
			watch_faults = faults;
			faulted = now;
			watch_look(now);
		}
		events_sleep(word, pace_wait_ns(&watch_pace));
	}
}

static void watch_report_running(bool running)
{
	if (act_page)
		act_page->running = running;
}

/* Take all advice back and forget all mappings. */
static void watch_end(void)
{
	struct map *map;
	uint32_t word;

	act_ending = true;
	for (;;) {
		word = events_word();
		watch_take_events(false);
		for_each_map(map)
			map->changed = true;
		if (act_sync_all())
			break;
		events_sleep(word, MS);
	}
	for_each_map(map)
		map_drop(map);
	act_ending = false;
}

/* Once the state is STOPPED another thread may begin, so nothing is touched after that. */
static int watch_run(void *unused)
{
	struct event event;

	(void)unused;
	watch_change(STARTING, RUNNING);
	if (!watch_begin()) {
		/* It would fail again. */
		__atomic_store_n(&watch_cannot, true, __ATOMIC_SEQ_CST);
		while (event_take(&event))
			if (event.room)
				call(SYS_munmap, (long)event.room, (long)event.room_bytes, 0, 0, 0,
				     0);
		events_lost();
		events_done();
		__atomic_store_n(&watch_state, STOPPED, __ATOMIC_SEQ_CST);
		return 0;
	}
	for (;;) {
		watch_report_running(true);
		watch_loop();
		watch_report_running(false);
		watch_end();
		if (watch_change(STOPPING, STOPPED))
			return 0;
		/* An event that came in between is taken. */
		if (!watch_change(RUNNING, STOPPED))
			continue;
		if (!events_waiting() || !watch_change(STOPPED, RUNNING))
			return 0;
	}
}

static bool watch_take_own(void)
{
	long at;

	if (watch_own)
		return true;
	at = call(SYS_mmap, 0, sizeof(*watch_own), PROT_READ | PROT_WRITE,
		  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (call_failed(at))
		return false;
	/* A child of fork() has none of it. */
	call(SYS_madvise, at, sizeof(*watch_own), MADV_DONTFORK, 0, 0, 0);
	watch_own = (struct own *)at;
	steer_maps = watch_own->maps;
	return true;
}

bool watch_is_impossible(void)
{
	return __atomic_load_n(&watch_cannot, __ATOMIC_RELAXED);
}

/* Returns false if the thread cannot be had in this process at all. */
static bool watch_try(void)
{
	/* The last thread has ended, but may use its stack a moment longer. */
	while (!thread_wait_gone(&watch_thread))
		;
	if (!watch_take_own() || !permit_calls(watch_own->thread + THREAD_BYTES) ||
	    !permit_page_size())
		return false;
	/* The descriptors may be others at the next mapping. */
	if (__atomic_load_n(&watch_barred, __ATOMIC_SEQ_CST) || !permit_descriptors()) {
		__atomic_store_n(&watch_state, STOPPED, __ATOMIC_SEQ_CST);
		return true;
	}
	return !thread_begin(&watch_thread, watch_own->thread, watch_run);
}

/*
 * A thread that starts the monitor, and one that must not have it, agree: the first one sets the
 * state and then reads @watch_barred, the other one sets @watch_barred and then reads the state.
 * A signal handler could call watch_stop(), which would wait for this caller for ever.
 */
bool watch_start(void)
{
	uint64_t signals;

	if (watch_is(RUNNING) || watch_is(STARTING))
		return true;
	if (watch_is_impossible() || watch_is(STOPPING))
		return false;
	signals = thread_block_signals();
	if (watch_change(STOPPED, STARTING) && !watch_try()) {
		__atomic_store_n(&watch_cannot, true, __ATOMIC_SEQ_CST);
		__atomic_store_n(&watch_state, STOPPED, __ATOMIC_SEQ_CST);
	}
	thread_restore_signals(signals);
	return !watch_is(STOPPED);
}

void watch_stop(void)
{
	const struct timespec pause = { .tv_nsec = 20000 };

	__atomic_add_fetch(&watch_barred, 1, __ATOMIC_SEQ_CST);
	while (watch_is(STARTING))
		call(SYS_nanosleep, (long)&pause, 0, 0, 0, 0, 0);
	/* A thread that is about to end by itself may begin again for an event. */
	do {
		watch_change(RUNNING, STOPPING);
		events_wake();
	} while (!thread_wait_gone(&watch_thread));
}

void watch_allow(void)
{
	if (__atomic_load_n(&watch_barred, __ATOMIC_SEQ_CST))
		__atomic_sub_fetch(&watch_barred, 1, __ATOMIC_SEQ_CST);
}

void watch_wait_advice(void)
{
	const struct timespec pause = { .tv_nsec = 20000 };

	while (act_is_advising() && thread_is_there(&watch_thread))
		call(SYS_nanosleep, (long)&pause, 0, 0, 0, 0, 0);
}

void watch_forget(void)
{
	act_forget();
	watch_state = STOPPED;
	watch_barred = 0;
	watch_thread = (struct thread){};
	watch_own = NULL;
	map_child();
	events_clear();
}
