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
#include "say.h"
#include "uapi.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#define MS 1000000ull

/* Between two looks, at least; and at most, while there are faults. */
#define LEAST_NS (MS / 2)
#define MOST_NS (200 * MS)
/* Without faults it sleeps longer and longer. */
#define IDLE_NS (20 * MS)
#define ASLEEP_NS (1000 * MS)
/* The share of time that looks may take, and how much of it may be saved up. */
#define SHARE 100
#define CREDIT_NS ((s64)(10 * MS))
/* So many looks that find nothing make the time between them twice as long, up to this. */
#define FRUITLESS 8u
#define FRUITLESS_MOST 5u
/* Memory changes slowly. */
/* So much is read in huge pages before it is said that there are none. */
#define TRIED (16ull << 20)
#define MEMORY_NS (5000 * MS)
/* After its last mapping it stays for that long. */
#define LINGER_NS (50 * MS)
#define STOP_NS (100 * MS)
#define STACK_BYTES (128u << 10)

enum state {
	STOPPED,
	RUNNING,
	STOPPING,
};

struct steer_settings watch_settings;

static int state = STOPPED; /* enum state */
static bool cannot; /* it was tried, and this kernel or its rules do not let it */
static int thread_id; /* of the kernel's; 0 = there is none */
static struct looker looker;
static u64 memory, memory_at;
static int pidfd;

static struct {
	struct hm_touch runs[LOOK_RUNS];
	u64 looks[LOOK_BYTES / 8];
} *scratch;

/* --- one look --- */

static u64 page_end(const struct map *map)
{
	return map->start + map->bytes;
}

/* Where a stream is going on. */
struct window {
	u64 from, to; /* pages */
};

static bool window_of(const struct hm_advisor *a, const struct hm_track *t, struct window *w)
{
	const u64 room = 16 * HM_BLOCK_PAGES;

	if (!t->grown || !t->way || t->grown + 3 < a->look)
		return false;
	if (t->way > 0) {
		w->from = t->next;
		w->to = (t->ahead > t->next ? t->ahead : t->next) + room;
	} else {
		w->to = t->start;
		w->from = t->ahead && t->ahead < t->start ? t->ahead : t->start;
		w->from = w->from > room ? w->from - room : 0;
	}
	w->from = w->from < a->first ? a->first : w->from;
	w->to = w->to > a->end ? a->end : w->to;
	return w->from < w->to;
}

/* Cheap, as there is little before a stream. */
static void look_ahead(struct map *map, u32 *n)
{
	struct window window[HM_TRACKS], one;
	u64 huge = 0, from = 0;
	u32 count = 0, i, at;

	for (i = 0; i < HM_TRACKS; i++) {
		if (!window_of(&map->advisor, &map->advisor.track[i], &one))
			continue;
		/* In order, as runs must be. */
		for (at = count++; at && window[at - 1].from > one.from; at--)
			window[at] = window[at - 1];
		window[at] = one;
	}
	for (i = 0; i < count; i++) {
		from = window[i].from > from ? window[i].from : from;
		if (from >= window[i].to)
			continue;
		look(&looker, map_address(map, from), map_address(map, window[i].to), map->base,
		     map->seen, scratch->runs, n, &huge);
		from = window[i].to;
	}
}

static u32 fruitless; /* looks: the faults are elsewhere */

static void found(struct map *map, u32 n, u64 now)
{
	u32 i;

	fruitless = 0;
	for (i = 0; i < n && map->told; i++)
		map->told->touched +=
			(scratch->runs[i].end - scratch->runs[i].start) * HM_PAGE_SIZE;
	map->advisor.memory = memory / HM_PAGE_SIZE;
	map->advisor.busy = now < act_busy_until;
	hm_advisor_look(&map->advisor, scratch->runs, n, now / MS);
	if (map->advisor.count)
		act_advices(map);
}

static void look_at(struct map *map, u64 now)
{
	u64 begin, huge = 0, at = map->start;
	u32 n = 0;

	look_ahead(map, &n);
	if (n)
		found(map, n, now);
	if (now < map->full_at)
		return;
	begin = clock_ns(CLOCK_THREAD_CPUTIME_ID) - act_cpu_ns;
	do {
		n = 0;
		at = look(&looker, at, page_end(map), map->base, map->seen, scratch->runs, &n,
			  &huge);
		if (n)
			found(map, n, now);
	} while (at && at < page_end(map));
	map->full_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - act_cpu_ns - begin;
	/* Found out by trying: what was filled is mapped by huge pages, or never will be. */
	if (map->filled >= TRIED && !map->huge_works)
		map->advisor.small = !huge;
	map->huge_works |= huge > 0;
	if (map->told) {
		map->told->huge = huge;
		map->told->huge_works = map->huge_works ? 1 : map->advisor.small ? 2 : 0;
	}
}

/* --- how often --- */

static s64 credit;

static void earn(u64 passed)
{
	credit += (s64)(passed / SHARE);
	if (credit > CREDIT_NS)
		credit = CREDIT_NS;
}

static u64 next_look_ns(void)
{
	u32 doublings = fruitless / FRUITLESS < FRUITLESS_MOST ? fruitless / FRUITLESS :
								 FRUITLESS_MOST;
	u64 shortest = LEAST_NS << doublings, wait = credit >= 0 ? 0 : (u64)-credit * SHARE;

	return wait < shortest ? shortest : wait > MOST_NS ? MOST_NS : wait;
}

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
		if (watch_settings.budget && watch_settings.budget < memory)
			memory = watch_settings.budget;
		memory_at = now + MEMORY_NS;
	}
	fruitless++;
	for (map = steer_maps; map < steer_maps + STEER_PAGE_MAPS; map++) {
		if (!map->start)
			continue;
		look_at(map, now);
		/* A look that is dear is paid back before the next one. */
		if (map->full_ns > LEAST_NS / SHARE && credit < (s64)map->full_ns)
			map->full_at = now + map->full_ns * SHARE;
	}
	if (watch_settings.budget)
		act_budget(watch_settings.budget);
	used = clock_ns(CLOCK_THREAD_CPUTIME_ID) - act_cpu_ns - begin;
	credit -= (s64)used;
	if (act_page) {
		act_page->looks++;
		act_page->look_ns += used;
		act_page->act_ns = act_ns;
		act_page->budget = watch_settings.budget;
	}
}

/* --- the thread --- */

/*
 * Under a filter of system calls (seccomp) a call that is not allowed may end the whole
 * process. So a child makes each of them first, one that shares nothing but memory and
 * of which the program hears nothing: it sends no signal when it ends.
 */
static int try_calls(void *unused)
{
	call(SYS_getrusage, -1, 0, 0, 0, 0, 0);
	call(SYS_sched_setscheduler, -1, 0, 0, 0, 0, 0);
	call(SYS_close_range, 1, 0, 0, 0, 0, 0);
	call(SYS_pidfd_open, -1, 0, 0, 0, 0, 0);
	call(SYS_pidfd_getfd, -1, 0, 0, 0, 0, 0);
	call(SYS_memfd_create, 0, ~0l, 0, 0, 0, 0);
	call(SYS_ftruncate, -1, 0, 0, 0, 0, 0);
	call(SYS_openat, -1, (long)"", 0, 0, 0, 0);
	call(SYS_readlinkat, -1, (long)"", 0, 0, 0, 0);
	call(SYS_newfstatat, -1, (long)"", 0, 0, 0, 0);
	call(SYS_read, -1, 0, 0, 0, 0, 0);
	call(SYS_pread64, -1, 0, 0, 0, 0, 0);
	call(SYS_ioctl, -1, (long)PAGEMAP_SCAN, 0, 0, 0, 0);
	call(SYS_cachestat, -1, 0, 0, 0, 0, 0);
	call(SYS_sync_file_range, -1, 0, 0, 0, 0, 0);
	call(SYS_madvise, 0, 0, MADV_WILLNEED, 0, 0, 0);
	call(SYS_fcntl, -1, F_DUPFD_CLOEXEC, 0, 0, 0, 0);
	call(SYS_close, -1, 0, 0, 0, 0, 0);
	call(SYS_tgkill, -1, 0, 0, 0, 0, 0);
	return 0;
}

static bool calls_allowed(void)
{
	const size_t size = 64u << 10;
	long stack, child;
	int status = -1;

	if (call(SYS_prctl, PR_GET_SECCOMP, 0, 0, 0, 0, 0) == 0)
		return true;
	stack = call(SYS_mmap, 0, (long)size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		     -1, 0);
	if (stack < 0 && stack > -4096)
		return false;
	child = clone(try_calls, (char *)stack + size, CLONE_VM | CLONE_VFORK, NULL);
	if (child > 0)
		call(SYS_wait4, child, (long)&status, 1u << 30 /* __WALL */, 0, 0, 0);
	call(SYS_munmap, stack, (long)size, 0, 0, 0, 0);
	return child > 0 && status == 0;
}

static int open_own(const char *path)
{
	return (int)call(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC, 0, 0, 0);
}

/* A page that others can find by the memfd, and this process by its address. */
static void open_page(void)
{
	int fd = (int)call(SYS_memfd_create, (long)STEER_MEMFD_NAME, 1 /* MFD_CLOEXEC */, 0, 0, 0,
			   0);
	struct steer_page *page;
	struct map *map;

	if (fd < 0 || call(SYS_ftruncate, fd, sizeof(*page), 0, 0, 0, 0) < 0)
		return;
	page = (void *)call(SYS_mmap, 0, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if ((long)page < 0 && (long)page > -4096)
		return;
	call(SYS_madvise, (long)page, sizeof(*page), MADV_DONTFORK, 0, 0, 0);
	if (act_page) {
		/* What was told before the thread went and came again. */
		*page = *act_page;
		for (map = steer_maps; map < steer_maps + STEER_PAGE_MAPS; map++)
			if (map->told)
				map->told = page->maps + (map->told - act_page->maps);
	}
	page->pid = (uint32_t)getpid();
	page->version = STEER_VERSION;
	page->magic = STEER_MAGIC;
	__atomic_store_n(&act_page, page, __ATOMIC_RELEASE);
	for (map = steer_maps; map < steer_maps + STEER_PAGE_MAPS; map++)
		if (map->start && !map->told)
			act_begin(map);
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
	if (!scratch) {
		long room = call(SYS_mmap, 0, sizeof(*scratch), PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (room < 0 && room > -4096)
			return false;
		call(SYS_madvise, room, sizeof(*scratch), MADV_DONTFORK, 0, 0, 0);
		scratch = (void *)room;
	}
	pidfd = (int)call(SYS_pidfd_open, getpid(), 0, 0, 0, 0, 0);
	looker_open(&looker, open_own("/proc/self/pagemap"), scratch->looks);
	if (looker.fd < 0)
		return false;
	act_schedstat_fd = open_own("/proc/thread-self/schedstat");
	if (watch_settings.verbose)
		act_verbose_fd = (int)call(SYS_pidfd_getfd, pidfd, 2, 0, 0, 0, 0);
	open_page();
	memory_at = 0;
	credit = CREDIT_NS;
	fruitless = 0;
	return true;
}

static void take_events(void)
{
	struct event event;
	struct map *map;

	while (event_take(&event)) {
		maps_follow(&event);
		if (event.kind == EVENT_MAPPED)
			for (map = steer_maps; map < steer_maps + STEER_PAGE_MAPS; map++)
				if (map->start == event.start)
					act_settle(map, pidfd);
	}
	/* What was lost may have been the end of a mapping, or a hint: all is forgotten. */
	if (events_lost())
		maps_clear();
	events_done();
}

/* False: somebody wants it to be gone. */
static bool may_run(void)
{
	return __atomic_load_n(&state, __ATOMIC_SEQ_CST) == RUNNING;
}

/* Without faults: soon again at first, then more and more seldom. */
static u64 idle_ns(u64 quiet)
{
	u64 wait = quiet < 100 * MS ? 2 * MS : quiet / 20;

	return wait < IDLE_NS || quiet < 1000 * MS ? (wait < IDLE_NS ? wait : IDLE_NS) :
	       wait < ASLEEP_NS			   ? wait :
						     ASLEEP_NS;
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
	int fd = open_own("/proc/self/stat");
	long n = fd < 0 ? 0 : call(SYS_read, fd, (long)text, sizeof(text) - 1, 0, 0, 0);

	if (fd >= 0)
		call(SYS_close, fd, 0, 0, 0, 0, 0);
	text[n < 0 ? 0 : n] = '\0';
	if (*stat_field(text, 1) == 'Z' && say_parse(stat_field(text, 18)) <= 2)
		call(SYS_exit, 0, 0, 0, 0, 0, 0);
}

/* Returns when there is nothing to watch any more, or when it shall end. */
static void watch(void)
{
	u64 now = now_ns(), last = now, mapped = now, faulted = now, faults = 0, alive = now;

	while (may_run()) {
		uint32_t word = events_word();
		u64 so_far;

		take_events();
		now = now_ns();
		if (maps_count())
			mapped = now;
		else if (now - mapped > LINGER_NS)
			return;
		if (now - alive >= ASLEEP_NS) {
			end_with_the_others();
			alive = now;
		}
		earn(now - last);
		last = now;
		so_far = faults_so_far();
		if (so_far != faults) {
			faults = so_far;
			faulted = now;
			look_at_all(now);
			events_sleep(word, next_look_ns());
		} else {
			events_sleep(word, maps_count() ? idle_ns(now - faulted) : LINGER_NS);
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
static void *thread(void *unused)
{
	__atomic_store_n(&thread_id, (int)call(SYS_gettid, 0, 0, 0, 0, 0, 0), __ATOMIC_SEQ_CST);
	if (!begin()) {
		/* It would fail again. */
		__atomic_store_n(&cannot, true, __ATOMIC_SEQ_CST);
		events_done();
		__atomic_store_n(&state, STOPPED, __ATOMIC_SEQ_CST);
		return NULL;
	}
	for (;;) {
		tell_running(true);
		watch();
		tell_running(false);
		/* What is mapped stays known; descriptors go with the thread's table. */
		maps_rest();
		act_verbose_fd = act_schedstat_fd = -1;
		if (change_state(STOPPING, STOPPED))
			return NULL;
		/* What came in between is not left lying there. */
		if (!change_state(RUNNING, STOPPED))
			continue;
		if (!events_waiting() || !change_state(STOPPED, RUNNING))
			return NULL;
	}
}

static bool create(void)
{
	pthread_attr_t attr;
	pthread_t handle;
	bool made;

	if (pthread_attr_init(&attr))
		return false;
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	made = !pthread_create(&handle, &attr, thread, NULL);
	if (!made) {
		/* A program's thread-local data may need more than that. */
		pthread_attr_destroy(&attr);
		pthread_attr_init(&attr);
		pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
		made = !pthread_create(&handle, &attr, thread, NULL);
	}
	pthread_attr_destroy(&attr);
	return made;
}

void watch_start(void)
{
	sigset_t all, before;

	if (__atomic_load_n(&cannot, __ATOMIC_RELAXED) || !change_state(STOPPED, RUNNING))
		return;
	/* It inherits that no signal may come to it. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	if (!create())
		__atomic_store_n(&state, STOPPED, __ATOMIC_SEQ_CST);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

bool watch_is_running(void)
{
	return __atomic_load_n(&state, __ATOMIC_SEQ_CST) == RUNNING;
}

void watch_stop(void)
{
	const struct timespec pause = { .tv_nsec = 50000 };
	u64 until = now_ns() + STOP_NS;
	int id;

	change_state(RUNNING, STOPPING);
	events_wake();
	/* Until the kernel, too, counts it no more. */
	do {
		id = __atomic_load_n(&thread_id, __ATOMIC_SEQ_CST);
		if (__atomic_load_n(&state, __ATOMIC_SEQ_CST) == STOPPED &&
		    (!id || call(SYS_tgkill, getpid(), id, 0, 0, 0, 0) == -ESRCH))
			return;
		call(SYS_nanosleep, (long)&pause, 0, 0, 0, 0, 0);
	} while (now_ns() < until);
}

void watch_forget(void)
{
	state = STOPPED;
	thread_id = 0;
	act_page = NULL;
	scratch = NULL;
	maps_child();
	events_clear();
}
