// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * userfaultfd: threads that wait for a page, messages, and what the ioctls do to pages,
 * with the refusals that Linux has. See mm/userfaultfd.c of Linux 6.18.
 */
#include "os.h"

#include <errno.h>
#include <sys/ioctl.h>

#include "linux.h"
#include "uffd.h"

#define WAITERS SIM_COROUTINES

#define WATCH_MISSING 1
#define WATCH_PROTECT 2

struct waiter {
	bool used, read, woken;
	char *at;
	u64 flags;
};

static struct waiter waiters[WAITERS];
u64 userfault_events;

void userfault_new(void)
{
	memset(waiters, 0, sizeof(waiters));
}

/* Sleep until somebody wakes the page, or (a signal has come) for no reason. */
void userfault_wait(void *at, bool write, bool protected)
{
	struct long_wait wait = { 0 };
	struct waiter *w = waiters;

	while (w->used)
		w++;
	sim_check(w < waiters + WAITERS, "too many wait for pages");
	*w = (struct waiter){
		.used = true,
		.at = at,
		.flags = (write ? UFFD_PAGEFAULT_FLAG_WRITE : 0) |
			 (protected ? UFFD_PAGEFAULT_FLAG_WP : 0),
	};
	userfault_events++;
	while (!w->woken) {
		wait_more(&wait, "a page");
		if (w->read && !sim_below(5000))
			break;
	}
	w->used = false;
}

bool userfault_readable(void)
{
	u32 i;

	for (i = 0; i < WAITERS; i++)
		if (waiters[i].used && !waiters[i].read && !waiters[i].woken)
			return true;
	return false;
}

ssize_t userfault_read(void *buffer, size_t count)
{
	u32 start = sim_below(WAITERS), i, n = 0;
	struct uffd_msg *msgs = buffer;

	sim_step();
	for (i = 0; i < WAITERS && n < count / sizeof(*msgs); i++) {
		struct waiter *w = &waiters[(start + i) % WAITERS];

		if (!w->used || w->read || w->woken)
			continue;
		w->read = true;
		memset(&msgs[n], 0, sizeof(msgs[n]));
		msgs[n].event = UFFD_EVENT_PAGEFAULT;
		msgs[n].arg.pagefault.flags = w->flags;
		msgs[n].arg.pagefault.address = (uintptr_t)w->at;
		n++;
	}
	return n ? (ssize_t)(n * sizeof(*msgs)) : -EAGAIN;
}

static void wake(u64 start, u64 len)
{
	u32 i;

	for (i = 0; i < WAITERS; i++)
		if (waiters[i].used && (uintptr_t)waiters[i].at - start < len)
			waiters[i].woken = true;
}

/* A range of pages of one kind, all of them watched; or what is wrong with it. */
static int check_range(u64 start, u64 len, u8 watched)
{
	u64 at;

	sim_check(len && !(start % HM_PAGE_SIZE) && !(len % HM_PAGE_SIZE),
		  "a range is not of pages");
	for (at = start; at < start + len; at += HM_PAGE_SIZE) {
		struct page *page = memory_page((void *)at);

		if (page->kind != PAGE_ANON || (page->watched & watched) != watched)
			return -ENOENT;
	}
	return 0;
}

static int watch(struct uffdio_register *reg)
{
	int err = check_range(reg->range.start, reg->range.len, 0);
	u64 at;

	if (!err && sim_chance(machine.refuse_percent))
		err = -ENOMEM;
	for (at = reg->range.start; !err && at < reg->range.start + reg->range.len;
	     at += HM_PAGE_SIZE) {
		struct page *page = memory_page((void *)at);

		page->watched = 0;
		if (reg->mode & UFFDIO_REGISTER_MODE_MISSING)
			page->watched |= WATCH_MISSING;
		if (reg->mode & UFFDIO_REGISTER_MODE_WP)
			page->watched |= WATCH_PROTECT;
	}
	return err;
}

static int protect(struct uffdio_writeprotect *wp)
{
	int err = check_range(wp->range.start, wp->range.len, WATCH_PROTECT);
	bool on = wp->mode & UFFDIO_WRITEPROTECT_MODE_WP, split = sim_chance(machine.split_percent);
	u64 at;

	if (err)
		return err;
	if (sim_chance(machine.busy_percent))
		return -EAGAIN; /* the address space changes */
	for (at = wp->range.start; at < wp->range.start + wp->range.len; at += HM_PAGE_SIZE) {
		struct page *page = memory_page((void *)at);

		if (page->kind == PAGE_ANON && page->state & (PAGE_PRESENT | PAGE_SWAPPED)) {
			if (on)
				page->state |= PAGE_PROTECTED;
			else
				page->state &= (u8) ~(PAGE_PROTECTED | PAGE_EARLY | PAGE_STORED);
			if (on && page->watched & WATCH_MISSING &&
			    (page->others || page->state & PAGE_STORED))
				page->state |= PAGE_EARLY;
		}
		if (split)
			sim_step();
	}
	if (!on && !(wp->mode & UFFDIO_WRITEPROTECT_MODE_DONTWAKE))
		wake(wp->range.start, wp->range.len);
	return 0;
}

static int poison(struct uffdio_poison *poison)
{
	int err = check_range(poison->range.start, poison->range.len, 0);
	u64 at;

	for (at = poison->range.start; !err && at < poison->range.start + poison->range.len;
	     at += HM_PAGE_SIZE) {
		struct page *page = memory_page((void *)at);

		if (page->state)
			return -EEXIST;
		page->state = PAGE_POISON;
	}
	wake(poison->range.start, poison->range.len);
	return err;
}

/* --- moves ----------------------------------------------------------------------------- */

static int move_page(struct page *dst, struct page *src, void *to, void *from)
{
	if (dst->state)
		return -EEXIST;
	if (!(src->state & (PAGE_PRESENT | PAGE_SWAPPED)))
		return -ENOENT;
	if (src->pins)
		return -EBUSY;
	memcpy(to, from, HM_PAGE_SIZE);
	/* A page that is there arrives without its protection, one in the swap with it. */
	dst->state = src->state & PAGE_SWAPPED ? src->state & (u8) ~(PAGE_EARLY | PAGE_STORED) :
						 PAGE_PRESENT;
	dst->id = src->id;
	dst->others_step = src->others_step;
	memory_zap(src);
	return 0;
}

/* Is it one huge page, which moves as a whole, or not at all? */
static int whole(const struct uffdio_move *move, bool *huge)
{
	u64 at;

	*huge = !sim_chance(machine.split_percent) && move->len == HM_BLOCK_SIZE;
	for (at = 0; *huge && at < move->len; at += HM_PAGE_SIZE) {
		struct page *src = memory_page((void *)(move->src + at));
		struct page *dst = memory_page((void *)(move->dst + at));

		if (dst->state)
			return -EEXIST;
		if (!(src->state & PAGE_PRESENT))
			*huge = false;
		else if (src->pins)
			return -EBUSY;
	}
	return 0;
}

static int move_pages(struct uffdio_move *move, u64 *moved)
{
	int err = check_range(move->dst, move->len, WATCH_PROTECT);
	bool huge = false;
	u64 at;

	*moved = 0;
	if (!err)
		err = check_range(move->src, move->len, 0);
	if (err)
		return -ENOENT;
	/* One area of memory on each side, with the same rights. */
	for (at = 0; at < move->len; at += HM_PAGE_SIZE)
		if (memory_page((void *)(move->src + at))->watched !=
			    memory_page((void *)move->src)->watched ||
		    memory_page((void *)(move->src + at))->prot !=
			    memory_page((void *)(move->dst + at))->prot ||
		    memory_page((void *)(move->src + at))->locked !=
			    memory_page((void *)(move->dst + at))->locked)
			return -EINVAL;
	if (sim_chance(machine.busy_percent))
		return sim_chance(50) ? -EAGAIN : -EBUSY;
	err = whole(move, &huge);
	for (at = 0; !err && at < move->len; at += HM_PAGE_SIZE) {
		void *to = (void *)(move->dst + at), *from = (void *)(move->src + at);

		/* Between pages the rest of the world goes on, and the mappings may go. */
		if (!huge)
			sim_step();
		if (memory_page(to)->kind != PAGE_ANON || memory_page(from)->kind != PAGE_ANON)
			err = -ENOENT;
		else
			err = move_page(memory_page(to), memory_page(from), to, from);
		if (!err)
			*moved += HM_PAGE_SIZE;
		if (huge || err || !*moved || !sim_chance(machine.busy_percent))
			continue;
		/*
		 * Linux 6.18 may say that of a page that it has moved: see user/uffd.c. Until
		 * somebody looks it may be swapped out.
		 */
		if (*moved == HM_PAGE_SIZE && sim_chance(50)) {
			if (machine.swap && sim_chance(50))
				memory_page(to)->state ^= PAGE_SWAPPED | PAGE_PRESENT;
			*moved = 0;
			return -EBUSY;
		}
		break;
	}
	return err;
}

static int do_move(struct uffdio_move *move)
{
	u64 moved;
	int err = move_pages(move, &moved);

	move->move = moved ? (s64)moved : err;
	if (!moved)
		return err;
	if (!(move->mode & UFFDIO_MOVE_MODE_DONTWAKE))
		wake(move->dst, moved);
	return moved == move->len ? 0 : -EAGAIN;
}

static int zero_page(const struct uffdio_zeropage *zero)
{
	int err = check_range(zero->range.start, zero->range.len, WATCH_PROTECT);
	struct page *page = memory_page((void *)zero->range.start);

	if (err)
		return err;
	if (sim_chance(machine.busy_percent))
		return -EAGAIN;
	if (page->state)
		return -EEXIST;
	memset((void *)zero->range.start, 0, HM_PAGE_SIZE);
	page->state = PAGE_PRESENT;
	return 0;
}

int userfault_ioctl(unsigned long request, void *arg)
{
	struct uffdio_range *range = arg;

	sim_step();
	switch (request) {
	case UFFDIO_API:
		return 0;
	case UFFDIO_REGISTER:
		return watch(arg);
	case UFFDIO_WAKE:
		wake(range->start, range->len);
		return 0;
	case UFFDIO_WRITEPROTECT:
		return protect(arg);
	case UFFDIO_POISON:
		return poison(arg);
	case UFFDIO_ZEROPAGE:
		return zero_page(arg);
	case UFFDIO_MOVE:
		return do_move(arg);
	default:
		sim_fail(__FILE__, __LINE__, "ioctl %lx", request);
	}
}
