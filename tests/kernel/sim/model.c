// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The model of the file contents, which checks that:
 * - each load and each read returns the last stored value, or one of those in flight;
 * - synced data is on the disk, and survives a power cut;
 * - appended data never reads as zeros;
 * - the engine writes nothing beyond the end of a file.
 *
 * No function here makes a step, so an access and its record in the model are atomic.
 */
#include "world.h"

struct world w;

struct sim_file *model_file_of(const struct vm_area_struct *vma)
{
	u32 i;

	for (i = 0; i < w.s.nfiles; i++)
		if (vma->vm_file->f_mapping == w.file[i].hi->vfs_inode.i_mapping)
			return &w.file[i];
	sim_fail(__FILE__, __LINE__, "a mapping has no file");
}

static u64 size_words(loff_t size)
{
	return (u64)size / sizeof(u64);
}

/* --- candidates --------------------------------------------------------------------- */

static void retire(struct model_word *m)
{
	u32 i;

	for (i = 0; i < m->n; i++) {
		struct model_value *old = &m->old[m->nold++ % OLD];

		/* A call that began earlier may have read the forgotten value. */
		m->forgot = max(m->forgot, old->until);
		*old = m->now[i];
		old->until = sched_steps();
	}
	m->n = 0;
	/* The candidates that did not fit are lost, so any earlier value is accepted. */
	if (m->any) {
		m->nold += OLD;
		m->forgot = sched_steps();
	}
	m->any = false;
}

static void add(struct model_word *m, u64 value)
{
	u32 i;

	m->orders++;
	m->was_zero |= !value;
	for (i = 0; i < m->n; i++)
		if (m->now[i].value == value)
			return;
	if (m->n == CANDIDATES) {
		m->any = true;
		m->lost = m->orders;
		return;
	}
	m->now[m->n++] = (struct model_value){ .value = value, .order = m->orders };
}

static void set(struct model_word *m, u64 value)
{
	retire(m);
	add(m, value);
}

/* The word has no value any more, and no value of it must survive a power cut. */
static void clear(struct model_word *m)
{
	retire(m);
	m->changes++;
	m->resets++;
	m->durable = 0;
	m->was_zero = false;
}

/* Find the newest record of @value that was current at step @since or later. */
static const struct model_value *find(const struct model_word *m, u64 value, u64 since)
{
	const struct model_value *found = NULL;
	u32 i;

	for (i = 0; i < m->n; i++)
		if (m->now[i].value == value)
			return &m->now[i];
	for (i = 0; i < min(m->nold, OLD); i++) {
		const struct model_value *v = &m->old[i];

		/* Candidates that did not fit were only counted and have order 0. */
		if (v->order && v->value == value && v->until >= since &&
		    (!found || v->order > found->order))
			found = v;
	}
	return found;
}

/* --- loads and stores -------------------------------------------------------------------- */

/* @since: the step at which the reading call began. */
void model_load(struct sim_file *file, u64 word, u64 value, u64 since)
{
	const struct model_word *m = &file->word[word];

	u32 i;

	if (m->any || since <= m->forgot || find(m, value, since))
		return;
	sim_note("the disk has %llu", (unsigned long long)file->disk->word[word].value);
	for (i = 0; i < m->n; i++)
		sim_note("candidate %llu, order %u of %u", (unsigned long long)m->now[i].value,
			 m->now[i].order, m->orders);
	for (i = 0; i < min(m->nold, OLD); i++)
		sim_note("earlier %llu, order %u, until step %llu",
			 (unsigned long long)m->old[i].value, m->old[i].order,
			 (unsigned long long)m->old[i].until);
	sim_fail(__FILE__, __LINE__, "word %llu (page %llu) of file %u holds %llu, not %llu",
		 (unsigned long long)word, (unsigned long long)(word / WORDS), file->index,
		 (unsigned long long)value,
		 (unsigned long long)(m->n ? m->now[m->n - 1].value : 0));
}

/*
 * A call that extends the file zeroes the rest of the last page until the call ends, so words
 * beyond this size are uncertain.
 */
loff_t model_certain_size(const struct sim_file *file)
{
	return file->resizes & 1 ? min(file->min, file->resize_min) : file->min;
}

void model_store(struct sim_file *file, u64 word, u64 value)
{
	struct model_word *m = &file->word[word];

	m->changes++;
	sim_note("store %llu in word %llu of file %u", (unsigned long long)value,
		 (unsigned long long)word, file->index);
	if (word >= size_words(file->max))
		return; /* a concurrent truncation has just removed it */
	if (m->busy || word >= size_words(model_certain_size(file)))
		add(m, value);
	else
		set(m, value);
}

loff_t model_size_of(const struct vm_area_struct *vma)
{
	return model_certain_size(model_file_of(vma));
}

/*
 * A private mapping has copied a page. The copy must hold words that the file, then @size bytes
 * long, held since step @since. An extending write may have added words after they were copied,
 * so words beyond @size are not checked.
 */
void model_copied(const struct vm_area_struct *vma, u64 page, const u64 *value, u64 since,
		  loff_t size)
{
	struct sim_file *file = model_file_of(vma);
	u64 i, first = page * WORDS;

	w.counts[C_COPIES]++;
	for (i = 0; i < WORDS; i++)
		if (!(file->resizes & 1) && first + i < size_words(min(size, file->min)))
			model_load(file, first + i, value[i], since);
}

void model_stored(struct mm_struct *mm, unsigned long address, u64 value)
{
	const struct vm_area_struct *vma = &mm->vma[(address >> PAGE_SHIFT) / VMA_PAGES];
	u64 at = (vma->vm_pgoff << PAGE_SHIFT) + (address - vma->vm_start);

	model_store(model_file_of(vma), at / sizeof(u64), value);
}

/* --- transfers ------------------------------------------------------------------------------ */

void model_begin(struct transfer *t, struct sim_file *file, loff_t pos, size_t bytes)
{
	u64 first = size_words(pos), end = size_words(pos + (loff_t)bytes), i;
	u64 old_end = size_words(file->max);

	sim_check(!t->begun, "a transfer begins twice");
	sim_note("transfer of %zu bytes to %lld of file %u begins", bytes, (long long)pos,
		 file->index);
	sim_check(end - first <= MAX_TRANSFER, "a transfer is too long");
	t->file = file;
	t->begun = true;
	t->pos = pos;
	t->bytes = bytes;
	t->old_size = file->max;
	t->resizes = file->resizes;
	for (i = old_end; i < first; i++)
		set(&file->word[i], 0);
	if (pos + (loff_t)bytes > file->max)
		file->max = pos + (loff_t)bytes;
	for (i = first; i < end; i++) {
		struct model_word *m = &file->word[i];

		m->busy++;
		m->changes++;
		t->changes[i - first] = m->changes;
		t->shared[i - first] = m->busy > 1;
		if (t->known)
			add(m, t->value[i - first + t->known_at / sizeof(u64)]);
	}
}

void model_transfers(struct transfer *t, size_t at, u64 value)
{
	u64 i = at / sizeof(u64);

	if (!t->begun)
		return;
	sim_check(at < t->bytes, "a transfer exceeds the requested length");
	t->value[i + t->known_at / sizeof(u64)] = value;
	if (size_words(t->pos) + i >= size_words(t->file->max))
		return; /* a concurrent truncation has just removed it */
	add(&t->file->word[size_words(t->pos) + i], value);
}

/* An extending write has ended at @end: words up to there belong to the file, others do not. */
static void grown(struct sim_file *file, const struct transfer *t, loff_t end)
{
	u64 i;

	file->min = max(file->min, min(end, file->max));
	if (file->max != t->pos + (loff_t)t->bytes || file->max <= t->old_size)
		return;
	file->loose |= current->killed;
	file->max = max(t->old_size, end);
	for (i = size_words(file->max); i < MAX_FILE_WORDS; i++)
		clear(&file->word[i]);
}

void model_end(struct transfer *t, size_t done)
{
	u64 first = size_words(t->pos), n = t->bytes / sizeof(u64), i;
	struct sim_file *file = t->file;

	if (!t->begun)
		return;
	sim_note("transfer to %lld of file %u ends after %zu bytes", (long long)t->pos, file->index,
		 done);
	for (i = 0; i < n; i++) {
		struct model_word *m = &file->word[first + i];

		m->busy--;
		m->changes++;
		if (i < done / sizeof(u64) && !t->shared[i] && m->changes == t->changes[i] + 1)
			set(m, t->value[i + t->known_at / sizeof(u64)]);
	}
	t->begun = false;
	if (file->resizes == t->resizes)
		grown(file, t, done ? t->pos + (loff_t)done : 0);
}

/* @old: the previous length, including the data that was written beyond the end. */
void model_resize(struct sim_file *file, loff_t old, loff_t size)
{
	u64 i;

	sim_note("file %u has %lld bytes", file->index, (long long)size);
	for (i = size_words(min(old, size)); i < MAX_FILE_WORDS; i++)
		clear(&file->word[i]);
	for (i = size_words(old); i < size_words(size); i++)
		set(&file->word[i], 0);
	if (size < file->durable_size)
		file->durable_size = 0;
	file->loose = false;
	file->min = file->max = size;
}

void model_resizes(struct sim_file *file, loff_t size)
{
	file->resize_min = min(i_size_read(&file->hi->vfs_inode), size);
	file->resizes++;
	current->resizes = file;
}

/* Either the old values or the zeros may survive a power cut. */
void model_zeroes(struct sim_file *file, loff_t start, loff_t end)
{
	static struct transfer transfer;
	static struct kiocb done;
	u64 i;

	/* The caller holds the inode lock, so the size cannot change. */
	end = min(end, file->hi->vfs_inode.i_size);
	if (end <= start)
		return;
	memset(&transfer, 0, sizeof(transfer));
	transfer.known = true;
	transfer.iocb = &done;
	done.ki_pos = end;
	model_begin(&transfer, file, start, (size_t)(end - start));
	current->transfer = &transfer;
	for (i = size_words(start); i < size_words(end); i++) {
		file->word[i].resets++;
		file->word[i].durable = 0;
	}
}

/* --- sync ------------------------------------------------------------------------------------- */

static struct snapshot {
	u32 order[MAX_FILE_WORDS], changes[MAX_FILE_WORDS], resets[MAX_FILE_WORDS];
	loff_t size;
	u32 resizes;
} snapshots[SIM_COROUTINES][MAX_FILES];

void model_written(struct disk_file *disk, loff_t pos)
{
	u32 i;

	for (i = 0; i < w.s.nfiles; i++)
		if (w.file[i].disk == disk && !w.play)
			sim_check(pos < w.file[i].max,
				  "byte %llu of file %u is written beyond its end (%llu)",
				  (unsigned long long)pos, i, (unsigned long long)w.file[i].max);
}

void model_sync_begins(struct sim_file *file, u64 first, u64 end)
{
	struct snapshot *s = &snapshots[sched_self()][file->index];
	u64 i;
	u32 k;

	sim_note("sync of words %llu to %llu of file %u begins", (unsigned long long)first,
		 (unsigned long long)end, file->index);
	s->size = file->min;
	s->resizes = file->resizes;
	for (i = first; i < min(end, (u64)MAX_FILE_WORDS); i++) {
		const struct model_word *m = &file->word[i];

		s->changes[i] = m->changes;
		s->resets[i] = m->resets;
		s->order[i] = m->n && !m->any ? m->now[0].order : 0;
		for (k = 1; k < m->n; k++)
			s->order[i] = min(s->order[i], m->now[k].order);
	}
}

void model_synced(struct sim_file *file, u64 first, u64 end)
{
	const struct snapshot *s = &snapshots[sched_self()][file->index];
	bool all = !first && end >= MAX_FILE_WORDS;
	u64 i;

	sim_note("synced words %llu to %llu of file %u", (unsigned long long)first,
		 (unsigned long long)end, file->index);
	end = min(end, size_words(min(s->size, file->min)));
	/* A resize is running, and the lower file may already be shorter. */
	if (file->resizes & 1)
		end = min(end, size_words(file->disk->size));
	for (i = first; i < end; i++) {
		struct model_word *m = &file->word[i];
		u64 value = file->disk->word[i].safe;

		if (m->resets != s->resets[i])
			continue;
		m->durable = max(m->durable, s->order[i]);
		/* The word did not change during the sync, so the disk must have its value. */
		if (m->busy || m->changes != s->changes[i] || m->any || find(m, value, U64_MAX))
			continue;
		sim_fail(
			__FILE__, __LINE__,
			"word %llu (page %llu) of file %u was synced, but the disk has %llu, not %llu",
			(unsigned long long)i, (unsigned long long)(i / WORDS), file->index,
			(unsigned long long)value, (unsigned long long)m->now[0].value);
	}
	if (all && file->resizes == s->resizes && !(s->resizes & 1))
		file->durable_size = max(file->durable_size, s->size);
}

/* After a power cut each word must have its synced value or a newer one. */
void model_after_power_cut(struct sim_file *file)
{
	loff_t size = file->disk->size;
	u64 i;

	sim_check(size >= file->durable_size, "file %u: %llu bytes were synced, but %llu survived",
		  file->index, (unsigned long long)file->durable_size, (unsigned long long)size);
	for (i = 0; i < min(size_words(size), size_words(file->max)); i++) {
		const struct model_word *m = &file->word[i];
		u64 value = file->disk->word[i].value;
		const struct model_value *v = find(m, value, 0);

		sim_check(value || m->was_zero || !m->orders || m->any,
			  "word %llu of file %u is zero after the power cut, but never was before",
			  (unsigned long long)i, file->index);
		sim_check(value <= w.version, "the disk has a value that was never stored");
		/* A candidate that @now had no room for may have had the same value. */
		if (v)
			sim_check(v->order >= m->durable || m->any || m->lost >= m->durable,
				  "word %llu of file %u: version %llu is older than the synced one",
				  (unsigned long long)i, file->index, (unsigned long long)value);
		else
			sim_check(m->durable <= 1 || m->nold > OLD || m->any || m->resets,
				  "word %llu of file %u: %llu survived, which was not synced",
				  (unsigned long long)i, file->index, (unsigned long long)value);
	}
}

/* May write-back fail with @err? A full disk must fail the store, not its write-back. */
bool model_may_be_told(int err)
{
	if (err == -ENOSPC)
		return w.s.fills && lower_may_free_pinned();
	/* Exception: a truncation has given up the wait for a device that holds a huge unit. */
	return err == -EIO && (w.failures || w.pins);
}

/* After complete write-back the disk must have all stored values. */
void model_unmounted(struct sim_file *file)
{
	u64 i;

	sim_check(file->disk->size == file->max, "file %u has %llu bytes, not %llu", file->index,
		  (unsigned long long)file->disk->size, (unsigned long long)file->max);
	for (i = 0; i < size_words(file->max); i++)
		model_load(file, i, file->disk->word[i].value, U64_MAX);
}

/* Restart the model from the contents of the disk. */
void model_restart(struct sim_file *file)
{
	u64 i;

	lower_flush(file->disk);
	memset(file->word, 0, sizeof(file->word));
	for (i = 0; i < size_words(file->disk->size); i++)
		set(&file->word[i], file->disk->word[i].value);
	file->min = file->max = file->disk->size;
	file->durable_size = 0;
	file->resizes = 0;
	file->loose = false;
}
