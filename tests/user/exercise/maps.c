// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Mappings of the pool, by the library's calls.
 */
#include "pool.h"

#include <string.h>
#include <sys/mman.h>

void call(struct worker *w, const char *what, int err)
{
	if (err)
		fail(w, "%s: %s (%s)", what, strerror(-err), hugemap_reason());
}

static unsigned char *map_pool(struct worker *w, uint64_t off, uint64_t len, int prot)
{
	struct hugemap_options options = { .size = sizeof(options), .pool = pool };
	void *addr;

	options.priority = (enum hugemap_priority)random_below(w, 3);
	addr = hugemap_map(w->fd, (off_t)off, len, prot, 0, &options);
	call(w, "hugemap_map", hugemap_error(addr));
	return (unsigned char *)addr;
}

/* Who only reads a file first may not write it afterwards: so each can be written. */
struct kept map_fresh(struct worker *w, uint64_t off, uint64_t len, bool change)
{
	struct kept fresh = { .off = round_down(off, BLOCK) };

	(void)change;
	fresh.len = round_up(off + len, BLOCK) - fresh.off;
	fresh.addr = map_pool(w, fresh.off, fresh.len, PROT_READ | PROT_WRITE);
	return fresh;
}

void unmap_range(struct worker *w, unsigned char *addr, uint64_t len)
{
	call(w, "hugemap_unmap", hugemap_unmap(addr, len));
}

void sync_mapped(struct worker *w, unsigned char *addr, uint64_t len, int flags)
{
	call(w, "hugemap_sync", hugemap_sync(addr, len, flags));
}

/* Who only reads a file first may not write it afterwards: one that writes is first. */
static bool writes(const struct worker *w)
{
	unsigned int i;

	for (i = 0; i < KEPT; i++)
		if (w->kept[i].addr && w->kept[i].writable)
			return true;
	return false;
}

void op_keep(struct worker *w)
{
	struct kept *kept = &w->kept[random_below(w, KEPT)];
	uint64_t blocks = w->model->size / BLOCK + 1;

	unmap(w, kept);
	kept->off = BLOCK * random_below(w, blocks);
	kept->len = BLOCK * (1 + random_below(w, random_chance(w, 30) ? blocks + 1 : 3));
	kept->writable = !writes(w) || random_chance(w, 80);
	note(w, "keep", kept->off, kept->len, kept->writable);
	kept->addr = map_pool(w, kept->off, kept->len,
			      kept->writable ? PROT_READ | PROT_WRITE : PROT_READ);
}

/* Long enough for read-ahead, or for write-behind. */
void op_stream(struct worker *w)
{
	uint64_t step = PAGE << random_below(w, 7), there, at, n;
	bool stores = w->opts->threads == 1 && random_chance(w, 40);
	struct kept *kept = pick_kept(w, stores, &there);

	if (!kept)
		return;
	if (there > w->model->size - kept->off)
		there = w->model->size - kept->off;
	if (there > LARGEST)
		there = LARGEST;
	note(w, stores ? "stream-store" : "stream-load", kept->off, there, step);
	if (stores)
		fill(w, w->buf, there);
	for (at = 0; at < there; at += step) {
		n = there - at < step ? there - at : step;
		if (stores)
			memcpy(kept->addr + at, w->buf + at, n);
		else
			check(w, "load from a stream", kept->off + at, kept->addr + at, n);
	}
	if (stores)
		wrote(w, kept->off, w->buf, there);
}

void op_remap(struct worker *w)
{
	uint64_t there, len = BLOCK * (1 + random_below(w, 4));
	struct kept *kept = pick_kept(w, false, &there);
	unsigned char *addr;

	if (!kept)
		return;
	note(w, "remap", kept->off, kept->len, len);
	addr = (unsigned char *)hugemap_remap(kept->addr, kept->len, len);
	call(w, "hugemap_remap", hugemap_error(addr));
	kept->addr = addr;
	kept->len = len;
}

/* None of these may change a byte. */
void op_advise(struct worker *w)
{
	enum hugemap_advice advice =
		(enum hugemap_advice)random_below(w, HUGEMAP_ADVICE_PRIORITY_LOW + 1);
	uint64_t off, len;
	struct kept *kept = pick_pages(w, false, &off, &len);

	if (!kept)
		return;
	note(w, "advise", off, len, advice);
	call(w, "hugemap_advise", hugemap_advise(mapped(kept, off), len, advice));
}

void op_prefetch(struct worker *w)
{
	uint64_t off, len;
	struct kept *kept = pick_pages(w, false, &off, &len);

	if (!kept)
		return;
	note(w, "prefetch", off, len, 0);
	call(w, "hugemap_prefetch", hugemap_prefetch(mapped(kept, off), len));
}

void disturb_once(struct disturber *d, uint64_t random)
{
	struct worker *w = d->w;
	unsigned char byte;

	switch (random >> 61) {
	case 1:
		call(w, "hugemap_advise beside direct I/O",
		     hugemap_advise(d->kept->addr, d->there, HUGEMAP_ADVICE_DONTNEED));
		break;
	case 2:
	case 3:
		if (read_file(w, &byte, 1, (random >> 20) % d->size) != 1)
			fail(w, "hugemap_pread beside direct I/O: short");
		break;
	case 4:
		call(w, "hugemap_flush beside direct I/O", hugemap_flush(w->fd, 0, 0));
		break;
	default:
		sync_mapped(w, d->kept->addr, d->there, MS_SYNC);
	}
}
