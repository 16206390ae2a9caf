// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The cost of the monitor: short scans, one budget, few events. And the monitor takes back advice
 * that does not fit any more.
 */
#include "common.h"

#include "events.h"
#include "look.h"
#include "memory.h"
#include "wrap.h"

#include <dirent.h>
#include <sys/resource.h>

#define SLICE (128 * MB)

static uint64_t memory = SIZE;
static bool hold, held;
static uint64_t longest_scan, scans;
static volatile char *own_pages; /* each look touches one of them */

uint64_t memory_for_cache(void)
{
	return memory;
}

static uint64_t read_again;

uint64_t memory_read_again(void)
{
	return read_again += 1024 * MB * (memory > SIZE);
}

/* The linker replaces look() with this function. It waits until the test clears @hold. */
uint64_t __wrap_look(const struct looker *looker, uint64_t start, uint64_t end, uint64_t base,
		     unsigned long *seen, struct hm_touch *runs, uint32_t *n, uint64_t *huge)
{
	if (end - start > longest_scan)
		longest_scan = end - start;
	if (own_pages)
		own_pages[scans % (SIZE / PAGE) * PAGE] = 1;
	__atomic_add_fetch(&scans, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&hold, __ATOMIC_SEQ_CST)) {
		__atomic_store_n(&held, true, __ATOMIC_SEQ_CST);
		nap();
	}
	return __real_look(looker, start, end, base, seen, runs, n, huge);
}

/* Make page faults outside of all files. */
static void fault_elsewhere(unsigned int n)
{
	static volatile char *page;

	if (!page)
		page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(page != MAP_FAILED);
	while (n--) {
		CHECK(!madvise((void *)page, PAGE, MADV_DONTNEED));
		*page = 1;
	}
}

/* Read random pages until the monitor has given MADV_RANDOM. */
static void read_at_random(volatile char *at, size_t size)
{
	int i;

	for (i = 0; i < 50000 && !has_flag((void *)at, " rr"); i++) {
		(void)at[random_number() % (size / PAGE) * PAGE];
		nap();
	}
	CHECK(has_flag((void *)at, " rr"));
}

/*
 * A scan holds mmap_lock, so a single one must be short. But together the scans must reach the end
 * of the mapping.
 */
static void scans_are_short(void)
{
	int fd = open_file(O_RDONLY);
	char *base = mmap(NULL, 16 * SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *at;
	uint64_t before;
	size_t i;

	CHECK(base != MAP_FAILED);
	/* One mapping of a file that is longer than its data. */
	CHECK(!ftruncate(open_file(O_RDWR), 8 * SIZE));
	at = mmap(base, 8 * SIZE, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0);
	CHECK(at == base);
	steer_mapped(at, 8 * SIZE, PROT_READ, MAP_SHARED, 0);
	for (i = 0; i < SIZE; i += PAGE)
		(void)((volatile char *)at)[i];
	/*
	 * One scan of all of it may take several looks, which follow page faults. The scans may
	 * miss a few pages that were mapped while they ran.
	 */
	WAIT_FOR((fault_elsewhere(1), told_of(at) && told_of(at)->touched >= SIZE / 8 * 7));
	before = __atomic_load_n(&scans, __ATOMIC_SEQ_CST);
	/* Scans continue while there are page faults. */
	WAIT_FOR((fault_elsewhere(10), __atomic_load_n(&scans, __ATOMIC_SEQ_CST) > before + 20));
	CHECK(longest_scan <= SLICE && longest_scan >= 2 * MB);
	CHECK(!ftruncate(open_file(O_RDWR), SIZE));
}

/* Processor time of the monitor thread so far, as the scheduler counts it; nanoseconds. */
static uint64_t monitor_ns(void)
{
	DIR *dir = opendir("/proc/self/task");
	unsigned long long ns = 0;
	struct dirent *entry;
	char path[300];
	FILE *file;

	CHECK(dir);
	while ((entry = readdir(dir))) {
		/* The program has one thread. */
		if (entry->d_name[0] == '.' || atoi(entry->d_name) == getpid())
			continue;
		snprintf(path, sizeof(path), "/proc/self/task/%s/schedstat", entry->d_name);
		file = fopen(path, "re");
		CHECK(file && fscanf(file, "%llu", &ns) == 1);
		fclose(file);
	}
	closedir(dir);
	CHECK(ns);
	return ns;
}

/* All mappings share one budget, so more mappings do not cost more. */
static void many_mappings_cost_no_more(void)
{
	static const unsigned int counts[] = { 1, 16, 64, 300 };
	int fd = open_file(O_RDONLY);
	unsigned int n = 0, i;
	uint64_t elapsed, used;
	struct timespec from, to;
	char *at = NULL;

	for (i = 0; i < 4; i++) {
		for (; n < counts[i]; n++) {
			/* The mapping is not aligned, so the kernel maps its pages one by one. */
			at = mmap(NULL, SIZE / 2 - PAGE, PROT_READ, MAP_SHARED, fd, (off_t)PAGE);
			CHECK(at != MAP_FAILED && !madvise(at, SIZE / 2 - PAGE, 22));
			steer_mapped(at, SIZE / 2 - PAGE, PROT_READ, MAP_SHARED, (off_t)PAGE);
		}
		WAIT_FOR(!events_pending());
		clock_gettime(CLOCK_MONOTONIC, &from);
		used = monitor_ns();
		do {
			fault_elsewhere(1);
			nap();
			clock_gettime(CLOCK_MONOTONIC, &to);
			elapsed = (uint64_t)(to.tv_sec - from.tv_sec) * 1000000000u +
				  (uint64_t)to.tv_nsec - (uint64_t)from.tv_nsec;
		} while (elapsed < 2000000000u);
		used = monitor_ns() - used;
		/* At most 1 % of the time, the credit that the monitor had saved, and advice. */
		CHECK(used < elapsed / 100 + 20000000);
	}
}

/*
 * An allocator maps and unmaps memory between two steered mappings. The monitor gets no event for
 * it.
 */
static void other_memory_sends_no_event(void)
{
	const size_t gap_size = 256 * MB;
	int fd = open_file(O_RDONLY), i;
	char *above = map_file(fd, PROT_READ, MAP_SHARED), *gap, *below, *at;
	uint32_t word;

	gap = mmap(NULL, gap_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	below = map_file(fd, PROT_READ, MAP_SHARED);
	CHECK(below < gap && gap < above);
	WAIT_FOR(told_of(above) && told_of(below) && !events_pending());
	word = events_word();
	for (i = 0; i < 10000; i++) {
		at = gap + (size_t)(i % 100) * MB;
		steer_unmapping(at, MB);
		CHECK(mmap(at, MB, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
		      at);
		steer_hint(at, MB, MADV_RANDOM);
	}
	CHECK(events_word() == word && told_of(above) && told_of(below));
}

/* While the monitor is busy, the program puts more events than the ring holds. */
static void burst_loses_nothing(void)
{
	int fd = open_file(O_RDONLY);
	char *at, *other;
	size_t i;

	forget_cached(fd);
	at = map_file(fd, PROT_READ, MAP_SHARED);
	other = map_file(fd, PROT_READ, MAP_SHARED);
	WAIT_FOR(told_of(at) && told_of(other));
	__atomic_store_n(&hold, true, __ATOMIC_SEQ_CST);
	WAIT_FOR((fault_elsewhere(1), __atomic_load_n(&held, __ATOMIC_SEQ_CST)));
	for (i = 0; i < 2000; i++) {
		steer_unmapping(at + i * 2 * PAGE, PAGE);
		CHECK(!munmap(at + i * 2 * PAGE, PAGE));
	}
	/* The program replaces the first 8 MB of this mapping by other memory. */
	steer_unmapping(other, 8 * MB);
	CHECK(mmap(other, 8 * MB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
		   -1, 0) == other);
	__atomic_store_n(&hold, false, __ATOMIC_SEQ_CST);
	WAIT_FOR(told_of(other + 8 * MB));
	CHECK(told_of(other + 8 * MB)->bytes == SIZE - 8 * MB);
	read_at_random(other + 8 * MB, SIZE - 8 * MB);
	CHECK(!has_flag(other, " rr") && !has_flag(other, " nh"));
}

static bool looks_are_over(void)
{
	uint64_t before = __atomic_load_n(&scans, __ATOMIC_SEQ_CST);
	int i;

	for (i = 0; i < 100; i++)
		nap();
	return __atomic_load_n(&scans, __ATOMIC_SEQ_CST) == before;
}

/* Page faults of the monitor are none of the program, so no look follows them. */
static void own_faults_need_no_look(void)
{
	int fd = open_file(O_RDONLY);
	char *at;

	own_pages = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(own_pages != MAP_FAILED && !madvise((void *)own_pages, SIZE, MADV_NOHUGEPAGE));
	at = map_file(fd, PROT_READ, MAP_SHARED);
	in_order(at, 8 * MB, false);
	WAIT_FOR(__atomic_load_n(&scans, __ATOMIC_SEQ_CST) && looks_are_over());
}

/* Map the file, which is not cached, and wait until the monitor has advised random access. */
static char *map_and_read_at_random(void)
{
	int fd = open_file(O_RDONLY);
	char *at;

	forget_cached(fd);
	at = map_file(fd, PROT_READ, MAP_SHARED);
	read_at_random(at, SIZE);
	return at;
}

/*
 * Before the monitor sleeps, it takes its advice back, because the next accesses may be of another
 * kind.
 */
static void advice_goes_before_sleep(void)
{
	char *at = map_and_read_at_random();

	WAIT_FOR(!has_flag(at, " rr"));
	/* The monitor gives the advice again after further random accesses. */
	CHECK(!madvise(at, SIZE, MADV_DONTNEED));
	read_at_random(at, SIZE);
}

#define SPARSE ((size_t)1 << 40)
#define SPARSE_PAGES 20000

/*
 * Map a file of 1 TB without data, touch each 16th page of parts of it, and report the mapping. A
 * part begins each @step bytes and has @pages such pages. Returns NULL if there is no such file.
 */
static volatile char *map_sparse(int fd, size_t step, int pages)
{
	volatile char *at;
	int i;

	if (ftruncate(fd, (off_t)SPARSE)) {
		fprintf(stderr, "skipped: no file of 1 TB\n");
		return NULL;
	}
	at = mmap(NULL, SPARSE, PROT_READ, MAP_SHARED, fd, 0);
	CHECK(at != MAP_FAILED);
	/* With MADV_RANDOM the kernel reads nothing ahead, so this is quick. */
	CHECK(!madvise((void *)at, SPARSE, MADV_RANDOM));
	for (i = 0; i < SPARSE_PAGES; i++)
		(void)at[(size_t)(i / pages) * step + (size_t)(i % pages) * 16 * PAGE];
	CHECK(!madvise((void *)at, SPARSE, MADV_NORMAL));
	steer_mapped((void *)at, SPARSE, PROT_READ, MAP_SHARED, 0);
	return at;
}

/*
 * A scan of the whole mapping takes long here, so accesses must confirm the advice, and the monitor
 * takes it back without them.
 */
static void unconfirmed_advice_goes(void)
{
	int fd = open_file(O_RDWR);
	volatile char *at = map_sparse(fd, 0, SPARSE_PAGES);

	if (!at)
		return;
	read_at_random(at, (size_t)SPARSE_PAGES * 16 * PAGE);
	/* Faults elsewhere keep the monitor awake. */
	WAIT_FOR((fault_elsewhere(10), !has_flag((void *)at, " rr")));
	CHECK(longest_scan <= SLICE);
	CHECK(!ftruncate(fd, SIZE));
}

/* Scans find the pages in all parts of the mapping, and short pieces of it at a time. */
static void sparse_pages_are_found(void)
{
	/* A part is a region of 2 MB. The last one ends with the mapping. */
	const int pages = 32, parts = SPARSE_PAGES / pages;
	const size_t step = SPARSE / (size_t)parts / (2 * MB) * (2 * MB);
	const uint64_t touched = (uint64_t)SPARSE_PAGES * PAGE;
	int fd = open_file(O_RDWR), i;
	volatile char *at = map_sparse(fd, step, pages);

	if (!at)
		return;
	WAIT_FOR(told_of((void *)at));
	/* The scans of 1 TB take 0.05 s, and they get 1 % of the time. */
	for (i = 0; i < 100000 && told_of((void *)at)->touched < touched; i++) {
		fault_elsewhere(10);
		nap();
	}
	CHECK(told_of((void *)at)->touched >= touched);
	CHECK(longest_scan <= SLICE);
	CHECK(!ftruncate(fd, SIZE));
}

/*
 * When the program cuts a mapping in two, the monitor stops steering the smaller part, and takes
 * its advice back.
 */
static void part_that_is_left_has_no_advice(void)
{
	char *at = map_and_read_at_random();

	steer_unmapping(at + 16 * MB, MB);
	CHECK(!munmap(at + 16 * MB, MB));
	WAIT_FOR(!has_flag(at, " rr"));
}

/* munmap() may fail, and the monitor forgets the mapping before that. */
static void failed_unmap_leaves_no_advice(void)
{
	char *at = map_and_read_at_random();

	steer_unmapped(steer_unmapping(at, SIZE), false);
	WAIT_FOR(!has_flag(at, " rr"));
}

/* An event may be older than the memory that lies there. */
static void only_the_file_is_advised(void)
{
	int fd = open_file(O_RDONLY);
	char *at = mmap(NULL, SIZE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	forget_cached(fd);
	CHECK(at != MAP_FAILED);
	CHECK(mmap(at, 100 * MB, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0) == at);
	/* One area more of the same mapping. */
	CHECK(!mprotect(at + 16 * MB, 4 * MB, PROT_NONE));
	steer_mapped(at, SIZE, PROT_READ, MAP_SHARED, 0);
	WAIT_FOR(told_of(at) && !events_pending());
	CHECK(told_of(at)->bytes == 100 * MB);
	CHECK(!mprotect(at + 16 * MB, 4 * MB, PROT_READ));
	read_at_random(at, 100 * MB);
	CHECK(!has_flag(at + 100 * MB, " rr") && !has_flag(at + SIZE - PAGE, " rr"));
}

/* An event may be older than another mapping, of other memory or of another part of the file. */
static void replaced_mapping_is_not_steered(void)
{
	int fd = open_file(O_RDONLY);
	char *memory_at = mmap(NULL, SIZE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *part_at = mmap(NULL, SIZE / 2, PROT_READ, MAP_SHARED, fd, (off_t)(16 * MB));

	CHECK(memory_at != MAP_FAILED && part_at != MAP_FAILED);
	steer_mapped(memory_at, SIZE, PROT_READ, MAP_SHARED, 0);
	steer_mapped(part_at, SIZE / 2, PROT_READ, MAP_SHARED, 0);
	WAIT_FOR(steer_own_page() && !events_pending());
	CHECK(!told_of(memory_at) && !told_of(part_at));
}

/* The program's advice may be given just before advice of the monitor, which does not know it. */
static void overwritten_hint_is_repeated(void)
{
	char *at = map_and_read_at_random();

	CHECK(!madvise(at, SIZE, MADV_SEQUENTIAL));
	/* As the monitor does. */
	CHECK(!madvise(at, SIZE, MADV_RANDOM));
	steer_hint(at, SIZE, MADV_SEQUENTIAL);
	WAIT_FOR(has_flag(at, " sr") && !has_flag(at, " rr"));
}

/* More mappings than the page has room to report: they are steered, too. */
static void last_of_many_mappings_is_steered(void)
{
	int fd = open_file(O_RDONLY), i;
	char *at = NULL;

	for (i = 0; i < 600; i++) {
		at = map_file(fd, PROT_READ, MAP_SHARED);
		if (i % 100 == 0)
			WAIT_FOR(!events_pending());
	}
	WAIT_FOR(!events_pending());
	forget_cached(fd);
	read_at_random(at, SIZE);
}

/* Memory is found too small when the machine reads again more than the process requests. */
static void crowded_memory_is_not_filled(void)
{
	const size_t size = 600 * MB;
	int fd = open_file(O_RDWR), i;
	volatile char *at;

	memory = 4096 * MB;
	CHECK(!ftruncate(fd, (off_t)size));
	at = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
	CHECK(at != MAP_FAILED);
	steer_mapped((void *)at, size, PROT_READ, MAP_SHARED, 0);
	/* Without the limit all of it would be requested after 2 % of its pages. */
	for (i = 0; i < 20000; i++) {
		(void)at[random_number() % (size / PAGE) * PAGE];
		if (i % 8 == 0)
			nap();
	}
	CHECK(told_of((void *)at)->amount[STEER_ACT_AHEAD] > 0);
	CHECK(told_of((void *)at)->amount[STEER_ACT_AHEAD] < size / 2);
	CHECK(!ftruncate(fd, SIZE));
}

RUN(scans_are_short)
RUN(many_mappings_cost_no_more)
RUN(other_memory_sends_no_event)
RUN(burst_loses_nothing)
RUN(own_faults_need_no_look)
RUN(advice_goes_before_sleep)
RUN(unconfirmed_advice_goes)
RUN(sparse_pages_are_found)
RUN(part_that_is_left_has_no_advice)
RUN(failed_unmap_leaves_no_advice)
RUN(only_the_file_is_advised)
RUN(replaced_mapping_is_not_steered)
RUN(overwritten_hint_is_repeated)
RUN(last_of_many_mappings_is_steered)
RUN(crowded_memory_is_not_filled)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(scans_are_short_test),
		cmocka_unit_test(many_mappings_cost_no_more_test),
		cmocka_unit_test(other_memory_sends_no_event_test),
		cmocka_unit_test(burst_loses_nothing_test),
		cmocka_unit_test(own_faults_need_no_look_test),
		cmocka_unit_test(advice_goes_before_sleep_test),
		cmocka_unit_test(unconfirmed_advice_goes_test),
		cmocka_unit_test(sparse_pages_are_found_test),
		cmocka_unit_test(part_that_is_left_has_no_advice_test),
		cmocka_unit_test(failed_unmap_leaves_no_advice_test),
		cmocka_unit_test(only_the_file_is_advised_test),
		cmocka_unit_test(replaced_mapping_is_not_steered_test),
		cmocka_unit_test(overwritten_hint_is_repeated_test),
		cmocka_unit_test(last_of_many_mappings_is_steered_test),
		cmocka_unit_test(crowded_memory_is_not_filled_test),
	};

	return cmocka_run_group_tests(tests, new_group, end_group);
}
