// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Programs: each chooses its actions at random with the weights of the scenario. */
#include "world.h"

#define CALL_WORDS (HM_BLOCK_PAGES * WORDS)

struct program {
	u32 nr;
	struct task_struct *task;
	struct mm_struct *mm;
	u64 at[MAX_VMAS]; /* word of each mapping at which sequential access continues */
	u64 buffer[CALL_WORDS * 2];
	struct transfer transfer;
};

static struct program programs[MAX_PROGRAMS];

struct sim_file *any_file(void)
{
	return &w.file[sim_lower(w.s.nfiles)];
}

struct task_struct *any_program(void)
{
	return programs[sim_lower(w.s.programs)].task;
}

static u64 pages_of(loff_t size)
{
	return ((u64)size + PAGE_SIZE - 1) >> PAGE_SHIFT;
}

/* Lower blocks that kernel/data/reserve.c keeps free: 64, and one for each 128 dirty pages. */
#define SPARE_BLOCKS (64u + MAX_FILES * MAX_FILE_PAGES / 128u + 1u)

/* Was there less free space than a block and the reserve for its extents? */
static bool was_full(void)
{
	return lower_min_room() <
	       HM_BLOCK_SIZE / w.s.lower_block + (w.s.extents ? SPARE_BLOCKS : 0);
}

bool excused(int err)
{
	if (err == -EINTR)
		return current->killed;
	if (err == -ENOMEM)
		return w.s.alloc_error_percent || w.pins || w.failures;
	if (err == -EFBIG)
		return true; /* beyond RLIMIT_FSIZE or the largest file of the model */
	if (err == -ENOSPC)
		return was_full();
	return err == -EIO && w.failures;
}

/* --- loads and stores ------------------------------------------------------------ */

struct place {
	struct vm_area_struct *vma;
	struct sim_file *file;
	unsigned long address;
	u64 word;
	bool shared;
};

static bool pick_place(struct program *p, struct place *place)
{
	u32 slot = sim_lower(MAX_VMAS);
	struct vm_area_struct *vma = &p->mm->vma[slot];
	u64 words, at;

	if (!vma->used)
		return false;
	words = vma_pages(vma) * WORDS;
	if (sim_chance(w.s.sequential_percent))
		at = p->at[slot] += 1 + sim_lower(WORDS);
	else
		at = sim_lower((u32)(sim_chance(w.s.hot_percent) ? min(words, 4 * WORDS) : words));
	at %= words;
	p->at[slot] = at;
	*place = (struct place){
		.vma = vma,
		.file = model_file_of(vma),
		.address = vma->vm_start + at * sizeof(u64),
		.word = (vma->vm_pgoff << PAGE_SHIFT) / sizeof(u64) + at,
		.shared = vma->vm_flags & VM_SHARED,
	};
	return true;
}

/* Does the place still map the same word? Another thread may have replaced the mapping. */
static bool same_place(const struct program *p, const struct place *place)
{
	const struct vm_area_struct *vma = place->vma;

	return vma->used && !(vma->vm_flags & VM_SHARED) == !place->shared &&
	       model_file_of(vma) == place->file && place->address >= vma->vm_start &&
	       place->address < vma->vm_end &&
	       (vma->vm_pgoff << PAGE_SHIFT) + (place->address - vma->vm_start) ==
		       place->word * sizeof(u64) &&
	       vma->vm_mm == p->mm;
}

/* Fault until the word can be accessed, and return it. NULL: the fault failed. */
static u64 *reach(struct program *p, const struct place *place, bool write, int *err)
{
	u32 tries;

	*err = 0;
	for (tries = 0;; tries++) {
		u64 *word = mm_word(p->mm, place->address, write);

		if (word)
			return word;
		*err = mm_fault(p->mm, place->address,
				FAULT_FLAG_USER | (write ? FAULT_FLAG_WRITE : 0) |
					(sim_chance(95) ? FAULT_FLAG_ALLOW_RETRY : 0));
		if (*err)
			return NULL;
		if (current->killed)
			return NULL;
		sim_check(tries < 100000, "a fault on page %llu is never served",
			  (unsigned long long)(place->word / WORDS));
	}
}

static void touch(struct program *p)
{
	bool write = sim_chance(w.s.write_percent);
	struct place place;
	u32 resizes;
	loff_t least;
	u64 *word;
	int err;

	if (!pick_place(p, &place))
		return;
	lower_watch_room();
	resizes = place.file->resizes;
	least = place.file->min;
	if (write && place.word * sizeof(u64) >= (u64)least)
		write = false;
	word = reach(p, &place, write, &err);
	if (!same_place(p, &place))
		return;
	if (word && !place.shared && mm_copy_word(p->mm, place.address)) {
		u64 *own = mm_copy_word(p->mm, place.address);

		sim_check(*word == *own, "word %llu of a private copy holds %llu, not %llu",
			  (unsigned long long)place.word, (unsigned long long)*word,
			  (unsigned long long)*own);
		if (write)
			*word = *own = ++w.version;
		sim_check(place.file->resizes != resizes || resizes & 1 || w.failures ||
				  place.word / WORDS < pages_of(place.file->max),
			  "a private copy of page %llu exists beyond the end",
			  (unsigned long long)(place.word / WORDS));
	} else if (word && write) {
		sim_check(place.shared, "a store to a private mapping reached the file");
		*word = ++w.version;
		model_store(place.file, place.word, *word);
		w.counts[C_STORES]++;
	} else if (word) {
		if (place.word * sizeof(u64) < (u64)model_certain_size(place.file))
			model_load(place.file, place.word, *word, U64_MAX);
		else if (place.file->resizes == resizes && !(resizes & 1))
			/* The size can only grow, also during a write(2). */
			sim_check(place.word / WORDS < pages_of(place.file->hi->vfs_inode.i_size) ||
					  w.failures,
				  "page %llu is mapped beyond the end",
				  (unsigned long long)(place.word / WORDS));
		w.counts[C_LOADS]++;
	} else if (err == -EIO && place.file->resizes == resizes && !(resizes & 1)) {
		sim_check(place.word / WORDS >= pages_of(least) || current->killed ||
				  excused(-EIO) || excused(-ENOMEM) ||
				  (write && place.shared && was_full()),
			  "SIGBUS at page %llu of file %u without a cause",
			  (unsigned long long)(place.word / WORDS), place.file->index);
	}
	sim_progress();
}

/* Is the block of the page being promoted? */
static bool is_promoted(const struct sim_file *file, u64 page)
{
	const struct hm_promotion *p = (const struct hm_promotion *)w.mount->promotion;

	return p && p->begun && p->unit.file == file->hi->hfile &&
	       p->unit.pgoff == page / HM_BLOCK_PAGES * HM_BLOCK_PAGES;
}

/* Has an eviction or a promotion claimed the page? */
static bool is_claimed(const struct sim_file *file, u64 page)
{
	struct hm_unit unit;

	return hm_peek(file->hi->hfile, page, &unit) == HM_EVICTING;
}

void aim(const struct sim_file *file, loff_t *pos, bool aligned)
{
	if (!sim_chance(w.s.spot_percent))
		return;
	*pos = (loff_t)(file->spot << PAGE_SHIFT);
	if (!aligned && sim_chance(50))
		*pos += sim_lower(WORDS) * sizeof(u64);
}

/* --- calls ------------------------------------------------------------ */

/* Choose a range of a mapping as the source of a write or the target of a read. */
static bool pick_range(struct program *p, struct place *place, u32 *words)
{
	u64 left;

	/* The model expects that only touch() changes private copies, so do not read into them. */
	if (w.s.privates || !pick_place(p, place))
		return false;
	left = (place->vma->vm_end - place->address) / sizeof(u64);
	*words = (u32)min((u64)*words, left);
	return true;
}

static void call_read(struct program *p, bool direct)
{
	struct sim_file *file = any_file();
	struct file *fd = file->fd[sim_lower(2)];
	u64 since = sched_steps(), i;
	u32 resizes = file->resizes, words = 1 + sim_lower(CALL_WORDS);
	struct kvec kvec = { p->buffer, words * sizeof(u64) };
	struct kiocb iocb = { .ki_filp = fd };
	loff_t least = file->min;
	struct iov_iter iter;
	struct place place;
	ssize_t n;

	if (direct)
		iocb.ki_pos = sim_lower(MAX_FILE_PAGES) * PAGE_SIZE;
	else
		iocb.ki_pos = sim_lower(MAX_FILE_WORDS) * sizeof(u64);
	if (sim_chance(60))
		iocb.ki_pos = iocb.ki_pos % (least + 1) / PAGE_SIZE * PAGE_SIZE;
	aim(file, &iocb.ki_pos, direct);
	if (!direct && sim_chance(20) && pick_range(p, &place, &words))
		iov_iter_mapping(&iter, p->mm, place.address, words * sizeof(u64));
	else
		iov_iter_kvec(&iter, ITER_DEST, &kvec, 1, kvec.iov_len);
	i = (u64)iocb.ki_pos / sizeof(u64);
	if (direct)
		iocb.ki_flags |= IOCB_DIRECT;
	n = fd->f_op->read_iter(&iocb, &iter);
	if (n < 0) {
		sim_check(excused((int)n) || (n == -EFAULT && iter.type == ITER_MAPPING),
			  "read() failed with %zd", n);
		return;
	}
	if (iter.type == ITER_MAPPING)
		goto out; /* model_stored() has recorded it as stores */
	least = min(least, file->min);
	/* Without a resize in between, the read must return the contents of the file. */
	if (file->resizes == resizes && !(resizes & 1)) {
		u64 k;

		for (k = 0; k < (u64)n / sizeof(u64); k++)
			model_load(file, i + k, p->buffer[k], since);
		sim_check((u64)n == words * sizeof(u64) ||
				  (i + (u64)n / sizeof(u64)) * sizeof(u64) >= (u64)least ||
				  excused(-EIO) || excused(-ENOMEM) || current->killed,
			  "read() of %u words at %llu of file %u ends after %zd bytes", words,
			  (unsigned long long)i, file->index, n);
	}
out:
	w.counts[C_READS]++;
	sim_progress();
}

static void own_values(struct program *p, u32 words)
{
	u32 i;

	for (i = 0; i < words; i++)
		p->buffer[i] = p->transfer.value[i] = ++w.version;
	p->transfer.known = true;
}

static void call_write(struct program *p, bool append, bool direct)
{
	struct sim_file *file = any_file();
	struct file *fd = file->fd[sim_lower(2)];
	u32 words = 1 + sim_lower(CALL_WORDS);
	struct transfer *t = &p->transfer;
	struct kiocb iocb = { .ki_filp = fd };
	bool mapped = !direct && sim_chance(20);
	struct iov_iter iter;
	struct place place;
	ssize_t n;

	t->begun = t->known = false;
	t->known_at = 0;
	if (direct) {
		iocb.ki_pos = sim_lower(MAX_FILE_PAGES) * PAGE_SIZE;
		words = round_up(words, WORDS);
	} else {
		iocb.ki_pos = sim_lower(w.s.npages * WORDS) * sizeof(u64);
		if (sim_chance(50))
			iocb.ki_pos = iocb.ki_pos / PAGE_SIZE * PAGE_SIZE;
	}
	if (!append && sim_chance(80) && iocb.ki_pos >= file->min)
		iocb.ki_pos = iocb.ki_pos % (file->min + 1) / PAGE_SIZE * PAGE_SIZE;
	aim(file, &iocb.ki_pos, direct);
	if (append)
		iocb.ki_flags |= IOCB_APPEND;
	if (mapped && pick_range(p, &place, &words)) {
		iov_iter_mapping(&iter, p->mm, place.address, words * sizeof(u64));
	} else {
		struct kvec kvec = { p->buffer, words * sizeof(u64) };

		own_values(p, words);
		iov_iter_kvec(&iter, ITER_SOURCE, &kvec, 1, kvec.iov_len);
	}
	iter.transfer = t;
	t->file = file;
	if (direct)
		iocb.ki_flags |= IOCB_DIRECT;
	n = fd->f_op->write_iter(&iocb, &iter);
	sim_check(n >= 0 || excused((int)n) || (n == -EFAULT && iter.type == ITER_MAPPING),
		  "write() failed with %zd", n);
	sim_check(!t->begun, "write() returned with the inode lock held");
	w.counts[C_WRITES]++;
	sim_progress();
}

/* @part_percent: the chance to sync only a part of the file. */
static void sync_file(struct sim_file *file, u32 part_percent)
{
	u32 nr = sim_lower(2);
	u64 first = 0, end = MAX_FILE_WORDS;
	loff_t start = 0, last = LLONG_MAX;
	int err;

	if (sim_chance(10)) {
		sync_all();
		return;
	}
	if (sim_chance(part_percent)) {
		start = sim_lower(MAX_FILE_PAGES) * PAGE_SIZE;
		last = start + (1 + sim_lower(24)) * PAGE_SIZE - 1;
		first = (u64)start / sizeof(u64);
		end = (u64)(last + 1) / sizeof(u64);
	}
	model_sync_begins(file, first, end);
	err = file->fd[nr]->f_op->fsync(file->fd[nr], start, last, 0);
	if (!err)
		model_synced(file, first, end);
	else
		sim_check((err != -ENOSPC && excused(err)) || model_may_be_told(err),
			  "fsync() failed with %d without a cause", err);
	w.counts[C_SYNCS]++;
	sim_progress();
}

/* Write all data into the lower file, as before chattr(1) makes the file immutable. */
static void quiesce(struct sim_file *file)
{
	struct inode *inode = &file->hi->vfs_inode;
	int err;

	inode_lock(inode);
	model_sync_begins(file, 0, MAX_FILE_WORDS);
	err = hugemap_quiesce_writes(inode);
	if (!err) {
		lower_flush(file->disk);
		model_synced(file, 0, MAX_FILE_WORDS);
		hugemap_resume_writes(inode);
	} else {
		sim_check((err != -ENOSPC && excused(err)) || model_may_be_told(err),
			  "no write-back before chattr(1): error %d without a cause", err);
	}
	inode_unlock(inode);
}

/* A device pins pages of a mapping, and writes into them at any time until it unpins them. */
static void dma(struct program *p)
{
	struct transfer *t = &p->transfer;
	struct page *page[4] = { NULL };
	u32 words = 1 + sim_lower(3 * WORDS), i, n, left;
	struct place place;
	u64 done[3 * WORDS] = { 0 };
	bool all = false, claimed = false, locks = sim_chance(50);

	t->begun = false;
	t->known_at = 0;
	if (!pick_range(p, &place, &words) || !place.shared)
		return;
	if ((place.word + words) * sizeof(u64) > (u64)place.file->min)
		return;
	place.file->spot = place.word / WORDS;
	/* Begin before the first pin: the device does not write to pages that are punched later. */
	own_values(p, words);
	model_begin(t, place.file, (loff_t)(place.word * sizeof(u64)), words * sizeof(u64));
	n = (u32)((place.address + words * sizeof(u64) - 1) / PAGE_SIZE -
		  place.address / PAGE_SIZE) +
	    1;
	for (i = 0; i < n; i++) {
		unsigned long at = (place.address & ~(PAGE_SIZE - 1)) + i * PAGE_SIZE;

		while (!(page[i] = mm_pin(p->mm, at, true)))
			if (mm_fault(p->mm, at,
				     FAULT_FLAG_WRITE |
					     (sim_chance(80) ? FAULT_FLAG_ALLOW_RETRY : 0)) ||
			    current->killed)
				goto out;
		w.pins++;
		if (!same_place(p, &place))
			goto out;
		folio_lock(page[i]->folio);
		folio_mark_dirty(page[i]->folio);
		folio_unlock(page[i]->folio);
	}
	for (left = words; left; left--) {
		unsigned long at;
		u32 pause = sim_chance(20) ? sim_lower(300) : 0;

		while (pause--)
			sim_yield();
		/*
		 * The sync makes the written half clean. The kernel learns of the other half only
		 * when the device sets the folio dirty at the end.
		 */
		if (left == words / 2 && sim_chance(20))
			place.file->fd[0]->f_op->fsync(place.file->fd[0], 0, LLONG_MAX, 0);
		for (i = sim_lower(words); done[i]; i = (i + 1) % words)
			;
		done[i] = 1;
		model_transfers(t, i * sizeof(u64), t->value[i]);
		at = place.address % PAGE_SIZE + i * sizeof(u64);
		memory_check(page[at / PAGE_SIZE]->folio->memory);
		page[at / PAGE_SIZE]->folio->memory[((size_t)(page[at / PAGE_SIZE] -
							      page[at / PAGE_SIZE]->folio->page) *
							     PAGE_SIZE +
						     at % PAGE_SIZE) /
						    sizeof(u64)] = t->value[i];
	}
	w.counts[C_DMAS]++;
	all = true;
	/* Often unpin while the page is claimed, when it cannot become dirty. */
	for (left = sim_chance(50) ? 1000 : 0; left && !claimed; left--) {
		sim_yield();
		claimed = is_claimed(place.file, place.word / WORDS);
	}
out:
	for (i = 0; i < n && page[i]; i++) {
		/* Some drivers set the flag without the folio lock. */
		if (locks)
			folio_lock(page[i]->folio);
		folio_mark_dirty(page[i]->folio);
		if (locks)
			folio_unlock(page[i]->folio);
		page[i]->folio->dma_pins--;
		folio_put(page[i]->folio);
		w.pins--;
	}
	model_end(t, all ? words * sizeof(u64) : 0);
	sim_progress();
	/* The claim may end without a report to the core. No sync may miss the device's writes. */
	if (claimed && sim_chance(50))
		quiesce(place.file);
	else if (claimed || sim_chance(30))
		sync_file(place.file, claimed ? 0 : 50);
}

/* A pipe holds a reference to a page of a mapping for some time. */
static void pipe_page(struct program *p)
{
	struct place place;
	u32 pause, changes;
	struct page *page;

	if (!pick_place(p, &place))
		return;
	page = mm_get(p->mm, place.address, false);
	if (!page)
		return;
	changes = place.file->hi->data->changes;
	place.file->spot = place.word / WORDS;
	w.pins++;
	if (sim_chance(2))
		folio_break_page(page);
	for (pause = sim_lower(sim_chance(20) ? 20000 : 500); pause; pause--) {
		sim_yield();
		/*
		 * Sometimes hold the page while promotion copies it and a change of the file amends
		 * it, and release it before promotion claims all pages.
		 */
		if (is_promoted(place.file, place.word / WORDS)) {
			place.file->spot = place.word / WORDS;
			if (place.file->hi->data->changes != changes && sim_chance(5))
				break;
		}
		if (!(pause % 64))
			sim_progress();
	}
	folio_put(page->folio);
	w.pins--;
}

/* The madvise(2) flags of a mapping: usually none. */
static unsigned long said_of(u32 npages)
{
	static const unsigned long flags[16] = { [1] = VM_HUGEPAGE,
						 [2] = VM_NOHUGEPAGE,
						 [3] = VM_SEQ_READ,
						 [4] = VM_HUGEPAGE | VM_RAND_READ,
						 [5] = VM_NOHUGEPAGE | VM_SEQ_READ };

	return w.s.page == HUGEMAP_PAGE_AUTO ? flags[npages % ARRAY_SIZE(flags)] : 0;
}

static void remap(struct program *p)
{
	unsigned long flags = VM_MAYWRITE | VM_WRITE | (sim_chance(10) ? VM_RAND_READ : 0);
	u32 slot = w.s.maps == MAPS_WHOLE_UNNOTICED ? 0 : sim_lower(MAX_VMAS), npages, skew;
	struct sim_file *file = any_file();
	u64 pgoff;

	mm_unmap(p->mm, slot);
	pgoff = sim_lower(w.s.npages);
	if (sim_chance(70))
		pgoff = pgoff / HM_BLOCK_PAGES * HM_BLOCK_PAGES;
	npages = 1 + sim_lower((u32)(MAX_FILE_PAGES - pgoff));
	if (sim_chance(w.s.privates))
		npages = min(npages, 3 * HM_BLOCK_PAGES);
	else
		flags |= VM_SHARED;
	skew = sim_chance(w.s.skew_percent) ? sim_lower(HM_BLOCK_PAGES) : 0;
	mm_map(p->mm, slot, file->fd[sim_lower(2)], pgoff, npages, skew, flags | said_of(npages));
	p->at[slot] = 0;
}

static void advise(struct program *p)
{
	static const int advices[] = { POSIX_FADV_WILLNEED,  POSIX_FADV_WILLNEED,
				       POSIX_FADV_DONTNEED,  POSIX_FADV_DONTNEED,
				       POSIX_FADV_RANDOM,    POSIX_FADV_NORMAL,
				       POSIX_FADV_SEQUENTIAL };
	struct sim_file *file = any_file();
	loff_t start = sim_lower(MAX_FILE_PAGES) * PAGE_SIZE;
	loff_t end = start + (1 + sim_lower(32)) * PAGE_SIZE;

	(void)p;
	file->fd[0]->f_op->fadvise(file->fd[sim_lower(2)], start, sim_chance(10) ? 0 : end - start,
				   advices[sim_lower(ARRAY_SIZE(advices))]);
}

static void exit_program(struct program *p)
{
	u32 i;

	current->killed = false;
	current->fsize_limit = sim_chance(w.s.limits) ? sim_lower(8) * PAGE_SIZE : U64_MAX;
	for (i = 0; i < MAX_VMAS; i++)
		mm_unmap(p->mm, i);
}

static void act(struct program *p)
{
	const struct scenario *s = &w.s;
	const u32 weight[] = { s->touches, s->reads, s->writes, s->appends, s->syncs,  s->directs,
			       s->directs, s->dmas,  s->pipes,	s->remaps,  s->advices };
	u32 all = 0, dice, i;

	for (i = 0; i < ARRAY_SIZE(weight); i++)
		all += weight[i];
	dice = sim_lower(all);
	lower_watch_room();
	for (i = 0; dice >= weight[i]; i++)
		dice -= weight[i];
	switch (i) {
	case 0:
		for (dice = sim_lower(16); dice; dice--)
			touch(p);
		touch(p);
		break;
	case 1:
		call_read(p, false);
		break;
	case 2:
		call_write(p, false, false);
		break;
	case 3:
		call_write(p, true, false);
		break;
	case 4:
		sync_file(any_file(), 50);
		break;
	case 5:
		call_read(p, true);
		break;
	case 6:
		call_write(p, false, true);
		break;
	case 7:
		dma(p);
		break;
	case 8:
		pipe_page(p);
		break;
	case 9:
		remap(p);
		break;
	case 10:
		advise(p);
		break;
	}
}

static void program_main(void *arg)
{
	struct program *p = arg;
	bool is_new = true;
	u32 i;

	p->task = current;
	current->mortal = true;
	while (!w.stopping) {
		/* Pause while the disturber evicts an inode: no program may use the file. */
		if (w.parking) {
			sim_yield();
			continue;
		}
		w.acting++;
		if (is_new || current->killed) {
			exit_program(p);
			for (i = 0; i < MAX_VMAS; i++)
				remap(p);
			is_new = false;
		}
		act(p);
		current->signalled = false;
		w.acting--;
	}
	/* The sync sees the entries, and the stores that they hide. */
	for (i = 0; w.s.maps == MAPS_WHOLE_UNNOTICED && i < w.s.nfiles; i++)
		sync_file(&w.file[i], 0);
	exit_program(p);
	w.programs_left--;
}

void machine_spawn(void)
{
	static const char *const worker_names[] = { "done 0",  "ahead 0", "lower 0", "sync 0",
						    "write 0", "free",	  "done 1",  "ahead 1",
						    "lower 1", "sync 1",  "write 1" };
	u32 i;

	sched_spawn("clock", clock_main, NULL);
	sched_spawn("disk", lower_main, NULL);
	for (i = 0; i < ARRAY_SIZE(worker_names); i++)
		sched_spawn(worker_names[i], worker_main, (void *)(uintptr_t)(i % 6));
}

void actors_spawn(void)
{
	static const char *const program_names[] = { "program 0", "program 1", "program 2",
						     "program 3", "program 4", "program 5" };
	u32 i;

	BUILD_BUG_ON(ARRAY_SIZE(program_names) != MAX_PROGRAMS);
	for (i = 0; i < w.s.programs; i++) {
		struct program *p = &programs[i];

		/* Programs 1 and 3 are threads of programs 0 and 2. */
		p->nr = i;
		p->mm = i & 1 && i < 4 ? programs[i - 1].mm : mm_new();
		p->task = &tasks[sched_spawned()];
		sched_spawn(program_names[i], program_main, p);
	}
	sched_spawn("disturber", disturber_main, NULL);
	machine_spawn();
	w.programs_left = w.s.programs + 1;
}
