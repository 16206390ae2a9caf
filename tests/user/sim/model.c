// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "model.h"

#include <errno.h>

struct model_file model_files[MAX_FILES];
static u64 last_version;

/* A version, and the page that it was made for. */
u64 model_new_value(u32 file, u64 page)
{
	return ++last_version << 16 | file << 12 | (page + 1);
}

static u64 version_of(u64 value)
{
	return value >> 16;
}

static struct model_page *page_of(u32 file, u64 page)
{
	sim_check(page < MAX_PAGES, "page %llu", (unsigned long long)page);
	return &model_files[file].page[page];
}

static bool has(const struct model_page *m, u64 value)
{
	u32 i;

	for (i = 0; i < m->n; i++)
		if (m->value[i] == value)
			return true;
	return false;
}

static u64 newest(const struct model_page *m)
{
	u64 newest = 0;
	u32 i;

	for (i = 0; i < m->n; i++)
		if (version_of(m->value[i]) > newest)
			newest = version_of(m->value[i]);
	return newest;
}

static void add(struct model_page *m, u64 value)
{
	if (has(m, value))
		return;
	if (m->n == CANDIDATES)
		m->any = true;
	else
		m->value[m->n++] = value;
}

/* It is this one now, but for what may still come. */
static void settle(struct model_page *m, u64 value)
{
	u32 i;

	m->n = 0;
	m->any = m->any && m->nflight;
	add(m, value);
	for (i = 0; i < m->nflight; i++)
		add(m, m->flight[i]);
}

void model_loaded(u32 file, u64 page, u64 value)
{
	struct model_page *m = page_of(file, page);

	if (os_files[file].broken)
		return;
	if (m->any) {
		if (!m->nflight)
			settle(m, value);
		return;
	}
	if (!has(m, value)) {
		char known[200] = "";
		size_t n = 0;
		u32 i;

		for (i = 0; i < m->n; i++)
			n += (size_t)snprintf(known + n, sizeof(known) - n, " %llx",
					      (unsigned long long)m->value[i]);
		sim_fail(__FILE__, __LINE__, "page %llu of file %u holds %llx, not%s",
			 (unsigned long long)page, file, (unsigned long long)value, known);
	}
	m->settled += m->n > 1;
	settle(m, value);
}

void model_stored(u32 file, u64 page, u64 value)
{
	struct model_page *m = page_of(file, page);

	m->changes++;
	settle(m, value);
}

void model_begin(u32 file, u64 page, u64 value, struct change *change)
{
	struct model_page *m = page_of(file, page);

	*change = (struct change){ .value = value, .was_there = has(m, value) };
	m->changes++;
	change->changes = m->changes;
	/* Older than what is there: no promise of that holds any more. */
	if (!value || version_of(value) < newest(m)) {
		m->zeroed = m->changes;
		m->floor = 0;
	}
	add(m, value);
	if (m->nflight < CANDIDATES)
		m->flight[m->nflight++] = value;
	else
		m->any = true;
}

void model_end(u32 file, u64 page, const struct change *change, enum ended ended)
{
	struct model_page *m = page_of(file, page);
	bool alone = m->changes == change->changes;
	u32 i;

	for (i = 0; i < m->nflight; i++) {
		if (m->flight[i] == change->value) {
			m->flight[i] = m->flight[--m->nflight];
			break;
		}
	}
	m->changes++;
	switch (ended) {
	case CHANGE_DONE:
		if (alone && !m->any)
			settle(m, change->value);
		break;
	case CHANGE_NOT:
		if (!alone || m->any || change->was_there || os_files[file].broken)
			break;
		for (i = 0; i < m->n && m->value[i] != change->value; i++)
			;
		if (i < m->n)
			m->value[i] = m->value[--m->n];
		sim_check(m->n, "page %llu of file %u was changed by a call that failed",
			  (unsigned long long)page, file);
		break;
	case CHANGE_PERHAPS:
		break;
	}
}

void model_forget(u32 file)
{
	u32 i;

	os_files[file].broken = true;
	memset(os_files[file].foreign, true, sizeof(os_files[file].foreign));
	for (i = 0; i < MAX_PAGES; i++) {
		page_of(file, i)->any = true;
		page_of(file, i)->floor = 0;
	}
}

bool model_is_owned(u32 file, u64 from, u64 to)
{
	for (; from < to; from++)
		if (page_of(file, from)->owned)
			return true;
	return false;
}

/* A last mapping could not be written, and said so: what was not written is lost. */
void model_lost(u32 file)
{
	u32 i;

	for (i = 0; i < MAX_PAGES; i++)
		add(page_of(file, i), os_files[file].page[i].value);
}

/* --- what lasts ------------------------------------------------------------------------ */

u64 model_least(u32 file, u64 page)
{
	const struct model_page *m = page_of(file, page);
	u64 least = ~0ull;
	u32 i;

	if (m->any || os_files[file].broken)
		return 0;
	for (i = 0; i < m->n; i++)
		if (version_of(m->value[i]) < least)
			least = version_of(m->value[i]);
	return least;
}

/* What was there when a sync began is promised now, unless it was taken away since. */
void model_synced(u32 file, u64 page, u64 least, u64 changes)
{
	struct model_page *m = page_of(file, page);

	if (!m->any && !os_files[file].broken && m->zeroed <= changes && least > m->floor)
		m->floor = least;
}

/* The file has it, for everybody to read. */
void model_check_file(u32 file, u64 page, u64 least, u64 changes)
{
	struct model_page *m = page_of(file, page);
	u64 value = os_files[file].page[page].value;

	if (m->any || os_files[file].broken || m->zeroed > changes ||
	    page >= file_pages(&os_files[file]))
		return;
	sim_check(version_of(value) >= least,
		  "page %llu of file %u: version %llx was written back, the file has %llx",
		  (unsigned long long)page, file, (unsigned long long)least,
		  (unsigned long long)value);
}

void model_after_power_cut(void)
{
	u32 f, i;

	for (f = 0; f < MAX_FILES; f++) {
		for (i = 0; i < file_pages(&os_files[f]); i++) {
			const struct model_page *m = page_of(f, i);
			u64 value = os_files[f].page[i].value;

			sim_check(version_of(value) <= last_version,
				  "page %u of file %u: made-up data %llx survived", i, f,
				  (unsigned long long)value);
			sim_check(!value || os_files[f].foreign[i] ||
					  (value & 0xffff) == (f << 12 | (i + 1)),
				  "page %u of file %u has another page's data: %llx", i, f,
				  (unsigned long long)value);
			sim_check(version_of(value) >= m->floor,
				  "page %u of file %u: version %llx was synced, %llx survived", i,
				  f, (unsigned long long)m->floor, (unsigned long long)value);
		}
	}
}

void model_start(bool fresh)
{
	u32 f, i;

	if (fresh)
		last_version = 0;
	memset(model_files, 0, sizeof(model_files));
	for (f = 0; f < MAX_FILES; f++) {
		for (i = 0; i < MAX_PAGES; i++) {
			struct model_page *m = page_of(f, i);

			m->value[0] = os_files[f].page[i].value;
			m->n = 1;
			m->floor = version_of(m->value[0]);
		}
	}
}

/* --- errors ------------------------------------------------------------------------------ */

void model_wrote(struct os_file *file, u64 pgoff, u64 npages, int err)
{
	struct model_file *m = &model_files[file - os_files];
	u64 block = pgoff / HM_BLOCK_PAGES;

	if (!err) {
		/* Not all of it, perhaps: then it may fail once more, and be told once less. */
		if (npages == HM_BLOCK_PAGES)
			m->failing[block] = false;
		return;
	}
	/* After a flush that failed what was only read is written, too, which may need room. */
	sim_check(
		err != -ENOSPC || machine.no_reserve || stores_slipped() || m->flush_failed,
		"a full file system is told when block %llu of file %u is written, not at the store",
		(unsigned long long)block, (u32)(file - os_files));
	m->failures++;
	m->failed_step = sched_steps();
	sim_note("block %llu of file %u: %d", (unsigned long long)block, (u32)(file - os_files),
		 err);
	if (!m->failed_before[block])
		m->failed_at[block] = m->failures;
	m->failing[block] = true;
	m->failed_before[block] = true;
}

void model_flush_failed(struct os_file *file)
{
	struct model_file *m = &model_files[file - os_files];

	m->failures++;
	m->failed_step = sched_steps();
	m->flush_failed = true;
}
