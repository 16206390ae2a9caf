// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The monitor thread exists as long as the process has large mappings.
 *
 * It has its own table of descriptors, which is empty at first. It takes no signals, and calls no
 * function of the C library that takes a lock or allocates. It scans nothing while there are no
 * page faults.
 *
 * It alone uses its data, except for the ring of events and the page that others read.
 */
#include "watch.h"

#include "act.h"
#include "call.h"
#include "pace.h"
#include "permit.h"
#include "record.h"
#include "room.h"
#include "say.h"
#include "scan.h"
#include "state.h"
#include "thread.h"
#include "uapi.h"

#include <sched.h>
#include <string.h>
#include <sys/prctl.h>

/* The thread ends this long after the last mapping has gone, and the last event. */
#define WATCH_LINGER_NS (50 * MS)
/*
 * A new mapping may wait that long for its first look. While scans or events have taken more than
 * their share, it waits until the share has paid for the looks, and for PACE_MOST_NS at most if
 * only events are owed.
 */
#define WATCH_SHORT_NS (5 * MS)

bool watch_verbose;

static int watch_barred; /* number of watch_stop() calls without a watch_allow() yet */
static uint32_t watch_ended; /* number of monitors that have taken all their advice back */
/* The kernel, or a rule for this process, does not allow the thread. */
#ifdef HM_NO_WATCH
static bool watch_cannot = true;
#else
static bool watch_cannot;
#endif
static struct thread watch_thread;

/*
 * All memory of the monitor, but for the ring and struct map_memory. watch_start() maps it once,
 * inside a call of the program that maps memory. At other times a program may expect that its
 * address space does not change.
 */
static struct own {
	char thread[THREAD_BYTES];
	struct steer_page page __attribute__((aligned(4096)));
	char pad[4096 - sizeof(struct steer_page) % 4096];
	struct scan_buffers scan;
	struct map_block maps;
	struct room_slots rooms;
} *watch_own;

/* --- the thread --- */

/*
 * Create the page in a memfd in the monitor's table of descriptors, where other processes find it.
 * A new monitor thread continues the contents of the previous one's page.
 */
static void watch_open_page(void)
{
	struct steer_page *page = &watch_own->page;
	int fd = (int)call(SYS_memfd_create, (long)STEER_MEMFD_NAME, 1 /* MFD_CLOEXEC */, 0, 0, 0,
			   0);

	if (fd >= 0 &&
	    (record_page ? call(SYS_write, fd, (long)page, sizeof(*page), 0, 0, 0) ==
				   (long)sizeof(*page) :
			   call(SYS_ftruncate, fd, sizeof(*page), 0, 0, 0, 0) == 0) &&
	    !call_failed(call(SYS_mmap, (long)page, sizeof(*page), PROT_READ | PROT_WRITE,
			      MAP_SHARED | MAP_FIXED, fd, 0)))
		call(SYS_madvise, (long)page, sizeof(*page), MADV_DONTFORK, 0, 0, 0);
	page->pid = (uint32_t)call(SYS_getpid, 0, 0, 0, 0, 0, 0);
	page->version = STEER_VERSION;
	page->magic = STEER_MAGIC;
	__atomic_store_n(&record_page, page, __ATOMIC_RELEASE);
}

/*
 * Drop the capabilities of this thread. The monitor needs none for its own process, and the program
 * may have dropped its own.
 */
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
	/*
	 * The thread that started the monitor may have a real-time priority, which the monitor
	 * inherits.
	 */
	call(SYS_sched_setscheduler, 0, SCHED_OTHER, (long)&normal, 0, 0, 0);
	/* From here on this thread has its own table of descriptors, and it is empty. */
	if (call(SYS_close_range, 0, ~0u, CLOSE_RANGE_UNSHARE, 0, 0, 0) < 0)
		return false;
	if (!scan_begin(&watch_own->scan))
		return false;
	watch_drop_rights();
	watch_open_page();
	record_verbose = watch_verbose;
	return true;
}

/* Take waiting events, as many as a full ring has at most. */
static void watch_follow(void)
{
	uint32_t left = EVENTS_MOST;
	struct event event;
	struct map *map;

	while (left-- && event_take(&event)) {
		map = map_follow(&event);
		if (map)
			scan_add(map, event.existed);
	}
}

/* Return the mapping of an entry if its file must be looked up now; else NULL. */
static struct map *watch_unsettled(u32 i)
{
	struct map *map = map_entry(i);

	return map && map->unsettled && !map->moving && !map->orphan ? map : NULL;
}

/*
 * A look-up takes microseconds, and a lock that mmap() needs. So take the events that have come
 * before each one: the program may have unmapped the mapping. Return whether a mapping is steered
 * now that was not. @settle: see watch_take_events()
 */
static bool watch_settle(bool settle)
{
	bool steered = false;
	struct map *map;
	u32 i;

	for (i = 0; i < map_limit(); i++) {
		if (!watch_unsettled(i))
			continue;
		if (settle && !state_is(RUNNING))
			break;
		watch_follow();
		map = watch_unsettled(i);
		if (!map)
			continue;
		map->unsettled = false;
		if (settle && act_settle(map))
			steered = true;
		else
			map_drop(map);
	}
	return steered;
}

/*
 * Are there mappings whose files were not looked up? The events taken before a look-up may have
 * added mappings to entries before it.
 */
static bool watch_has_unsettled(void)
{
	u32 i;

	for (i = 0; i < map_limit(); i++)
		if (watch_unsettled(i))
			return true;
	return false;
}

/*
 * Take waiting events. Return whether one of them added a mapping. @settle: look up the files of
 * new mappings; otherwise drop these mappings. The work is bounded, also while the program maps
 * and unmaps all the time.
 */
static bool watch_take_events(bool settle)
{
	unsigned int lost;
	bool steered;

	watch_follow();
	lost = events_lost();
	if (lost)
		map_recover(lost);
	steered = watch_settle(settle);
	events_done();
	return steered;
}

/* Return the @n-th field after the name in /proc/self/stat. The name may contain blanks. */
static const char *watch_stat_field(const char *text, int n)
{
	const char *at = strrchr(text, ')');

	while (at && n--)
		at = strchr(at + 1, ' ');
	return at ? at + 1 : "";
}

/*
 * End this thread if it is the last one of the process. A process exists as long as any of its
 * threads does, and the monitor must not keep it alive. The kernel counts the first thread as long
 * as any thread is left, so two threads are the ended first one and this one.
 */
static void watch_end_with_others(void)
{
	char text[1024];

	call_read_text("/proc/self/stat", text, sizeof(text));
	if (*watch_stat_field(text, 1) == 'Z' && say_parse(watch_stat_field(text, 18)) <= 2)
		call(SYS_exit, 0, 0, 0, 0, 0, 0);
}

/*
 * Scan and advise, until the process has had no mapping for WATCH_LINGER_NS or the thread must end.
 */
static void watch_loop(void)
{
	u64 now = now_ns(), mapped = now, alive = now, wait;
	uint32_t word, before = 0;
	bool early;

	for (;; before = word) {
		word = events_word();
		/* A stop changes the state, then the word. */
		if (!state_is(RUNNING))
			return;
		if (watch_take_events(true))
			scan_soon();
		if (word != before)
			scan_owe_events();
		now = now_ns();
		if (!act_sync_all()) {
			/* A thread of the program is putting an event. Wait for it. */
			events_sleep(word, MS, SLEEP_UNTIL_EVENT);
			continue;
		}
		if (map_count() || word != before)
			mapped = now;
		else if (now - mapped > WATCH_LINGER_NS)
			return;
		if (now - alive >= PACE_ASLEEP_NS) {
			watch_end_with_others();
			alive = now;
		}
		wait = scan_run(now);
		wait = map_count() ? wait : WATCH_LINGER_NS;
		/* A program that has just made or ended a mapping may soon make another one. */
		if (word != before && wait > WATCH_SHORT_NS)
			wait = WATCH_SHORT_NS;
		/* A wake-up costs the program microseconds, and the next look is near. */
		early = wait > WATCH_SHORT_NS && !scan_is_overdrawn();
		if (!early && wait > PACE_MOST_NS)
			wait = PACE_MOST_NS;
		if (!watch_has_unsettled())
			events_sleep(word, wait, early ? SLEEP_UNTIL_EVENT : SLEEP_WITH_EVENTS);
	}
}

static void watch_report_running(bool running)
{
	if (record_page)
		record_page->running = running;
}

/*
 * Take all advice back, and forget all mappings. A mapping that mremap() moves keeps its advice, so
 * steer_remap() takes it back.
 */
static void watch_end(void)
{
	struct map *map;
	uint32_t word;

	act_ending = true;
	for (;;) {
		word = events_word();
		watch_take_events(false);
		for_each_map(map) {
			map->changed = true;
			map_restore_hint(map);
		}
		if (act_sync_all())
			break;
		events_sleep(word, MS, SLEEP_UNTIL_EVENT);
	}
	__atomic_add_fetch(&watch_ended, 1, __ATOMIC_SEQ_CST);
	for_each_map(map)
		map_drop(map);
	act_ending = false;
}

/*
 * The main function of the thread. When the state is STOPPED, another monitor thread may begin, so
 * this one must not access the shared data after that.
 */
static int watch_run(void *unused)
{
	struct event event;

	(void)unused;
	state_change(STARTING, RUNNING);
	if (!watch_begin()) {
		/* A second attempt would fail, too. */
		__atomic_store_n(&watch_cannot, true, __ATOMIC_SEQ_CST);
		while (event_take(&event))
			if (event.room)
				room_give_back(event.room, event.room_bytes, 0);
		events_lost();
		events_done();
		state_set(STOPPED);
		return 0;
	}
	for (;;) {
		watch_report_running(true);
		watch_loop();
		watch_report_running(false);
		watch_end();
		if (state_change(STOPPING, STOPPED))
			return 0;
		/* An event that came in between is taken. */
		if (!state_change(RUNNING, STOPPED))
			continue;
		if (!events_waiting() || !state_change(STOPPED, RUNNING))
			return 0;
	}
}

static bool watch_take_own(void)
{
	if (watch_own)
		return true;
	watch_own = room_map(sizeof(*watch_own));
	if (!watch_own)
		return false;
	/* Most of it is never used. */
	call(SYS_madvise, (long)watch_own, sizeof(*watch_own), MADV_NOHUGEPAGE, 0, 0, 0);
	map_add_block(&watch_own->maps);
	room_use(&watch_own->rooms);
	return true;
}

/*
 * Unmap the memory of a monitor that could not be started. Other threads may have taken rooms there
 * for their events, but only a monitor would access these rooms. After an earlier monitor the
 * memory stays: it contains the report page, which the program's threads read.
 */
static void watch_free_own(void)
{
	if (record_page)
		return;
	room_unmap(watch_own, sizeof(*watch_own));
	watch_own = NULL;
}

bool watch_is_impossible(void)
{
	return __atomic_load_n(&watch_cannot, __ATOMIC_RELAXED);
}

/* Try to start the thread. Return false if this process can never have it. */
static bool watch_try(void)
{
	/* The previous thread has ended, but may still use its stack for a moment. */
	while (!thread_wait_gone(&watch_thread))
		;
	if (!permit_calls() || !permit_page_size() || !permit_close_range())
		return false;
	/* The descriptors may be others at the next mapping. */
	if (__atomic_load_n(&watch_barred, __ATOMIC_SEQ_CST) || !permit_descriptors()) {
		state_set(STOPPED);
		return true;
	}
	/* A process that never has a monitor keeps no memory for one. */
	if (!watch_take_own())
		return false;
	scan_count_reads();
	if (events_begin() && !thread_begin(&watch_thread, watch_own->thread, watch_run))
		return true;
	watch_free_own();
	return false;
}

/*
 * A thread that starts the monitor, and one that must not have it, agree: the first one sets the
 * state and then reads @watch_barred, the other one sets @watch_barred and then reads the state.
 * A signal handler could call watch_stop(), which would wait for this caller for ever.
 */
bool watch_start(void)
{
	uint64_t signals;

	if (state_is(RUNNING) || state_is(STARTING))
		return true;
	if (watch_is_impossible() || state_is(STOPPING))
		return false;
	signals = thread_block_signals(0);
	if (state_change(STOPPED, STARTING) && !watch_try()) {
		__atomic_store_n(&watch_cannot, true, __ATOMIC_SEQ_CST);
		state_set(STOPPED);
	}
	thread_restore_signals(signals);
	return !state_is(STOPPED);
}

bool watch_is_thread(int number)
{
	return __atomic_load_n(&watch_thread.id, __ATOMIC_ACQUIRE) == number;
}

void watch_stop(void)
{
	const struct timespec pause = { .tv_nsec = 20000 };

	__atomic_add_fetch(&watch_barred, 1, __ATOMIC_SEQ_CST);
	while (state_is(STARTING))
		call(SYS_nanosleep, (long)&pause, 0, 0, 0, 0, 0);
	/* A thread that is about to end by itself may begin again for an event. */
	do {
		state_change(RUNNING, STOPPING);
		events_wake();
	} while (!thread_wait_gone(&watch_thread));
}

uint32_t watch_ends(void)
{
	return __atomic_load_n(&watch_ended, __ATOMIC_SEQ_CST);
}

/*
 * A monitor that is RUNNING at the first load takes the caller's events before it ends. One that
 * has ended before this load has counted its end before it changed the state.
 */
bool watch_may_end_since(uint32_t ends)
{
	return state_is(STOPPING) || watch_ends() != ends;
}

void watch_allow(void)
{
	if (__atomic_load_n(&watch_barred, __ATOMIC_SEQ_CST))
		__atomic_sub_fetch(&watch_barred, 1, __ATOMIC_SEQ_CST);
}

void watch_wait_advice(uint64_t start, uint64_t bytes)
{
	const struct timespec pause = { .tv_nsec = 20000 };

	while (act_is_advising(start, bytes) && thread_is_there(&watch_thread))
		call(SYS_nanosleep, (long)&pause, 0, 0, 0, 0, 0);
}

void watch_forget(void)
{
	act_forget();
	scan_forget();
	record_page = NULL;
	state_set(STOPPED);
	watch_barred = 0;
	watch_thread = (struct thread){};
	watch_own = NULL;
	room_use(NULL);
	map_child();
	events_clear();
}
