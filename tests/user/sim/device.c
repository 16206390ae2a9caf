// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The device and the file system on it: a volatile cache over what survives a power cut,
 * a file that has holes and ends somewhere, and room that may run out.
 */
#include "os.h"

#include <errno.h>

struct os_file os_files[MAX_FILES];
bool device_was_full;

static void remember(struct disk_page *p, u64 value)
{
	if (p->npending < PENDING)
		p->pending[p->npending++] = value;
	else
		p->pending[sim_below(PENDING)] = value;
	p->value = value;
	p->writes++;
}

int device_reserve(struct os_file *file, u64 page)
{
	struct disk_page *p = &file->page[page];

	if (!p->hole || p->reserved)
		return 0;
	if (!machine.room) {
		device_was_full = true;
		return -ENOSPC;
	}
	machine.room--;
	p->reserved = true;
	return 0;
}

int device_write(struct os_file *file, u64 page, u64 value)
{
	struct disk_page *p = &file->page[page];

	sim_check(page < MAX_PAGES, "page %llu is written, far beyond the end of the file",
		  (unsigned long long)page);
	if (device_reserve(file, page))
		return -ENOSPC;
	p->hole = p->reserved = false;
	remember(p, value);
	return 0;
}

void device_zero(struct os_file *file, u64 page)
{
	struct disk_page *p = &file->page[page];

	if (!p->hole || p->reserved)
		machine.room++;
	remember(p, 0);
	p->hole = true;
	p->reserved = false;
}

/* Of what was not flushed, any part survives, in any order. */
void device_lose_power(struct os_file *file)
{
	u32 i;

	for (i = 0; i < MAX_PAGES; i++) {
		struct disk_page *p = &file->page[i];
		u32 n = sim_below(p->npending + 2);

		if (n < p->npending)
			p->safe = p->pending[n];
		else if (n == p->npending + 1)
			p->safe = p->value;
		if (i >= file_pages(file)) {
			p->safe = 0; /* freed: if the file grows again, there are zeros */
			p->hole = true;
		}
		p->value = p->safe;
		p->npending = 0;
		p->writes = p->safe_writes = 0;
		p->hole = p->hole && !p->value;
		p->reserved = false;
	}
}

/* The length is metadata, which a journal keeps in order. */
void file_resize(struct os_file *file, u64 size)
{
	u64 i;

	sim_check(size <= (u64)MAX_PAGES << HM_PAGE_SHIFT, "a file of %llu bytes",
		  (unsigned long long)size);
	for (i = (size + HM_PAGE_SIZE - 1) >> HM_PAGE_SHIFT; i < file_pages(file); i++)
		device_zero(file, i);
	file->size = size;
}

void device_pause(void)
{
	u32 pause = sim_below(machine.io_steps + 1);

	while (pause--)
		sim_yield();
}

/* Up to 20 s, that pass quickly where nobody does anything else. */
void device_hang(void)
{
	u32 left = machine.hangs && !sim_below(100) ? 1 + sim_below(4000) : 0;

	while (left--) {
		clock_passes(5);
		sim_yield();
	}
}
