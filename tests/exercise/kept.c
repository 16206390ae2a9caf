// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Operations by way of mappings: fresh ones, and ones that are kept. What happens to
 * the file by other means must show in those at once, and the other way round.
 */
#include "ops.h"

#include <string.h>
#include <sys/mman.h>

/* Loads are allowed up to here: the end of the page that holds the last byte. */
uint64_t mapped_end(const struct worker *w)
{
	return round_up(w->model->size, PAGE);
}

void unmap(struct worker *w, struct kept *kept)
{
	if (kept->addr)
		unmap_range(w, kept->addr, kept->len);
	kept->addr = NULL;
}

void unmap_all(struct worker *w)
{
	unsigned int i;

	for (i = 0; i < KEPT; i++)
		unmap(w, &w->kept[i]);
}

void keep_some(struct worker *w)
{
	unsigned int i;

	for (i = 0; i < KEPT / 2; i++)
		op_keep(w);
}

/* A mapping that can be used now, or NULL. @len: how much of it the file has. */
struct kept *pick_kept(struct worker *w, bool writable, uint64_t *len)
{
	unsigned int start = (unsigned int)random_below(w, KEPT);
	uint64_t end = mapped_end(w);
	unsigned int i;

	for (i = 0; i < KEPT; i++) {
		struct kept *kept = &w->kept[(start + i) % KEPT];

		if (!kept->addr || kept->off >= end || (writable && !kept->writable))
			continue;
		*len = end - kept->off < kept->len ? end - kept->off : kept->len;
		return kept;
	}
	return NULL;
}

/* A part of one, as calls on mappings take it: it begins with a page. */
struct kept *pick_pages(struct worker *w, bool writable, uint64_t *off, uint64_t *len)
{
	uint64_t there, at;
	struct kept *kept = pick_kept(w, writable, &there);

	if (!kept)
		return NULL;
	at = round_down(random_below(w, there), PAGE);
	*off = kept->off + at;
	*len = random_chance(w, 30) ? there - at : 1 + random_below(w, there - at);
	return kept;
}

void op_map_read(struct worker *w)
{
	struct kept fresh;
	uint64_t off, len;

	pick_range(w, false, &off, &len);
	if (off >= w->model->size)
		return;
	/* To the end of the last page: zeros. */
	if (len > mapped_end(w) - off)
		len = mapped_end(w) - off;
	note(w, "map-read", off, len, 0);
	fresh = map_fresh(w, off, len, false);
	check(w, "load from a fresh mapping", off, mapped(&fresh, off), len);
	unmap(w, &fresh);
}

void op_map_write(struct worker *w)
{
	struct kept fresh;
	uint64_t off, len;

	if (!pick_range(w, true, &off, &len))
		return;
	note(w, "map-write", off, len, 0);
	if (off + len > w->model->size)
		resize_file(w, off + len);
	fill(w, w->buf, len);
	fresh = map_fresh(w, off, len, true);
	memcpy(mapped(&fresh, off), w->buf, len);
	wrote(w, off, w->buf, len);
	if (random_chance(w, 10)) {
		sync_mapped(w, fresh.addr, fresh.len, MS_SYNC);
		check_below(w, "after a sync of a fresh mapping, below", off, len);
	}
	unmap(w, &fresh);
}

void op_kept_read(struct worker *w)
{
	uint64_t there, off, len = pick_length(w);
	struct kept *kept = pick_kept(w, false, &there);

	if (!kept)
		return;
	off = kept->off + random_below(w, there);
	if (len > kept->off + there - off)
		len = kept->off + there - off;
	note(w, "kept-read", off, len, 0);
	check(w, "load from a kept mapping", off, mapped(kept, off), len);
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
	memcpy(mapped(kept, off), w->buf, len);
	wrote(w, off, w->buf, len);
}

void op_sync(struct worker *w)
{
	uint64_t off, len;
	struct kept *kept = pick_pages(w, false, &off, &len);
	int flags = random_chance(w, 80) ? MS_SYNC : MS_ASYNC;

	if (!kept)
		return;
	note(w, "sync", off, len, (uint64_t)flags);
	sync_mapped(w, mapped(kept, off), len, flags);
	if (flags == MS_SYNC)
		check_below(w, "after a sync, below", off, len);
}

/* Unmap some pages at one end of a mapping, often not a whole block. */
void op_unmap(struct worker *w)
{
	uint64_t there, cut;
	struct kept *kept = pick_kept(w, false, &there);

	if (!kept || kept->len <= PAGE)
		return;
	cut = PAGE * (1 + random_below(w, kept->len / PAGE - 1));
	note(w, "unmap", kept->off, kept->len, cut);
	if (random_chance(w, 50)) {
		unmap_range(w, kept->addr + kept->len - cut, cut);
	} else {
		unmap_range(w, kept->addr, cut);
		kept->addr += cut;
		kept->off += cut;
	}
	kept->len -= cut;
}
