// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * hugemap_pread() and hugemap_pwrite(), with buffers of the program's own or in mappings,
 * and devices that store into mappings: read(2) of another file with O_DIRECT.
 */
#include "world.h"

#include <errno.h>

#define MOST 24u /* pages of one call */

/* A part of a mapping as a buffer: nobody else stores there. */
struct buffer {
	struct mapped *map;
	u32 page, n;
	char own[MOST << HM_PAGE_SHIFT];
	char *at;
};

static struct model_page *page_of(const struct buffer *buffer, u32 i)
{
	return &model_files[buffer->map->file].page[buffer->map->pgoff + buffer->page + i];
}

static bool own(struct buffer *buffer)
{
	struct os_file *file;
	u32 i;

	for (i = 0; i < buffer->n; i++)
		if (buffer->map->pgoff + buffer->page + i >= MAX_PAGES ||
		    page_of(buffer, i)->owned || page_of(buffer, i)->nflight)
			return false;
	file = &os_files[buffer->map->file];
	for (i = 0; i < buffer->n; i++) {
		page_of(buffer, i)->owned = true;
		file->foreign[buffer->map->pgoff + buffer->page + i] = true;
	}
	return true;
}

/* Of the program's own; or in a mapping, where no signal can come. */
static u32 take_buffer(struct buffer *buffer, u32 n)
{
	buffer->map = NULL;
	buffer->at = buffer->own;
	buffer->n = n;
	memset(buffer->own, 0, sizeof(buffer->own));
	/* A fault there would be EFAULT, or a signal: not where a file may fail. */
	if (!sim_chance(40) || machine.read_error_percent || machine.write_error_percent ||
	    machine.refuse_percent || w.s.resizes || w.s.breaks_rules || machine.room < 1000)
		return n;
	buffer->map = map_hold(&buffer->page, &buffer->n, true);
	if (!buffer->map)
		return buffer->n = n;
	if (buffer->map->pgoff + buffer->page + buffer->n >
		    file_pages(&os_files[buffer->map->file]) ||
	    !own(buffer)) {
		map_release(buffer->map, buffer->page, buffer->n);
		buffer->map = NULL;
		return n;
	}
	buffer->at = buffer->map->addr + ((size_t)buffer->page << HM_PAGE_SHIFT);
	return buffer->n;
}

static void give_buffer(struct buffer *buffer)
{
	u32 i;

	if (!buffer->map)
		return;
	for (i = 0; i < buffer->n; i++)
		page_of(buffer, i)->owned = false;
	map_release(buffer->map, buffer->page, buffer->n);
}

static char *page_at(struct buffer *buffer, u32 i)
{
	return buffer->at + ((size_t)i << HM_PAGE_SHIFT);
}

static void put(struct buffer *buffer, u32 i, u64 value)
{
	char *at = page_at(buffer, i);

	if (!buffer->map) {
		memcpy(at, &value, sizeof(value));
		return;
	}
	sim_check(memory_touch(at, true) == TOUCHED, "a buffer cannot be written");
	memory_set_value(at, value);
	model_stored(buffer->map->file, buffer->map->pgoff + buffer->page + i, value);
}

static u64 look(struct buffer *buffer, u32 i)
{
	char *at = page_at(buffer, i);
	u64 value;

	if (buffer->map) {
		sim_check(memory_touch(at, false) == TOUCHED, "a buffer cannot be read");
		return memory_value(at);
	}
	memcpy(&value, at, sizeof(value));
	return value;
}

static void do_pwrite(u32 file, u64 first, u32 n)
{
	struct change change[MOST];
	struct begun begun = call_begun();
	struct buffer buffer;
	u64 value[MOST];
	int how = sim_chance(80) ? 0 : 1 + (int)sim_below(2);
	ssize_t got;
	u32 i, done;

	n = take_buffer(&buffer, n);
	if (first + n > MAX_PAGES)
		n = (u32)(MAX_PAGES - first);
	for (i = 0; i < n; i++)
		put(&buffer, i, model_new_value(file, first + i));
	for (i = 0; i < n; i++)
		value[i] = look(&buffer, i);
	/* Nobody comes between this and what follows. */
	if (model_is_owned(file, first, first + n)) {
		give_buffer(&buffer);
		return;
	}
	for (i = 0; i < n; i++)
		model_begin(file, first + i, value[i], &change[i]);
	sim_note("pwrite of pages %llu+%u of file %u%s", (unsigned long long)first, n, file,
		 buffer.map ? " from a mapping" : "");
	got = hugemap_pwrite(w.fd[file][how], buffer.at, (size_t)n << HM_PAGE_SHIFT,
			     (off_t)(first << HM_PAGE_SHIFT));
	sim_note("pwrite of pages %llu+%u of file %u: %zd", (unsigned long long)first, n, file,
		 got);
	if (how == 1)
		sim_check(got < 0, "a write by a descriptor that is for reading");
	done = got > 0 ? (u32)((size_t)got >> HM_PAGE_SHIFT) : 0;
	for (i = 0; i < n; i++)
		model_end(file, first + i, &change[i],
			  i < done ? CHANGE_DONE :
			  how == 1 ? CHANGE_NOT :
				     CHANGE_PERHAPS);
	if (got < 0)
		model_lost(file);
	check_busy((int)got, begun, "pwrite()");
	give_buffer(&buffer);
}

static void do_pread(u32 file, u64 first, u32 n)
{
	struct begun begun = call_begun();
	u64 before[MOST], changes[MOST], settled[MOST], failures = model_files[file].failures;
	struct change change[MOST];
	struct buffer buffer;
	ssize_t got;
	u32 i, done;

	n = take_buffer(&buffer, n);
	if (first + n > MAX_PAGES)
		n = (u32)(MAX_PAGES - first);
	for (i = 0; i < n; i++) {
		before[i] = model_least(file, first + i);
		changes[i] = model_files[file].page[first + i].changes;
		settled[i] = model_files[file].page[first + i].settled;
		if (buffer.map) {
			/* It may become anything that the file has. */
			model_begin(buffer.map->file, buffer.map->pgoff + buffer.page + i, 0,
				    &change[i]);
			page_of(&buffer, i)->any = true;
		}
	}
	got = hugemap_pread(w.fd[file][sim_below(2)], buffer.at, (size_t)n << HM_PAGE_SHIFT,
			    (off_t)(first << HM_PAGE_SHIFT));
	done = got > 0 ? (u32)(((size_t)got + HM_PAGE_SIZE - 1) >> HM_PAGE_SHIFT) : 0;
	for (i = 0; i < n; i++) {
		u64 value = look(&buffer, i);

		if (buffer.map) {
			model_end(buffer.map->file, buffer.map->pgoff + buffer.page + i, &change[i],
				  CHANGE_PERHAPS);
			model_stored(buffer.map->file, buffer.map->pgoff + buffer.page + i, value);
			/* An older version than what was there, perhaps: that is forgotten. */
			page_of(&buffer, i)->zeroed = page_of(&buffer, i)->changes;
		}
		if (i >= done)
			continue;
		if (model_files[file].page[first + i].changes == changes[i] &&
		    model_files[file].page[first + i].settled == settled[i] &&
		    !(buffer.map && buffer.map->file == file))
			model_loaded(file, first + i, value);
		else if (model_files[file].page[first + i].zeroed <= changes[i] && value != 0)
			sim_check(os_files[file].broken || value >> 16 >= before[i] ||
					  os_files[file].foreign[first + i],
				  "page %llu of file %u: %llx is read, which is too old",
				  (unsigned long long)(first + i), file, (unsigned long long)value);
	}
	if (got < 0 && model_files[file].failures != failures)
		model_lost(file); /* it was the last one to have the file */
	check_busy((int)got, begun, "pread()");
	give_buffer(&buffer);
}

void call_some(void)
{
	u32 file = sim_below(w.s.nfiles), n = 1 + sim_below(sim_chance(50) ? 3 : MOST);
	u64 first = sim_below(w.s.npages);

	counts[C_CALLS]++;
	if (sim_chance(50))
		do_pwrite(file, first, n);
	else
		do_pread(file, first, n);
}

/* --- devices ----------------------------------------------------------------------------- */

/*
 * Pages are pinned, and stored to, without a fault, if they happen to be there: somebody else
 * touches them. So that may be as soon as a block is moved to where it is mapped, before it
 * is protected.
 */
void wait_for_page(const char *at)
{
	u32 looks = 1000;

	while (looks-- && !(memory_page(at)->state & PAGE_PRESENT))
		sim_yield();
}

/* A device stores into pages that are pinned, at moments of its own. */
void dma_some(void)
{
	u32 page, n = 1 + sim_below(16), pinned = 0, i;
	struct mapped *map = map_hold(&page, &n, true);
	struct change change[16];
	u64 value[16];
	u32 id[16];

	if (!map)
		return;
	for (i = 0; i < n && map->pgoff + page + i < MAX_PAGES; i++) {
		u64 at = map->pgoff + page + i;

		char *to = map->addr + ((size_t)(page + i) << HM_PAGE_SHIFT);

		if (!i && sim_chance(30))
			wait_for_page(to);
		if (memory_pin(to, true, &id[i]) != TOUCHED)
			break;
		memory_others_pin(to);
		if (model_files[map->file].page[at].owned) {
			memory_others_unpin(to, id[i]);
			break;
		}
		value[i] = model_new_value(map->file, at);
		model_begin(map->file, at, value[i], &change[i]);
		pinned++;
	}
	sim_note("a device stores to pages %llu+%u of file %u",
		 (unsigned long long)(map->pgoff + page), pinned, map->file);
	for (i = 0; i < pinned; i++) {
		char *at = map->addr + ((size_t)(page + i) << HM_PAGE_SHIFT);
		struct page *p = memory_page(at);

		device_pause();
		if (sim_chance(30))
			device_pause();
		if (p->id == id[i] &&
		    (p->kind == PAGE_ANON || p->pgoff < file_pages(&os_files[map->file])))
			memory_set_value(at, value[i]);
	}
	device_pause();
	for (i = 0; i < pinned; i++) {
		char *at = map->addr + ((size_t)(page + i) << HM_PAGE_SHIFT);

		model_end(map->file, map->pgoff + page + i, &change[i],
			  memory_page(at)->id == id[i] ? CHANGE_DONE : CHANGE_PERHAPS);
		memory_others_unpin(at, id[i]);
	}
	sim_note("a device has stored to pages %llu+%u of file %u",
		 (unsigned long long)(map->pgoff + page), pinned, map->file);
	counts[C_DMAS] += pinned != 0;
	if (pinned && sim_chance(30))
		flush_map(map, page, pinned);
	map_release(map, page, n);
}
