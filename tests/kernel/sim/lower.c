// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The lower file system and its disk: direct I/O that ends in any order, short or with
 * an error, or waits for long; a cache that a power cut loses; a length that a journal
 * keeps in order with what was written behind the old one.
 */
#include "world.h"

#define MAX_IOS 64u

struct lower_io {
	bool used, fails, full;
	struct kiocb *iocb;
	struct iov_iter iter, whole;
	u64 sum; /* of what was to be written when it began */
	bool write;
	loff_t pos;
	size_t bytes, done, limit;
};

static struct lower_io ios[MAX_IOS];
static u32 nbusy, nqueued; /* I/Os under way, and those of them that the disk has */
static wait_queue_head_t disk_wait;

static u64 room, min_room[SIM_COROUTINES + 1];

void lower_forget(void)
{
	memset(ios, 0, sizeof(ios));
	nbusy = nqueued = 0;
}

/* --- room ------------------------------------------------------------------------------- */

void lower_set_room(u64 pages)
{
	u32 i;

	room = pages;
	for (i = 0; i < ARRAY_SIZE(min_room); i++)
		min_room[i] = min(min_room[i], room);
}

void lower_watch_room(void)
{
	min_room[sched_self()] = room;
}

u64 lower_min_room(void)
{
	return min_room[sched_self()];
}

/* False: there is none for the page. */
static bool take_page(struct disk_file *disk, u64 page)
{
	if (disk->room[page])
		return true;
	if (!room)
		return false;
	disk->room[page] = true;
	if (room != U64_MAX)
		lower_set_room(room - 1);
	return true;
}

static void give_page(struct disk_file *disk, u64 page)
{
	if (disk->room[page] && room != U64_MAX)
		lower_set_room(room + 1);
	disk->room[page] = false;
	disk->hole[page] = true;
}

/* --- the disk --------------------------------------------------------------------------- */

static void put_word(struct disk_file *disk, loff_t pos, u64 value)
{
	struct disk_word *word = &disk->word[pos / (loff_t)sizeof(u64)];

	if (word->npending < PENDING)
		word->pending[word->npending++] = value;
	else
		word->pending[sim_lower(PENDING)] = value;
	word->value = value;
	disk->hole[pos >> PAGE_SHIFT] = false;
}

void lower_flush(struct disk_file *disk)
{
	u32 i;

	for (i = 0; i < MAX_FILE_WORDS; i++) {
		disk->word[i].safe = disk->word[i].value;
		disk->word[i].npending = 0;
	}
	disk->safe_size = disk->size;
}

/* A new length is safe only with what was written behind the old one. */
void lower_lose_power(struct disk_file *disk)
{
	loff_t old = disk->safe_size;
	u32 i;

	sim_note("power cut: file %u has %lld bytes, %lld of them safe", (u32)(disk - w.disk),
		 (long long)disk->size, (long long)old);
	if (sim_chance(50))
		disk->safe_size = disk->size;
	for (i = 0; i < MAX_FILE_WORDS; i++) {
		struct disk_word *word = &disk->word[i];
		loff_t pos = (loff_t)i * (loff_t)sizeof(u64);
		u32 n = sim_lower(word->npending + 2);

		if ((pos >= old && pos < disk->safe_size) || n == word->npending + 1)
			word->safe = word->value;
		else if (n < word->npending)
			word->safe = word->pending[n];
		if (pos >= disk->safe_size)
			word->safe = 0;
		word->value = word->safe;
		word->npending = 0;
		/* What was punched may be back. */
		if (word->value) {
			disk->hole[i / WORDS] = false;
			disk->room[i / WORDS] = true;
		}
	}
	disk->size = disk->safe_size;
	for (i = 0; i < MAX_FILE_PAGES; i++)
		if ((loff_t)i << PAGE_SHIFT >= disk->size)
			give_page(disk, i);
}

/* Whole pages give their room back, of others a part is zero. */
static void punch(struct disk_file *disk, loff_t start, loff_t end, bool keep_room)
{
	loff_t pos;
	u64 page;

	for (pos = start; pos < end; pos += sizeof(u64))
		if (!disk->hole[pos >> PAGE_SHIFT])
			put_word(disk, pos, 0);
	for (page = ((u64)start + PAGE_SIZE - 1) >> PAGE_SHIFT; page < (u64)end >> PAGE_SHIFT;
	     page++) {
		if (keep_room)
			disk->hole[page] |= w.s.unwritten;
		else
			give_page(disk, page);
	}
}

/* A cut is in the journal at once: what was behind it does not come back. */
static void resize(struct disk_file *disk, loff_t size)
{
	loff_t pos;
	u64 page;

	for (pos = size; pos < disk->size; pos += sizeof(u64))
		disk->word[pos / (loff_t)sizeof(u64)] = (struct disk_word){ 0 };
	disk->safe_size = min(disk->safe_size, size);
	for (page = ((u64)size + PAGE_SIZE - 1) >> PAGE_SHIFT; page < MAX_FILE_PAGES; page++)
		give_page(disk, page);
	disk->size = size;
	disk->inode.i_size = size;
}

void lower_change(struct disk_file *disk, bool fresh)
{
	u32 words = sim_lower(3 * WORDS);

	if (fresh)
		resize(disk, 0);
	if (fresh || sim_chance(30))
		resize(disk, (loff_t)(sim_lower(w.s.npages * WORDS) * sizeof(u64)));
	for (; words && disk->size; words--) {
		loff_t pos = sim_lower((u32)(disk->size / (loff_t)sizeof(u64))) * sizeof(u64);

		if (take_page(disk, (u64)pos >> PAGE_SHIFT))
			put_word(disk, pos, ++w.version);
	}
}

int hugemap_resize_lower(struct file *lower, loff_t size)
{
	struct disk_file *disk = lower->disk;

	down_write(&disk->lock);
	sim_note("file %u has %lld bytes below, had %lld", (u32)(disk - w.disk), (long long)size,
		 (long long)disk->size);
	model_resize(&w.file[disk - w.disk], disk->size, size);
	resize(disk, size);
	up_write(&disk->lock);
	return 0;
}

bool hugemap_wants_stable(struct file *lower)
{
	(void)lower;
	return w.s.stable;
}

/* --- I/O --------------------------------------------------------------------------------- */

/* What a file system that computes sums makes of what is written. */
static u64 sum_of(const struct iov_iter *iter)
{
	const struct bio_vec *bvec = iter->bvec;
	size_t left = iter->count, at = 0;
	u64 sum = 0;

	for (; iter->type == ITER_BVEC && left; left -= sizeof(u64), at += sizeof(u64)) {
		const struct page *page;

		for (; at >= bvec->bv_len; bvec++)
			at -= bvec->bv_len;
		page = bvec->bv_page;
		sum = sum * 31 + page->folio->memory[(size_t)(page - page->folio->page) * WORDS +
						     (bvec->bv_offset + at) / sizeof(u64)];
	}
	return sum;
}

/* What is brought in comes to memory that is not known to be broken. */
static void check_memory(const struct iov_iter *iter)
{
	size_t left = iter->type == ITER_BVEC ? iter->count : 0;
	const struct bio_vec *bvec = iter->bvec;
	u32 i;

	for (; left; left -= bvec++->bv_len)
		for (i = 0; i < bvec->bv_len / PAGE_SIZE; i++)
			sim_check(!bvec->bv_page[i].broken, "data is read into broken memory");
}

/* What is written back was accepted: there is room, but for a device: see model_may_be_told(). */
static void check_room(const struct disk_file *disk, loff_t pos, size_t bytes)
{
	u64 page = (u64)pos >> PAGE_SHIFT, last = (u64)(pos + (loff_t)bytes - 1) >> PAGE_SHIFT;

	for (; page <= last && !(w.s.punches && w.s.dmas); page++)
		sim_check(disk->room[page],
			  "page %llu of file %u is written back, and nobody has asked for room",
			  (unsigned long long)page, (u32)(disk - w.disk));
}

static void begin(struct lower_io *io, struct kiocb *iocb, struct iov_iter *iter, bool write)
{
	struct disk_file *disk = iocb->ki_filp->disk;
	u32 errors = write ? w.s.write_error_percent : w.s.read_error_percent;

	*io = (struct lower_io){
		.used = true,
		.iocb = iocb,
		.iter = *iter,
		.write = write,
		.pos = iocb->ki_pos,
		.bytes = iter->count,
		.limit = iter->count,
		.fails = sim_chance(errors),
	};
	if (io->fails) {
		w.counts[C_ERRORS]++;
		w.failures++;
		io->limit = sim_lower((u32)(io->bytes / sizeof(u64)) + 1) * sizeof(u64);
	} else if (write && sim_chance(w.s.short_percent)) {
		/* No error: the rest can be written. */
		io->limit = (1 + sim_lower((u32)(io->bytes / sizeof(u64)))) * sizeof(u64);
	}
	if (!write)
		io->limit = min(io->limit, (size_t)max(disk->size - io->pos, (loff_t)0));
	if (!write && iocb->ki_complete)
		check_memory(iter);
	if (write && iter->type == ITER_BVEC)
		check_room(disk, io->pos, io->bytes);
	io->whole = *iter;
	io->sum = sum_of(iter);
	nbusy++;
}

/* A word at a time. False: that was all. */
static bool advance(struct lower_io *io)
{
	struct disk_file *disk = io->iocb->ki_filp->disk;
	loff_t pos = io->pos + (loff_t)io->done;
	u64 word;

	if (io->done >= io->limit)
		return false;
	if (io->write) {
		io->full = !take_page(disk, (u64)pos >> PAGE_SHIFT);
		if (io->full)
			return false;
		if (!copy_from_iter(&word, sizeof(word), &io->iter))
			return false;
		model_written(disk, pos);
		put_word(disk, pos, word);
	} else {
		/* Cut off meanwhile: what is behind the end is not read. */
		word = pos < disk->size ? disk->word[pos / (loff_t)sizeof(u64)].value : 0;
		if (!copy_to_iter(&word, sizeof(word), &io->iter))
			return false;
	}
	io->done += sizeof(word);
	return true;
}

static void forget_behind(struct disk_file *disk, loff_t end)
{
	loff_t pos;

	for (pos = disk->size; pos < end; pos += sizeof(u64))
		disk->word[pos / (loff_t)sizeof(u64)] = (struct disk_word){ 0 };
}

static long finish(struct lower_io *io)
{
	struct disk_file *disk = io->iocb->ki_filp->disk;
	long result = (long)io->done;

	/* Written behind the end: now it is longer, if all went well. */
	if (io->write && io->fails) {
		forget_behind(disk, io->pos + (loff_t)io->done);
	} else if (io->write && io->done && io->pos + (loff_t)io->done > disk->size) {
		disk->size = io->pos + (loff_t)io->done;
		disk->inode.i_size = disk->size;
	}
	/* Or a read says so where the file ends now, cut off meanwhile. */
	if (!io->write && io->pos + (loff_t)io->done > disk->size && sim_chance(50))
		result = (long)max(disk->size - io->pos, (loff_t)0);
	/* A device stores as it likes, here and in Linux. */
	sim_check(!io->write || !w.s.stable || w.s.dmas || w.s.pipes ||
			  sum_of(&io->whole) == io->sum,
		  "what is written at %lld of file %u changes meanwhile", (long long)io->pos,
		  (u32)(disk - w.disk));
	if (io->fails)
		result = -EIO;
	else if (!result && io->full)
		result = -ENOSPC;
	else if (!result && io->limit && (io->write || io->pos < disk->size))
		result = -EFAULT;
	io->iocb->ki_pos += max(result, 0l);
	nbusy--;
	sim_note("%s below of %zu bytes at %lld of file %u: %ld", io->write ? "write" : "read",
		 io->bytes, (long long)io->pos, (u32)(disk - w.disk), result);
	sim_progress();
	return result;
}

static ssize_t now(struct kiocb *iocb, struct iov_iter *iter, bool write)
{
	struct lower_io io;
	long result;

	begin(&io, iocb, iter, write);
	/* Of all moments the one in which others may wait for what is read. */
	if (!write && current->mortal && sim_chance(8 * w.s.kills))
		task_kill(current);
	while (advance(&io))
		sim_step();
	iter->at = io.iter.at;
	iter->count = io.iter.count;
	result = finish(&io);
	return result;
}

static ssize_t start(struct kiocb *iocb, struct iov_iter *iter, bool write)
{
	u32 i;

	sim_step();
	if (iocb->ki_complete && iter->type == ITER_BVEC && sim_chance(90)) {
		for (i = 0; i < MAX_IOS; i++) {
			if (ios[i].used)
				continue;
			begin(&ios[i], iocb, iter, write);
			nqueued++;
			wake_up_all(&disk_wait);
			return -EIOCBQUEUED;
		}
	}
	return now(iocb, iter, write);
}

/* Direct I/O, which the open file has promised. */
static bool refuses_direct(void)
{
	return !w.s.directs && !w.s.extents;
}

static ssize_t lower_write_iter(struct kiocb *iocb, struct iov_iter *iter)
{
	struct disk_file *disk = iocb->ki_filp->disk;
	ssize_t ret = generic_write_checks(iocb, iter);

	if (ret <= 0)
		return ret;
	if (iocb->ki_flags & IOCB_DIRECT && !refuses_direct() &&
	    iocb->ki_pos + (loff_t)iter->count <= disk->size)
		return start(iocb, iter, true);
	if (iocb->ki_flags & IOCB_DIRECT && refuses_direct())
		return -EINVAL;
	/* Through its page cache, or behind its end: under its lock, and in the caller. */
	if (fatal_signal_pending(current) && sim_chance(50))
		return -EINTR;
	down_write(&disk->lock);
	ret = now(iocb, iter, true);
	up_write(&disk->lock);
	return ret;
}

ssize_t vfs_iocb_iter_read(struct file *file, struct kiocb *iocb, struct iov_iter *iter)
{
	ssize_t ret;

	(void)file;
	if (iocb->ki_flags & IOCB_DIRECT && refuses_direct())
		return -EINVAL;
	/* By way of a page cache of its own: who waits for that can be killed. */
	if (fatal_signal_pending(current) && sim_chance(80))
		return -EINTR;
	if (sim_chance(80))
		return start(iocb, iter, false);
	ret = now(iocb, iter, false);
	return fatal_signal_pending(current) && sim_chance(80) ? -EINTR : ret;
}

static long allocate(struct disk_file *disk, loff_t offset, loff_t end)
{
	u64 page = (u64)offset >> PAGE_SHIFT, last = ((u64)end + PAGE_SIZE - 1) >> PAGE_SHIFT;
	long err = 0;

	for (; page < last && page < MAX_FILE_PAGES; page++) {
		/* What there was room for stays. */
		if (!take_page(disk, page)) {
			err = -ENOSPC;
			break;
		}
		disk->hole[page] &= w.s.unwritten;
	}
	sim_note("room below at %lld to page %llu of file %u: %ld", (long long)offset,
		 (unsigned long long)page, (u32)(disk - w.disk), err);
	return err;
}

static long lower_fallocate(struct file *file, int mode, loff_t offset, loff_t length)
{
	const int known = FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE |
			  FALLOC_FL_UNSHARE_RANGE;
	struct disk_file *disk = file->disk;
	struct sim_file *changed = &w.file[disk - w.disk];
	loff_t end = offset + length;
	long err = 0;

	if (mode & ~known)
		return -EOPNOTSUPP;
	/* As tmpfs had it, any signal, or as most do, a fatal one. */
	if ((fatal_signal_pending(current) && sim_chance(50)) ||
	    (signal_pending(current) && !w.s.extents))
		return -EINTR;
	if (mode != FALLOC_FL_KEEP_SIZE && sim_chance(w.s.write_error_percent))
		return -EIO;
	/* As tmpfs and btrfs have it, although the file does not become longer. */
	if ((u64)end > max((u64)i_size_read(file->f_inode), current->fsize_limit))
		return -EFBIG;
	down_write(&disk->lock);
	if (!(mode & FALLOC_FL_PUNCH_HOLE))
		err = allocate(disk, offset, end);
	if (!err && mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE)) {
		model_zeroes(changed, offset, end);
		punch(disk, offset, min(end, disk->size), !(mode & FALLOC_FL_PUNCH_HOLE));
	}
	if (!err && !(mode & FALLOC_FL_KEEP_SIZE) && end > disk->size) {
		sim_note("file %u has %lld bytes below, had %lld", (u32)(disk - w.disk),
			 (long long)end, (long long)disk->size);
		model_resizes(changed, end);
		/* What lies between is cached, or zeros as it is here. */
		model_resize(changed, changed->hi->vfs_inode.i_size, end);
		resize(disk, end);
	}
	up_write(&disk->lock);
	return err;
}

static int lower_fiemap(struct inode *inode, struct fiemap_extent_info *info, u64 start, u64 len)
{
	struct disk_file *disk = container_of(inode, struct disk_file, inode);
	u64 page, end = (start + len + PAGE_SIZE - 1) >> PAGE_SHIFT;

	sim_step();
	for (page = start >> PAGE_SHIFT; page < end && page < MAX_FILE_PAGES; page++)
		info->fi_extents_mapped += disk->room[page];
	return 0;
}

const struct inode_operations lower_extents = { .fiemap = lower_fiemap };
const struct inode_operations lower_no_extents = { 0 };

static struct lower_io *any_io(void)
{
	u32 start = sim_lower(MAX_IOS), i;

	for (i = 0; i < MAX_IOS; i++)
		if (ios[(start + i) % MAX_IOS].used)
			return &ios[(start + i) % MAX_IOS];
	return NULL;
}

/* Any of those under way goes on, or none for long. */
void lower_main(void *arg)
{
	u32 stall = 0;

	(void)arg;
	for (;;) {
		struct lower_io *io;
		long result;

		wait_event_freezable(disk_wait, nqueued);
		sim_yield();
		if (stall) {
			stall--;
			time_passes(20);
			continue;
		}
		if (nbusy && w.s.stalls && !sim_lower(2000))
			stall = 1 + sim_lower(1000); /* up to 20 s */
		io = any_io();
		if (!io || advance(io))
			continue;
		result = finish(io);
		io->used = false;
		nqueued--;
		io->iocb->ki_complete(io->iocb, result);
	}
}

/* --- the rest of a lower file ---------------------------------------------------------------- */

static const struct file_operations lower_operations = {
	.write_iter = lower_write_iter,
	.fallocate = lower_fallocate,
};

struct file *lower_open(struct disk_file *disk, fmode_t mode)
{
	struct file *file = sim_alloc(sizeof(*file), GFP_KERNEL);

	if (!file)
		return ERR_PTR(-ENOMEM);
	file->f_inode = &disk->inode;
	file->f_mapping = disk->inode.i_mapping;
	file->f_op = &lower_operations;
	file->f_mode = mode | FMODE_CAN_ODIRECT;
	file->f_path.dentry = (struct dentry *)disk;
	file->refs.value = 1;
	file->disk = disk;
	return file;
}

struct file *dentry_open(const struct path *path, int flags, const struct cred *cred)
{
	(void)cred;
	return lower_open((struct disk_file *)path->dentry,
			  FMODE_READ | (flags & O_RDWR ? FMODE_WRITE : 0));
}

loff_t vfs_llseek(struct file *file, loff_t offset, int whence)
{
	struct disk_file *disk = file->disk;
	bool hole = whence == SEEK_HOLE;
	u64 page;

	sim_step();
	if (offset >= disk->size)
		return -ENXIO;
	for (page = (u64)offset >> PAGE_SHIFT; (loff_t)(page << PAGE_SHIFT) < disk->size; page++)
		if (disk->hole[page] == hole)
			return max(offset, (loff_t)(page << PAGE_SHIFT));
	if (whence == SEEK_HOLE)
		return disk->size;
	return -ENXIO;
}

int vfs_fsync_range(struct file *file, loff_t start, loff_t end, int datasync)
{
	(void)start, (void)end, (void)datasync;
	sim_step();
	lower_flush(file->disk);
	return 0;
}

int vfs_statfs(const struct path *path, struct kstatfs *st)
{
	(void)path;
	*st = (struct kstatfs){ .f_blocks = 1u << 20, .f_bavail = room, .f_bsize = PAGE_SIZE };
	return 0;
}
