// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Operations by way of mappings of the pool.
 */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "ops.h"
#include "pool.h"

void call(struct worker *w, const char *what, int err)
{
	if (err)
		fail(w, "%s: %s (%s)", what, strerror(-err), hugemap_reason());
}

uint64_t mapped_end(const struct worker *w)
{
	return round_up(w->model->size, PAGE);
}

void *map_pool(struct worker *w, uint64_t off, uint64_t len, int prot)
{
	struct hugemap_options options = { .size = sizeof(options), .pool = pool };
	void *addr;

	options.priority = (enum hugemap_priority)random_below(w, 3);
	addr = hugemap_map(w->fd, (off_t)off, len, prot, 0, &options);
	call(w, "hugemap_map", hugemap_error(addr));
	return addr;
}

static void unmap(struct worker *w, struct kept *kept)
{
	if (kept->addr)
		call(w, "hugemap_unmap", hugemap_unmap(kept->addr, kept->len));
	kept->addr = NULL;
}

void unmap_all(struct worker *w)
{
	unsigned int i;

	for (i = 0; i < KEPT; i++)
		unmap(w, &w->kept[i]);
}

/* A mapping that can be used now, or NULL. @len: how much of it the file has. */
struct kept *pick_kept(struct worker *w, bool writable, uint64_t *len)
{
	unsigned int start = (unsigned int)random_below(w, KEPT), i;
	uint64_t end = mapped_end(w);

	for (i = 0; i < KEPT; i++) {
		struct kept *kept = &w->kept[(start + i) % KEPT];

		if (!kept->addr || kept->off >= end || (writable && !kept->writable))
			continue;
		*len = end - kept->off < kept->len ? end - kept->off : kept->len;
		return kept;
	}
	return NULL;
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

void op_kept_read(struct worker *w)
{
	uint64_t there, at, len;
	struct kept *kept = pick_kept(w, false, &there);

	if (!kept)
		return;
	at = random_below(w, there);
	len = pick_length(w);
	if (len > there - at)
		len = there - at;
	note(w, "kept-read", kept->off + at, len, 0);
	check(w, "load from a kept mapping", kept->off + at, kept->addr + at, len);
}

void op_kept_write(struct worker *w)
{
	uint64_t there, off, len;
	struct kept *kept = pick_kept(w, true, &there);

	if (!kept || !pick_range(w, true, &off, &len))
		return;
	if (w->opts->threads == 1)
		off = kept->off + random_below(w, there);
	else if (off < kept->off || off >= kept->off + there)
		return;
	len = available(w, off, len);
	if (!len)
		return;
	if (len > kept->off + there - off)
		len = kept->off + there - off;
	note(w, "kept-write", off, len, 0);
	fill(w, w->buf, len);
	memcpy(kept->addr + (off - kept->off), w->buf, len);
	wrote(w, off, w->buf, len);
}

static unsigned char *map_fresh(struct worker *w, uint64_t off, uint64_t len, uint64_t *mapped)
{
	uint64_t from = round_down(off, BLOCK);

	*mapped = round_up(off + len, BLOCK) - from;
	return (unsigned char *)map_pool(w, from, *mapped, PROT_READ | PROT_WRITE);
}

void op_fresh_read(struct worker *w)
{
	uint64_t off, len, mapped;
	unsigned char *addr;

	pick_range(w, false, &off, &len);
	if (off >= w->model->size)
		return;
	/* To the end of the last page: zeros. */
	if (len > mapped_end(w) - off)
		len = mapped_end(w) - off;
	note(w, "fresh-read", off, len, 0);
	addr = map_fresh(w, off, len, &mapped);
	check(w, "load from a fresh mapping", off, addr + off % BLOCK, len);
	call(w, "hugemap_unmap", hugemap_unmap(addr, mapped));
}

void op_fresh_write(struct worker *w)
{
	uint64_t off, len, mapped;
	unsigned char *addr;

	if (!pick_range(w, true, &off, &len))
		return;
	note(w, "fresh-write", off, len, 0);
	if (off + len > w->model->size) {
		call(w, "hugemap_truncate", hugemap_truncate(w->fd, (off_t)(off + len)));
		resized(w, off + len);
	}
	fill(w, w->buf, len);
	addr = map_fresh(w, off, len, &mapped);
	memcpy(addr + off % BLOCK, w->buf, len);
	wrote(w, off, w->buf, len);
	if (random_chance(w, 10)) {
		call(w, "hugemap_sync", hugemap_sync(addr, mapped, MS_SYNC));
		check_below(w, "after a sync of a fresh mapping, in the file", off, len);
	}
	call(w, "hugemap_unmap", hugemap_unmap(addr, mapped));
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

/* One end of a mapping goes, by whole blocks. */
void op_unmap(struct worker *w)
{
	uint64_t there, cut;
	struct kept *kept = pick_kept(w, false, &there);

	if (!kept || kept->len <= BLOCK)
		return;
	cut = BLOCK * (1 + random_below(w, kept->len / BLOCK - 1));
	note(w, "unmap", kept->off, kept->len, cut);
	if (random_chance(w, 50)) {
		call(w, "hugemap_unmap", hugemap_unmap(kept->addr + kept->len - cut, cut));
	} else {
		call(w, "hugemap_unmap", hugemap_unmap(kept->addr, cut));
		kept->addr += cut;
		kept->off += cut;
	}
	kept->len -= cut;
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

void op_sync(struct worker *w)
{
	uint64_t there, at, len;
	struct kept *kept = pick_kept(w, false, &there);
	int flags = random_chance(w, 80) ? MS_SYNC : MS_ASYNC;

	if (!kept)
		return;
	at = round_down(random_below(w, there), PAGE);
	len = random_chance(w, 50) ? there - at : 1 + random_below(w, there - at);
	note(w, "sync", kept->off + at, len, (uint64_t)flags);
	call(w, "hugemap_sync", hugemap_sync(kept->addr + at, len, flags));
	if (flags == MS_SYNC)
		check_below(w, "after a sync, in the file", kept->off + at, len);
}

/* None of these may change a byte. */
void op_advise(struct worker *w)
{
	enum hugemap_advice advice =
		(enum hugemap_advice)random_below(w, HUGEMAP_ADVICE_PRIORITY_LOW + 1);
	uint64_t there, at, len;
	struct kept *kept = pick_kept(w, false, &there);

	if (!kept)
		return;
	at = round_down(random_below(w, there), PAGE);
	len = 1 + random_below(w, there - at);
	note(w, "advise", kept->off + at, len, advice);
	call(w, "hugemap_advise", hugemap_advise(kept->addr + at, len, advice));
}

void op_prefetch(struct worker *w)
{
	uint64_t there, at, len;
	struct kept *kept = pick_kept(w, false, &there);

	if (!kept)
		return;
	at = round_down(random_below(w, there), PAGE);
	len = 1 + random_below(w, there - at);
	note(w, "prefetch", kept->off + at, len, 0);
	call(w, "hugemap_prefetch", hugemap_prefetch(kept->addr + at, len));
}
