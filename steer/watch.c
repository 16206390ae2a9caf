// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The watcher: a thread that is there while large mappings are.
 *
 * It is not noticed: it has a table of descriptors of its own, which begins empty, so
 * that nothing of the program's is kept open and the program sees no descriptor; it takes
 * no signals; it makes no call of the C library that takes a lock or allocates. What it
 * costs is bounded: looks are paid from a credit of one hundredth of a processor's time,
 * and while there are no page faults there are none.
 *
 * All its data is its own, but for the ring of events and the page that tells.
 */
#include "watch.h"

#include "act.h"
#include "call.h"
#include "look.h"
#include "memory.h"
#include "pace.h"
#include "say.h"
#include "thread.h"
#include "uapi.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>

/* So much is touched where there could be huge pages before it is said that there are none. */
#define TRIED (64ull << 20)
/* Memory changes slowly. */
#define MEMORY_NS (5000 * MS)
/* After its last mapping it stays for that long. */
#define LINGER_NS (50 * MS)
#define STOP_NS (100 * MS)

enum state {
	STOPPED,
	RUNNING,
	STOPPING,
};

struct steer_settings watch_settings;

static int state = STOPPED; /* enum state */
/* It was tried, and this kernel or its rules do not let it. */
#ifdef HM_NO_WATCH
static bool cannot = true;
#else
static bool cannot;
#endif
static struct thread thread;
static struct looker looker;
static u64 memory, memory_at;
static int pidfd;

/*
 * Everything that the watcher needs, taken once, in a call of the program's that maps
 * memory: were it taken while the program runs, it could come to lie where the program
 * has just made room for itself.
 */
static struct own {
	char thread[THREAD_BYTES];
	struct steer_page page __attribute__((aligned(4096)));
	char pad[4096 - sizeof(struct steer_page) % 4096];
	struct hm_touch runs[LOOK_RUNS];
	u64 looks[LOOK_BYTES / 8];
	struct map maps[STEER_PAGE_MAPS];
} *own;

/* --- one look --- */

static u64 page_end(const struct map *map)
{
	return map->start + map->bytes;
}

/* Cheap, as there is little before a stream. */
static void look_ahead(struct map *map, u32 *n)
{
	struct hm_touch window[HM_TRACKS];
	u32 count = look_windows(&map->advisor, window), i;
	u64 huge = 0;

	for (i = 0; i < count; i++)
		look(&looker, map_address(map, window[i].start), map_address(map, window[i].end),
		     map->base, map->seen, own->runs, n, &huge);
}

static struct pace pace;

static void found(struct map *map, u32 n, u64 now)
{
	u64 touched = 0;
	u32 i;

	for (i = 0; i < n; i++)
		touched += (own->runs[i].end - own->runs[i].start) * PAGE_BYTES;
	if (map->told)
		map->told->touched += touched;
	if (!map->nhints &&
	    (map->advisor.mode == HM_MODE_HUGE || map->advisor.mode == HM_MODE_CHUNK))
		map->tried += touched;
	map->file.touched += touched;
	act_judge(map);
	map->advisor.facts.memory = memory / PAGE_BYTES;
	hm_advisor_look(&map->advisor, own->runs, n, now / MS);
	if (!map->advisor.count)
		return;
	pace.fruitless = 0;
	act_advices(map);
}

static void look_at(struct map *map, u64 now)
{
	u64 begin, huge = 0, at = map->start;
	u32 n = 0;

	/* The program says itself how it reads: of a look, only early writes could follow. */
	if (map_is_hinted(map) && (map->file.fd < 0 || map->file.rewritten))
		return;
	look_ahead(map, &n);
	if (n)
		found(map, n, now);
	if (now < map->full_at)
		return;
	begin = clock_ns(CLOCK_THREAD_CPUTIME_ID) - act_cpu_ns;
	do {
		n = 0;
		at = look(&looker, at, page_end(map), map->base, map->seen, own->runs, &n, &huge);
		if (n)
			found(map, n, now);
	} while (at && at < page_end(map));
	map->full_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - act_cpu_ns - begin;
	/* Found out by trying: what is touched comes in huge pages, or never will. */
	if (map->tried >= TRIED && !map->file.huge_works)
		map->advisor.facts.small = !huge;
	map->file.huge_works |= huge > 0;
	if (map->told) {
		map->told->huge = huge;
		map->told->huge_works = map->file.huge_works ? 1 : map->advisor.facts.small ? 2 : 0;
	}
}

/* --- how often --- */

static u64 faults_so_far(void)
{
	struct rusage usage;

	if (call(SYS_getrusage, RUSAGE_SELF, (long)&usage, 0, 0, 0, 0) < 0)
		return 0;
	if (act_page) {
		act_page->minflt = (u64)usage.ru_minflt;
		act_page->majflt = (u64)usage.ru_majflt;
		act_page->read_bytes = (u64)usage.ru_inblock * 512;
	}
	return (u64)usage.ru_minflt + (u64)usage.ru_majflt;
}

static void look_at_all(u64 now)
{
	u64 begin = clock_ns(CLOCK_THREAD_CPUTIME_ID) - act_cpu_ns, used;
	struct map *map;

	if (now >= memory_at) {
		memory = memory_for_cache();
		memory_at = now + MEMORY_NS;
	}
	pace.fruitless++;
	for (map = steer_maps; map < steer_maps + STEER_PAGE_MAPS; map++) {
		if (!map->start)
			continue;
		look_at(map, now);
		/* A look that is dear is paid back before the next one. */
		if (map->full_ns > PACE_LEAST_NS / PACE_SHARE && pace.credit_ns < (s64)map->full_ns)
			map->full_at = now + map->full_ns * PACE_SHARE;
	}
	used = clock_ns(CLOCK_THREAD_CPUTIME_ID) - act_cpu_ns - begin;
	if (act_page) {
		act_page->looks++;
		act_page->look_ns += used;
		act_page->act_ns = act_ns;
	}
}

/* --- the thread --- */

/*
 * Under a filter of system calls (seccomp) a call that is not allowed may end the whole
 * process. So a child makes each of them first, of which the program hears nothing: it
 * sends no signal when it ends.
 */
static void try_calls(void)
{
	call(SYS_getrusage, -1, 0, 0, 0, 0, 0);
	call(SYS_sched_setscheduler, -1, 0, 0, 0, 0, 0);
	call(SYS_capset, 0, 0, 0, 0, 0, 0);
	call(SYS_futex, 0, -1, 0, 0, 0, 0);
	call(SYS_clock_gettime, -1, 0, 0, 0, 0, 0);
	call(SYS_close_range, 1, 0, 0, 0, 0, 0);
	call(SYS_pidfd_open, -1, 0, 0, 0, 0, 0);
	call(SYS_pidfd_getfd, -1, 0, 0, 0, 0, 0);
	call(SYS_memfd_create, 0, ~0l, 0, 0, 0, 0);
	call(SYS_ftruncate, -1, 0, 0, 0, 0, 0);
	call(SYS_mmap, 1, 0, 0, 0, -1, 0);
	call(SYS_munmap, 1, 0, 0, 0, 0, 0);
	call(SYS_openat, -1, (long)"", 0, 0, 0, 0);
	call(SYS_statx, -1, (long)"", 0, 0, 0, 0);
	call(SYS_read, -1, 0, 0, 0, 0, 0);
	call(SYS_write, -1, 0, 0, 0, 0, 0);
	call(SYS_pread64, -1, 0, 0, 0, 0, 0);
	call(SYS_ioctl, -1, (long)PAGEMAP_SCAN, 0, 0, 0, 0);
	call(SYS_cachestat, -1, 0, 0, 0, 0, 0);
	call(SYS_sync_file_range, -1, 0, 0, 0, 0, 0);
	call(SYS_madvise, 0, 0, MADV_WILLNEED, 0, 0, 0);
	call(SYS_close, -1, 0, 0, 0, 0, 0);
}

static bool calls_allowed(void)
{
	int status = -1;
	long child;

	if (call(SYS_prctl, PR_GET_SECCOMP, 0, 0, 0, 0, 0) == 0)
		return true;
	child = call(SYS_clone, CLONE_VFORK, 0, 0, 0, 0, 0);
	if (!child) {
		try_calls();
		call(SYS_exit_group, 0, 0, 0, 0, 0, 0);
	}
	if (child > 0)
		call(SYS_wait4, child, (long)&status, 1u << 30 /* __WALL */, 0, 0, 0);
	return child > 0 && status == 0;
}

static int open_own(const char *path)
{
	return (int)call(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC, 0, 0, 0);
}

/*
 * The page lies in a memfd of our table, by which others find it. What was told before the
 * thread went and came again stays.
 */
static void open_page(void)
{
	struct steer_page *page = &own->page;
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

/* It needs no rights for its own process; a program that drops its own shall not miss any. */
static void drop_rights(void)
{
	struct {
		uint32_t version;
		int pid;
	} header = { 0x20080522 /* _LINUX_CAPABILITY_VERSION_3 */, 0 };
	uint32_t none[6] = {};

	call(SYS_capset, (long)&header, (long)none, 0, 0, 0, 0);
}

static bool begin(void)
{
	struct sched_param normal = {};

	if (!calls_allowed())
		return false;
	call(SYS_prctl, PR_SET_NAME, (long)STEER_THREAD_NAME, 0, 0, 0, 0);
	/* Whoever started it may be a thread with a real-time priority. */
	call(SYS_sched_setscheduler, 0, SCHED_OTHER, (long)&normal, 0, 0, 0);
	/* A table of its own, in which nothing is open. */
	if (call(SYS_close_range, 0, ~0u, CLOSE_RANGE_UNSHARE, 0, 0, 0) < 0)
		return false;
	pidfd = (int)call(SYS_pidfd_open, call(SYS_getpid, 0, 0, 0, 0, 0, 0), 0, 0, 0, 0, 0);
	looker_open(&looker, open_own("/proc/self/pagemap"), own->looks);
	if (looker.fd < 0)
		return false;
	if (watch_settings.verbose)
		act_verbose_fd = (int)call(SYS_pidfd_getfd, pidfd, 2, 0, 0, 0, 0);
	drop_rights();
	open_page();
	memory_at = 0;
	pace = PACE_BEGIN;
	return true;
}

static void take_events(void)
{
	struct event event;
	struct map *map;

	while (event_take(&event)) {
		map = maps_follow(&event);
		if (!map)
			continue;
		act_settle(map, pidfd);
		pace.fruitless = 0;
	}
	/*
	 * What was lost may have been the end of a mapping, or a hint: all is forgotten, and
	 * no advice is taken back, as it may be the program's.
	 */
	if (events_lost())
		maps_clear(false);
	events_done();
}

/* False: somebody wants it to be gone. */
static bool may_run(void)
{
	return __atomic_load_n(&state, __ATOMIC_SEQ_CST) == RUNNING;
}

/* The field of /proc/self/stat so many after the name, which may have blanks in it. */
static const char *stat_field(const char *text, int n)
{
	const char *at = strrchr(text, ')');

	while (at && n--)
		at = strchr(at + 1, ' ');
	return at ? at + 1 : "";
}

/*
 * A process ends with its last thread, and that is not this one: where the first thread
 * has ended, by whatever way, and no other is left, so does this, and tells nobody.
 */
static void end_with_the_others(void)
{
	char text[1024];

	call_read_text("/proc/self/stat", text, sizeof(text));
	if (*stat_field(text, 1) == 'Z' && say_parse(stat_field(text, 18)) <= 2)
		call(SYS_exit, 0, 0, 0, 0, 0, 0);
}

static u64 own_cpu_ns(void)
{
	return clock_ns(CLOCK_THREAD_CPUTIME_ID) - act_cpu_ns;
}

/* Returns when there is nothing to watch any more, or when it shall end. */
static void watch(void)
{
	u64 now = now_ns(), last = now, mapped = now, faulted = now, faults = 0, alive = now;
	u64 cpu = own_cpu_ns(), spent;

	while (may_run()) {
		uint32_t word = events_word();
		u64 so_far;

		take_events();
		now = now_ns();
		if (maps_count())
			mapped = now;
		else if (now - mapped > LINGER_NS)
			return;
		if (now - alive >= PACE_ASLEEP_NS) {
			end_with_the_others();
			alive = now;
		}
		pace_earn(&pace, now - last);
		last = now;
		so_far = faults_so_far();
		if (so_far != faults)
			look_at_all(now);
		/* Events and the count of faults cost, too: all but the advice itself. */
		spent = own_cpu_ns();
		pace_spend(&pace, spent - cpu);
		cpu = spent;
		if (so_far != faults) {
			if (now - faulted > PACE_PAUSE_NS)
				pace.fruitless = 0;
			faults = so_far;
			faulted = now;
			events_sleep(word, pace_wait_ns(&pace));
		} else {
			events_sleep(word, maps_count() ? pace_idle_ns(now - faulted) : LINGER_NS);
		}
	}
}

static bool change_state(int from, int to)
{
	return __atomic_compare_exchange_n(&state, &from, to, false, __ATOMIC_SEQ_CST,
					   __ATOMIC_SEQ_CST);
}

static void tell_running(bool running)
{
	if (act_page)
		act_page->running = running;
}

/* From STOPPED on another one may begin: nothing is touched after that. */
static int run(void *unused)
{
	if (!begin()) {
		/* It would fail again. */
		__atomic_store_n(&cannot, true, __ATOMIC_SEQ_CST);
		take_events();
		maps_clear(false);
		__atomic_store_n(&state, STOPPED, __ATOMIC_SEQ_CST);
		return 0;
	}
	for (;;) {
		tell_running(true);
		watch();
		tell_running(false);
		/* Nobody looks any more: no advice stays, and descriptors go with the table. */
		take_events();
		maps_clear(true);
		if (change_state(STOPPING, STOPPED))
			return 0;
		/* What came in between is not left lying there. */
		if (!change_state(RUNNING, STOPPED))
			continue;
		if (!events_waiting() || !change_state(STOPPED, RUNNING))
			return 0;
	}
}

static bool take_own(void)
{
	long at;

	if (own)
		return true;
	at = call(SYS_mmap, 0, sizeof(*own), PROT_READ | PROT_WRITE,
		  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (call_failed(at))
		return false;
	/* A child of fork() has none of it. */
	call(SYS_madvise, at, sizeof(*own), MADV_DONTFORK, 0, 0, 0);
	own = (struct own *)at;
	steer_maps = own->maps;
	return true;
}

bool watch_is_impossible(void)
{
	return __atomic_load_n(&cannot, __ATOMIC_RELAXED);
}

void watch_start(void)
{
	if (watch_is_impossible() || !change_state(STOPPED, RUNNING))
		return;
	if (take_own() && !thread_begin(&thread, own->thread, run))
		return;
	/* Where a thread cannot be had, it is not tried for each mapping. */
	__atomic_store_n(&cannot, true, __ATOMIC_SEQ_CST);
	__atomic_store_n(&state, STOPPED, __ATOMIC_SEQ_CST);
}

bool watch_is_running(void)
{
	return __atomic_load_n(&state, __ATOMIC_SEQ_CST) == RUNNING;
}

void watch_stop(void)
{
	change_state(RUNNING, STOPPING);
	events_wake();
	/* Until the kernel, too, counts it no more. */
	thread_wait_gone(&thread, STOP_NS);
}

void watch_forget(void)
{
	if (!own)
		return;
	state = STOPPED;
	thread = (struct thread){};
	act_page = NULL;
	own = NULL;
	maps_child();
	events_clear();
}
