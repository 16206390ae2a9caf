// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Memory: an arena of tiny pages, each mapped or not, present or not. A page keeps its
 * bytes in the arena; a move copies them. What is not present holds nonsense there, so
 * that who looks without a fault is found out.
 */
#include "os.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "linux.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define NONSENSE 0xdb
#define JUST_NOW 200000u /* steps */

static char arena[ARENA_PAGES << HM_PAGE_SHIFT] __attribute__((aligned(4096)));
static struct page pages[ARENA_PAGES];
static u32 next_id, cursor;
struct machine machine;
u32 others_pins;
u64 others_pins_ever;

bool memory_is_ours(const void *at)
{
	return (const char *)at >= arena && (const char *)at < arena + sizeof(arena);
}

struct page *memory_page(const void *at)
{
	sim_check(memory_is_ours(at), "an address that is no address: %p", at);
	return &pages[((const char *)at - arena) >> HM_PAGE_SHIFT];
}

char *memory_at(u32 index)
{
	return arena + ((size_t)index << HM_PAGE_SHIFT);
}

static char *start_of(const struct page *page)
{
	return memory_at((u32)(page - pages));
}

static char *page_start(const void *at)
{
	return (char *)((uintptr_t)at & ~(uintptr_t)(HM_PAGE_SIZE - 1));
}

void memory_new(void)
{
	memset(pages, 0, sizeof(pages));
	cursor = 0;
	others_pins = 0;
}

/* --- pages ---------------------------------------------------------------------------- */

static void allocate(struct page *page)
{
	page->state = PAGE_PRESENT;
	page->id = ++next_id;
	page->pins = page->others = 0;
	memset(start_of(page), 0, HM_PAGE_SIZE);
}

void memory_zap(struct page *page)
{
	if (page->kind != PAGE_ANON)
		return;
	page->state = 0;
	page->id = ++next_id; /* who has it pinned keeps what nobody else sees */
	page->pins = page->others = 0;
	memset(start_of(page), NONSENSE, HM_PAGE_SIZE);
}

/* Beyond the end, or a store where there is no room. */
static enum touch touch_file(struct page *page, bool write)
{
	struct os_file *file = page->file;

	if (page->pgoff >= file_pages(file))
		return TOUCH_BUS;
	if (write && device_write(file, page->pgoff, file->page[page->pgoff].value))
		return TOUCH_BUS;
	return TOUCHED;
}

enum touch memory_touch(void *at, bool write)
{
	struct page *page = memory_page(at);

	for (;;) {
		sim_step();
		if (page->kind == PAGE_NONE || !(page->prot & PROT_READ) ||
		    (write && !(page->prot & PROT_WRITE)))
			return TOUCH_SEGV;
		if (page->kind == PAGE_SHARED)
			return TOUCHED;
		if (page->kind == PAGE_FILE)
			return touch_file(page, write);
		if (page->state & PAGE_POISON)
			return TOUCH_BUS;
		if (page->state & PAGE_SWAPPED)
			page->state ^= PAGE_SWAPPED | PAGE_PRESENT;
		if (!(page->state & PAGE_PRESENT)) {
			if (page->watched & 1)
				userfault_wait(page_start(at), write, false);
			else
				allocate(page);
			continue;
		}
		if (!write || !(page->state & PAGE_PROTECTED))
			return TOUCHED;
		sim_check(page->watched != 2, "a slot is protected");
		if (page->watched & 2)
			userfault_wait(page_start(at), true, true);
		else
			page->state &= (u8)~PAGE_PROTECTED;
	}
}

/* Now: a load or a store that was just allowed. */
u64 memory_value(void *at)
{
	struct page *page = memory_page(at);
	u64 value;

	if (page->kind == PAGE_FILE)
		return page->file->page[page->pgoff].value;
	memcpy(&value, page_start(at), sizeof(value));
	return value;
}

void memory_set_value(void *at, u64 value)
{
	struct page *page = memory_page(at);
	u64 *words = (u64 *)page_start(at);
	u32 i;

	if (page->kind == PAGE_FILE) {
		device_write(page->file, page->pgoff, value);
		return;
	}
	for (i = 0; i < HM_PAGE_SIZE / 8; i++)
		words[i] = value;
	if (page->watched & 1)
		page->state |= PAGE_STORED;
}

/* --- pins ------------------------------------------------------------------------------ */

enum touch memory_pin(void *at, bool write, u32 *id)
{
	enum touch touch = memory_touch(at, write);
	struct page *page = memory_page(at);

	if (touch != TOUCHED)
		return touch;
	page->pins++;
	*id = page->id;
	return TOUCHED;
}

void memory_unpin(void *at, u32 id)
{
	struct page *page = memory_page(at);

	if (page->id == id && page->pins)
		page->pins--;
}

void memory_others_pin(void *at)
{
	struct page *page = memory_page(at);

	page->others++;
	page->others_step = sched_steps() + 1;
	others_pins++;
	others_pins_ever++;
}

void memory_others_unpin(void *at, u32 id)
{
	struct page *page = memory_page(at);

	others_pins--;
	others_pins_ever++;
	memory_unpin(at, id);
	if (page->id != id || !page->others)
		return;
	page->others--;
	page->others_step = sched_steps() + 1;
}

/*
 * The engine may have seen it so when it decided where to write the block from, of which
 * this is a page.
 */
bool memory_was_pinned(const void *at)
{
	const struct page *page = memory_page((void *)((uintptr_t)at & -(uintptr_t)HM_BLOCK_SIZE));
	u32 i;

	if (!(memory_page(at)->watched & 1))
		return false;
	for (i = 0; i < HM_BLOCK_PAGES; i++, page++)
		if (machine.busy_percent || page->others ||
		    (page->others_step && sched_steps() - page->others_step < JUST_NOW))
			return true;
	return false;
}

/* --- the engine's own touches ------------------------------------------------------------ */

/* Where a fault could not be served, as a lock is held or the handler itself touches. */
void memory_engine_touch(const void *at, size_t bytes)
{
	const char *end = (const char *)at + bytes;

	for (at = page_start(at); (const char *)at < end; at = (const char *)at + HM_PAGE_SIZE) {
		struct page *page;

		if (!memory_is_ours(at))
			return;
		page = memory_page(at);
		sim_check(page->kind != PAGE_NONE, "the engine touches what is not mapped");
		if (page->kind != PAGE_ANON)
			continue;
		sim_check(!(page->state & PAGE_POISON), "the engine touches a poisoned page");
		if (page->state & PAGE_SWAPPED)
			page->state ^= PAGE_SWAPPED | PAGE_PRESENT;
		if (page->state & PAGE_PRESENT)
			continue;
		sim_check(!(page->watched & 1), "the engine faults in a mapping of its own");
		allocate(page);
	}
}

/* The program's memory on one side: any fault of it is taken here. */
void memory_engine_copy(void *to, const void *from, size_t bytes)
{
	size_t done = 0, n;

	for (done = 0; done < bytes; done += n) {
		char *dst = (char *)to + done;
		char *src = (char *)(uintptr_t)from + done;
		bool dst_ours = memory_is_ours(dst), src_ours = memory_is_ours(src);
		u64 value;

		n = HM_PAGE_SIZE - (dst_ours ? (uintptr_t)dst : (uintptr_t)src) % HM_PAGE_SIZE;
		n = n < bytes - done ? n : bytes - done;
		if ((dst_ours && memory_page(dst)->watched & 1) ||
		    (src_ours && memory_page(src)->watched & 1)) {
			/* With a lock it must be one that is there, under the block's lock. */
			if (thread_locks_held()) {
				memory_engine_touch(dst_ours ? dst : src, n);
			} else {
				sim_check(!dst_ours || memory_touch(dst, true) == TOUCHED,
					  "a buffer cannot be written");
				sim_check(!src_ours || memory_touch(src, false) == TOUCHED,
					  "a buffer cannot be read");
			}
		} else {
			if (dst_ours)
				memory_engine_touch(dst, n);
			if (src_ours)
				memory_engine_touch(src, n);
		}
		if (src_ours && memory_page(src)->kind == PAGE_FILE) {
			value = memory_value(src);
			memcpy(dst, &value, n < sizeof(value) ? n : sizeof(value));
		} else if (dst_ours && memory_page(dst)->kind == PAGE_FILE) {
			memcpy(&value, src, sizeof(value));
			memory_set_value(dst, value);
		} else {
			memcpy(dst, src, n);
		}
	}
}

/* --- system calls -------------------------------------------------------------------------- */

static bool is_free(u32 at, u32 n)
{
	u32 i;

	for (i = at; i < at + n; i++)
		if (pages[i].kind != PAGE_NONE)
			return false;
	return true;
}

/* Often where something was a moment ago: addresses are used again. */
static char *find_room(u32 n)
{
	u32 at = sim_chance(60) ? 0 : cursor, left = ARENA_PAGES;

	while (left--) {
		if (at + n > ARENA_PAGES)
			at = 0;
		if (is_free(at, n)) {
			cursor = at + n;
			return memory_at(at);
		}
		at++;
	}
	return NULL;
}

/* Memory that is locked is there at once, unless it cannot be touched, or somebody watches. */
static void fill_locked(struct page *page)
{
	if (page->locked && page->kind == PAGE_ANON && page->prot && !page->watched && !page->state)
		allocate(page);
}

void *sys_mmap(void *at, size_t length, int prot, int flags, int fd, uint64_t offset)
{
	u32 n = (u32)((length + HM_PAGE_SIZE - 1) >> HM_PAGE_SHIFT), i;
	struct os_file *file = fd >= 0 ? file_of(fd) : NULL;

	sim_step();
	if (!(flags & MAP_FIXED))
		at = sim_chance(machine.refuse_percent) ? NULL : find_room(n);
	if (!at)
		return (void *)(intptr_t)-ENOMEM;
	for (i = 0; i < n; i++) {
		struct page *page = memory_page((char *)at + ((size_t)i << HM_PAGE_SHIFT));

		memory_zap(page);
		*page = (struct page){
			.kind = flags & MAP_ANONYMOUS ? PAGE_ANON :
				file		      ? PAGE_FILE :
							PAGE_SHARED,
			.prot = (u8)prot,
			.file = file,
			.pgoff = (u32)(offset >> HM_PAGE_SHIFT) + i,
			.id = ++next_id,
			.locked = machine.lock_future && !file,
		};
		memset(start_of(page), 0, HM_PAGE_SIZE);
		fill_locked(page);
	}
	return at;
}

static int each_page(void *at, size_t length, int (*work)(struct page *page, int arg), int arg)
{
	char *end = (char *)at + length, *p;
	int err = 0;

	sim_check(!((uintptr_t)at % HM_PAGE_SIZE), "an address is not aligned");
	for (p = at; p < end && !err; p += HM_PAGE_SIZE) {
		if (memory_page(p)->kind == PAGE_NONE)
			return -ENOMEM;
		err = work(memory_page(p), arg);
	}
	return err;
}

static int unmap_page(struct page *page, int arg)
{
	(void)arg;
	memory_zap(page);
	*page = (struct page){ .kind = PAGE_NONE, .id = ++next_id };
	return 0;
}

int sys_munmap(void *at, size_t length)
{
	sim_step();
	if (sim_chance(machine.refuse_percent))
		return -ENOMEM;
	return each_page(at, length, unmap_page, 0);
}

static int advise_page(struct page *page, int advice)
{
	char *at = start_of(page);

	switch (advice) {
	case MADV_DONTNEED:
		if (page->locked)
			return -EINVAL;
		memory_zap(page);
		return 0;
	case MADV_POPULATE_READ:
	case MADV_POPULATE_WRITE:
		switch (memory_touch(at, advice == MADV_POPULATE_WRITE)) {
		case TOUCHED:
			return 0;
		case TOUCH_BUS:
			return page->kind == PAGE_ANON ? -EHWPOISON : -EFAULT;
		default:
			return -ENOMEM;
		}
	default:
		return 0;
	}
}

int sys_madvise(void *at, size_t length, int advice)
{
	sim_step();
	return each_page(at, length, advise_page, advice);
}

static int protect_page(struct page *page, int prot)
{
	page->prot = (u8)prot;
	fill_locked(page);
	return 0;
}

int sys_mprotect(void *at, size_t length, int prot)
{
	sim_step();
	return each_page(at, length, protect_page, prot);
}

static int unlock_page(struct page *page, int arg)
{
	(void)arg;
	page->locked = false;
	return 0;
}

int sys_munlock(const void *at, size_t length)
{
	sim_step();
	return each_page((void *)(uintptr_t)at, length, unlock_page, 0);
}

void memory_lock(void *at, size_t bytes)
{
	char *p;

	for (p = at; p < (char *)at + bytes; p += HM_PAGE_SIZE)
		memory_page(p)->locked = memory_page(p)->kind == PAGE_ANON;
}

int sys_mincore(void *at, size_t length, unsigned char *present)
{
	size_t i;

	sim_step();
	if (sim_chance(machine.refuse_percent))
		return -EAGAIN; /* no page for a buffer of the kernel's */
	for (i = 0; i < length >> HM_PAGE_SHIFT; i++) {
		struct page *page = memory_page((char *)at + (i << HM_PAGE_SHIFT));

		if (page->kind == PAGE_NONE)
			return -ENOMEM;
		present[i] = page->kind != PAGE_ANON || page->state & PAGE_PRESENT;
	}
	return 0;
}

/* --- what happens to memory of itself ------------------------------------------------- */

static struct page *any_page(void)
{
	u32 start = sim_below(ARENA_PAGES), i;

	for (i = 0; i < 256; i++) {
		struct page *page = &pages[(start + i) % ARENA_PAGES];

		if (page->kind == PAGE_ANON && page->watched && page->state & PAGE_PRESENT)
			return page;
	}
	return NULL;
}

void swapper_main(void *arg)
{
	(void)arg;
	for (;;) {
		u32 pause = sim_below(300);
		struct page *page;

		while (pause--)
			sim_yield();
		page = machine.swap ? any_page() : NULL;
		if (page && !page->pins)
			page->state ^= PAGE_SWAPPED | PAGE_PRESENT;
	}
}

/* A debugger, say, looks at the process's memory: where none is, it finds a page of zeros. */
static void look_around(void)
{
	struct page *page = &pages[sim_below(ARENA_PAGES)];

	if (page->kind == PAGE_ANON && page->watched == 2 && !page->state)
		allocate(page);
}

/* Somebody holds a page for a moment: compaction, a look by another process. */
void passer_by_main(void *arg)
{
	bool looks = sim_chance(30);

	(void)arg;
	for (;;) {
		struct page *page = any_page();
		u32 pause = sim_below(500), id;

		if (looks)
			look_around();

		if (page && machine.busy_percent) {
			page->pins++;
			memory_others_pin(start_of(page));
			id = page->id;
			sim_yield();
			memory_others_unpin(start_of(page), id);
		}
		while (pause--)
			sim_yield();
	}
}
