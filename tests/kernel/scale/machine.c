// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "machine.h"

#include <sys/mman.h>

#include "plain.h"
#include "sched.h"

#define ARENA_BYTES (1ul << 30)
#define LINE_SHIFT 6
#define REGIONS 32768u
#define NEVER (~0ull)
#define CPU_WORDS ((MACHINE_CPUS + 63) / 64)

/* Kinds of access. */
enum {
	WRITES = 1 << 0,
	ORDERED = 1 << 1, /* others may observe it, so lower clocks run first */
	LOCKED = 1 << 2,
	OVERLAPS = 1 << 3, /* the processor can begin it before the previous read returns a value */
};

struct line {
	u64 busy; /* end of the transfer in progress */
	u64 shared[CPU_WORDS];
	u32 owner; /* the processor that owns the line exclusively, + 1; 0: none */
};

struct region {
	char *start;
	size_t stride;
	struct machine_member *members;
};

/* Typical prices of an x86 server with two sockets; README.md has the sources. */
struct machine_prices machine_prices = {
	.own = 1,
	.locked = 7,
	.near = 50,
	.far = 120,
	.memory = 80,
	.overlap = 4,
};

static char *arena;
static struct line *lines;
static size_t used;
static struct region regions[REGIONS];
static u32 nregions;

static u64 clock[MACHINE_CPUS]; /* NEVER: the processor does not run */
static u64 blocked_at[MACHINE_CPUS];
static u8 next_waiter[MACHINE_CPUS]; /* the next processor in the queue of a lock, + 1 */
static bool reading[MACHINE_CPUS]; /* the last access was a read, so the next read may overlap it */
static u64 on_node[MACHINE_CPUS][CPU_WORDS];
static u32 node_of[MACHINE_CPUS];
static u32 ncpus, self;
static u64 horizon; /* lowest clock of the other processors */
static u64 all_ns; /* sum of the times of the processors that have returned */
static bool running;
static void (*cpu_work)(u32 cpu);

/* --- processors ----------------------------------------------------------------------- */

/* Switch to the processor with the lowest clock; if none runs, to machine_run(). */
static void machine_run_earliest(void)
{
	u32 first = SIM_COROUTINES, i;
	u64 least = NEVER;

	horizon = NEVER;
	for (i = 0; i < ncpus; i++) {
		if (clock[i] < least) {
			horizon = least;
			least = clock[i];
			first = i;
		} else if (clock[i] < horizon) {
			horizon = clock[i];
		}
	}
	self = first;
	sched_switch(first);
}

void machine_wait_turn(void)
{
	if (running && clock[self] > horizon)
		machine_run_earliest();
}

void machine_set_cpu(u32 cpu)
{
	self = cpu;
}

u64 machine_now(void)
{
	return clock[self];
}

void machine_work(u64 ns)
{
	clock[self] += ns;
	reading[self] = false;
}

bool machine_charge(bool on)
{
	bool was = running;

	running = on;
	return was;
}

static void cpu_main(void *arg)
{
	cpu_work(self);
	all_ns += clock[self];
	clock[self] = NEVER;
	machine_run_earliest();
}

u64 machine_run(void (*work)(u32 cpu))
{
	u32 i;

	cpu_work = work;
	all_ns = 0;
	sched_start(1, 0, ncpus);
	for (i = 0; i < ncpus; i++) {
		clock[i] = 0;
		sched_spawn("cpu", cpu_main, NULL);
	}
	running = true;
	machine_run_earliest();
	running = false;
	for (i = 0; i < ncpus; i++)
		sim_check(!blocked_at[i], "processor %u waits for a lock that is never released",
			  i);
	return all_ns;
}

/* --- lines ------------------------------------------------------------------------------ */

void machine_reset(u32 cpus, u32 nodes)
{
	u32 i, j;

	if (!arena) {
		arena = mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		lines = mmap(NULL, (ARENA_BYTES >> LINE_SHIFT) * sizeof(*lines),
			     PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
			     -1, 0);
		sim_check(arena != MAP_FAILED && lines != MAP_FAILED, "no memory");
	}
	madvise(arena, ARENA_BYTES, MADV_DONTNEED);
	madvise(lines, (ARENA_BYTES >> LINE_SHIFT) * sizeof(*lines), MADV_DONTNEED);
	used = 0;
	nregions = 0;
	self = 0;
	ncpus = cpus;
	memset(on_node, 0, sizeof(on_node));
	for (i = 0; i < cpus; i++)
		node_of[i] = i * nodes / cpus;
	for (i = 0; i < cpus; i++)
		for (j = 0; j < cpus; j++)
			if (node_of[i] == node_of[j])
				on_node[i][j / 64] |= 1ull << (j % 64);
}

void machine_name(void *start, size_t stride, struct machine_member *members)
{
	sim_check(nregions < REGIONS, "too many regions");
	sim_check(!nregions || regions[nregions - 1].start < (char *)start, "out of order");
	regions[nregions++] = (struct region){ start, stride, members };
}

void *machine_alloc(size_t bytes, size_t stride, struct machine_member *members)
{
	char *start = arena + used;

	used += (bytes + 4095) & ~4095ul;
	sim_check(used <= ARENA_BYTES, "too little modelled memory");
	machine_name(start, stride, members);
	return start;
}

static struct machine_member *line_member(const void *address)
{
	u32 low = 0, high = nregions;
	struct machine_member *m;
	size_t offset;

	while (high - low > 1) {
		u32 middle = (low + high) / 2;

		if (regions[middle].start <= (const char *)address)
			low = middle;
		else
			high = middle;
	}
	offset = (size_t)((const char *)address - regions[low].start) % regions[low].stride;
	for (m = regions[low].members; m[1].name && m[1].offset <= offset; m++)
		;
	return m;
}

static bool line_is_cached(const struct line *line, u32 cpu, bool alone)
{
	return line->owner == cpu + 1 || (!alone && line->shared[cpu / 64] >> (cpu % 64) & 1);
}

static u64 line_distance(u32 a, u32 b)
{
	return node_of[a] == node_of[b] ? machine_prices.near : machine_prices.far;
}

/* The price of fetching a line that this processor does not have in the needed state. */
static u64 line_price(const struct line *line, bool writes)
{
	bool near = false, far = false;
	u32 i;

	if (line->owner)
		return line_distance(self, line->owner - 1);
	for (i = 0; i < CPU_WORDS; i++) {
		u64 others = line->shared[i];

		if (i == self / 64)
			others &= ~(1ull << (self % 64));
		near |= (others & on_node[self][i]) != 0;
		far |= (others & ~on_node[self][i]) != 0;
	}
	/* A writer waits for the invalidation of the farthest copy; a reader takes the nearest. */
	if (far && (writes || !near))
		return machine_prices.far;
	return near ? machine_prices.near : machine_prices.memory;
}

static void line_fetch(struct line *line, const void *address, u32 access)
{
	bool writes = access & WRITES, cold = !line->owner;
	u64 price = line_price(line, writes), before = clock[self], start = before;
	u32 i;

	for (i = 0; i < CPU_WORDS; i++)
		cold &= !line->shared[i];
	if (start < line->busy)
		start = line->busy;
	if (writes || line->owner)
		line->busy = start + price;
	clock[self] = start + (reading[self] ? price / machine_prices.overlap : price);
	if (!cold)
		line_member(address)->line_ns += clock[self] - before;

	if (writes || cold) {
		memset(line->shared, 0, sizeof(line->shared));
		line->owner = self + 1;
		return;
	}
	if (line->owner)
		line->shared[(line->owner - 1) / 64] |= 1ull << ((line->owner - 1) % 64);
	line->owner = 0;
	line->shared[self / 64] |= 1ull << (self % 64);
}

static struct line *line_find(const void *address)
{
	size_t offset = (size_t)((const char *)address - arena);

	return offset < ARENA_BYTES ? &lines[offset >> LINE_SHIFT] : NULL;
}

static void line_touch(const void *address, u32 access)
{
	struct line *line = line_find(address);

	if (!running)
		return;
	if (!line) {
		clock[self] += machine_prices.own;
		return;
	}
	if (access & ORDERED || !line_is_cached(line, self, access & WRITES))
		machine_wait_turn();
	if (!(access & OVERLAPS))
		reading[self] = false;
	if (!line_is_cached(line, self, access & WRITES)) {
		line_fetch(line, address, access);
		reading[self] = access & OVERLAPS;
	}
	clock[self] += access & LOCKED ? machine_prices.locked : machine_prices.own;
}

/* --- the port ---------------------------------------------------------------------------- */

u64 hm_atomic_read(const hm_atomic_t *a)
{
	line_touch(a, ORDERED | OVERLAPS);
	return a->value;
}

void hm_atomic_set(hm_atomic_t *a, u64 value)
{
	line_touch(a, WRITES | ORDERED);
	a->value = value;
}

bool hm_atomic_cas(hm_atomic_t *a, u64 *old, u64 new_value)
{
	u64 seen;

	line_touch(a, WRITES | ORDERED | LOCKED);
	seen = a->value;
	if (seen == *old) {
		a->value = new_value;
		return true;
	}
	*old = seen;
	return false;
}

u64 hm_atomic_add(hm_atomic_t *a, s64 delta)
{
	line_touch(a, WRITES | ORDERED | LOCKED);
	return a->value += (u64)delta;
}

void hm_atomic_count(hm_atomic_t *a, s64 delta)
{
	hm_atomic_add(a, delta);
}

static bool change_bit(unsigned long *map, u32 nr, bool value)
{
	unsigned long mask = 1ul << (nr % 64), old;

	line_touch(&map[nr / 64], WRITES | ORDERED | LOCKED);
	old = map[nr / 64];
	map[nr / 64] = value ? old | mask : old & ~mask;
	return old & mask;
}

bool hm_bit_set(unsigned long *map, u32 nr)
{
	return change_bit(map, nr, true);
}

bool hm_bit_clear(unsigned long *map, u32 nr)
{
	return change_bit(map, nr, false);
}

unsigned long hm_bits_read(const unsigned long *map, u32 word)
{
	line_touch(&map[word], ORDERED | OVERLAPS);
	return map[word];
}

void *machine_ptr_read(const void *p)
{
	line_touch(p, ORDERED);
	return *(void *const *)p;
}

void machine_ptr_set(void *p, void *value)
{
	line_touch(p, WRITES | ORDERED);
	*(void **)p = value;
}

bool machine_ptr_install(void *p, void *value)
{
	line_touch(p, WRITES | ORDERED | LOCKED);
	if (*(void **)p)
		return false;
	*(void **)p = value;
	return true;
}

u32 hm_cpu(void)
{
	return self;
}

/* The processor that this one waits for has to run, even if the time is not charged. */
void hm_relax(void)
{
	bool charged = machine_charge(true);

	machine_work(10);
	machine_wait_turn();
	machine_charge(charged);
}

void hm_spin_init(hm_spinlock_t *lock)
{
	*lock = (hm_spinlock_t){ .held = 0 };
}

/* A queued spinlock like the kernel's: a waiter joins the queue, and spins on its own line. */
void hm_spin_lock(hm_spinlock_t *lock)
{
	line_touch(lock, WRITES | ORDERED | LOCKED);
	if (!lock->held) {
		lock->held = 1;
		return;
	}
	sim_check(running, "a lock is held outside a run");
	if (lock->first)
		next_waiter[lock->last - 1] = (u8)(self + 1);
	else
		lock->first = (u8)(self + 1);
	lock->last = (u8)(self + 1);
	next_waiter[self] = 0;
	blocked_at[self] = clock[self];
	clock[self] = NEVER;
	machine_run_earliest();
	line_member(lock)->lock_ns += clock[self] - blocked_at[self];
	blocked_at[self] = 0;
}

void hm_spin_unlock(hm_spinlock_t *lock)
{
	struct line *line;
	u64 then;
	u32 next;

	sim_check(lock->held, "a lock that is not held is released");
	line_touch(lock, WRITES | ORDERED);
	if (!lock->first) {
		lock->held = 0;
		return;
	}
	next = lock->first - 1u;
	lock->first = next_waiter[next];
	then = clock[self] + line_distance(self, next);
	if (then < blocked_at[next])
		then = blocked_at[next];
	clock[next] = then;
	if (then < horizon)
		horizon = then;
	line = line_find(lock);
	line->owner = next + 1;
	line->busy = then;
}

/* --- plain loads and stores of the core: see plain.h ---------------------------------------- */

void __tsan_read1(void *p)
{
	line_touch(p, OVERLAPS);
}

void __tsan_write1(void *p)
{
	line_touch(p, WRITES);
}

static void line_touch_range(const char *p, size_t bytes, u32 access)
{
	const char *end = p + bytes;

	for (; p < end; p = (const char *)(((uintptr_t)p | ((1ul << LINE_SHIFT) - 1)) + 1))
		line_touch(p, access);
}

void __tsan_read_range(void *p, unsigned long bytes)
{
	line_touch_range(p, bytes, OVERLAPS);
}

void __tsan_write_range(void *p, unsigned long bytes)
{
	line_touch_range(p, bytes, WRITES);
}

void __tsan_func_entry(void *caller)
{
}
