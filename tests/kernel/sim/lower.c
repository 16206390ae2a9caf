// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The lower file system and its disk. Direct I/O completes in any order, short or with an error,
 * or after a long stall. A power cut loses the write cache of the disk. A journal makes a new file
 * size durable only together with the data beyond the old size.
 */
#include "world.h"

#define MAX_IOS 64u

struct lower_io {
	bool used, fails, full;
	struct kiocb *iocb;
	struct iov_iter iter, whole;
	u64 sum; /* checksum of the data when the write began */
	bool write;
	loff_t pos;
	size_t bytes, done, limit;
};

static struct lower_io ios[MAX_IOS];
static u32 nbusy, nqueued; /* I/Os in flight, and how many of them the disk performs */
static wait_queue_head_t disk_wait;

static u64 room, min_room[SIM_COROUTINES + 1];

void lower_forget(void)
{
	memset(ios, 0, sizeof(ios));
	nbusy = nqueued = 0;
}

/* --- free space ------------------------------------------------------------------------- */

void lower_set_room(u64 blocks)
{
	u32 i;

	room = blocks;
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

u32 i_blocksize(const struct inode *inode)
{
	(void)inode;
	return w.s.lower_block;
}

static u64 block_at(loff_t pos)
{
	return (u64)pos / w.s.lower_block;
}

/* The first block that begins at or after a position. */
static u64 block_from(loff_t pos)
{
	return block_at(pos + w.s.lower_block - 1);
}

/* Allocate a block. False: the disk is full. */
static bool take_block(struct disk_file *disk, u64 block)
{
	if (disk->room[block])
		return true;
	if (!room)
		return false;
	disk->room[block] = true;
	if (room != U64_MAX)
		lower_set_room(room - 1);
	return true;
}

static void give_block(struct disk_file *disk, u64 block)
{
	if (disk->room[block] && room != U64_MAX)
		lower_set_room(room + 1);
	disk->room[block] = false;
	disk->hole[block] = true;
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
	disk->hole[block_at(pos)] = false;
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

/* A new size survives only together with the data that was written beyond the old size. */
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
		/* A power cut may undo a punch, so the block may have old data again. */
		if (word->value) {
			disk->hole[block_at(pos)] = false;
			disk->room[block_at(pos)] = true;
		}
	}
	disk->size = disk->safe_size;
	for (i = block_from(disk->size); i < MAX_LOWER_BLOCKS; i++)
		give_block(disk, i);
}

/* Zero a range. Free the blocks that lie in it completely, unless @keep_room. */
static void punch(struct disk_file *disk, loff_t start, loff_t end, bool keep_room)
{
	loff_t pos;
	u64 block;

	for (pos = start; pos < end; pos += sizeof(u64))
		if (!disk->hole[block_at(pos)])
			put_word(disk, pos, 0);
	for (block = block_from(start); block < block_at(end); block++) {
		if (keep_room)
			disk->hole[block] |= w.s.unwritten;
		else
			give_block(disk, block);
	}
}

/* A truncation is durable at once: a power cut does not restore the removed data. */
static void resize(struct disk_file *disk, loff_t size)
{
	loff_t pos;
	u64 block;

	for (pos = size; pos < disk->size; pos += sizeof(u64))
		disk->word[pos / (loff_t)sizeof(u64)] = (struct disk_word){ 0 };
	disk->safe_size = min(disk->safe_size, size);
	for (block = block_from(size); block < MAX_LOWER_BLOCKS; block++)
		give_block(disk, block);
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

		if (take_block(disk, block_at(pos)))
			put_word(disk, pos, ++w.version);
	}
}

int hugemap_resize_lower(struct file *lower, loff_t size)
{
	struct disk_file *disk = lower->disk;

	down_write(&disk->lock);
	sim_note("lower file %u has %lld bytes, had %lld", (u32)(disk - w.disk), (long long)size,
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

/* Checksum of the data to be written, as a file system with data checksums computes it. */
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

/* The engine must not read into poisoned pages. */
static void check_memory(const struct iov_iter *iter)
{
	size_t left = iter->type == ITER_BVEC ? iter->count : 0;
	const struct bio_vec *bvec = iter->bvec;
	u32 i;

	for (; left; left -= bvec++->bv_len)
		for (i = 0; i < bvec->bv_len / PAGE_SIZE; i++)
			sim_check(!bvec->bv_page[i].broken, "data is read into broken memory");
}

/*
 * A device may write into pinned pages after their blocks were freed: by a punch, or by a
 * truncation in the page if blocks are smaller than pages. Write-back then needs space. If there is
 * none, the sync reports it, and the page stays dirty. If its inode is evicted meanwhile, the data
 * is lost.
 */
bool lower_may_free_pinned(void)
{
	return w.s.dmas && (w.s.punches || (w.s.resizes && w.s.lower_block < PAGE_SIZE));
}

/*
 * A store is accepted only if the blocks of its page are allocated, so write-back needs no new
 * space. Device writes are the exception.
 */
static void check_room(const struct disk_file *disk, loff_t pos, size_t bytes)
{
	u64 block = block_at(pos), last = block_at(pos + (loff_t)bytes - 1);

	for (; block <= last && !lower_may_free_pinned(); block++)
		sim_check(disk->room[block],
			  "the block at %llu of file %u is written back but not allocated",
			  (unsigned long long)block * w.s.lower_block, (u32)(disk - w.disk));
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
		/* A short write without an error: the rest can be written. */
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

/* Transfer one word. False: the I/O is complete. */
static bool advance(struct lower_io *io)
{
	struct disk_file *disk = io->iocb->ki_filp->disk;
	loff_t pos = io->pos + (loff_t)io->done;
	u64 word;

	if (io->done >= io->limit)
		return false;
	if (io->write) {
		io->full = !take_block(disk, block_at(pos));
		if (io->full)
			return false;
		if (!copy_from_iter(&word, sizeof(word), &io->iter))
			return false;
		model_written(disk, pos);
		put_word(disk, pos, word);
	} else {
		/* A concurrent truncation may have moved the end of the file. */
		word = pos < disk->size ? disk->word[pos / (loff_t)sizeof(u64)].value : 0;
		if (!copy_to_iter(&word, sizeof(word), &io->iter))
			return false;
	}
	io->done += sizeof(word);
	return true;
}

static void forget_beyond_eof(struct disk_file *disk, loff_t end)
{
	loff_t pos;

	for (pos = disk->size; pos < end; pos += sizeof(u64))
		disk->word[pos / (loff_t)sizeof(u64)] = (struct disk_word){ 0 };
}

static long finish(struct lower_io *io)
{
	struct disk_file *disk = io->iocb->ki_filp->disk;
	long result = (long)io->done;

	/* A successful write beyond the end extends the file now. */
	if (io->write && io->fails) {
		forget_beyond_eof(disk, io->pos + (loff_t)io->done);
	} else if (io->write && io->done && io->pos + (loff_t)io->done > disk->size) {
		disk->size = io->pos + (loff_t)io->done;
		disk->inode.i_size = disk->size;
	}
	/* A read across a concurrent truncation may end at the new end of the file. */
	if (!io->write && io->pos + (loff_t)io->done > disk->size && sim_chance(50))
		result = (long)max(disk->size - io->pos, (loff_t)0);
	/* Device writes may change pages under write-back, in Linux as well. */
	sim_check(!io->write || !w.s.stable || w.s.dmas || w.s.pipes ||
			  sum_of(&io->whole) == io->sum,
		  "the data of a write at %lld of file %u changed during the write",
		  (long long)io->pos, (u32)(disk - w.disk));
	if (io->fails)
		result = -EIO;
	else if (!result && io->full)
		result = -ENOSPC;
	else if (!result && io->limit && (io->write || io->pos < disk->size))
		result = -EFAULT;
	io->iocb->ki_pos += max(result, 0l);
	nbusy--;
	sim_note("lower %s of %zu bytes at %lld of file %u: %ld", io->write ? "write" : "read",
		 io->bytes, (long long)io->pos, (u32)(disk - w.disk), result);
	sim_progress();
	return result;
}

static ssize_t now(struct kiocb *iocb, struct iov_iter *iter, bool write)
{
	struct lower_io io;
	long result;

	begin(&io, iocb, iter, write);
	/* Kill the reader now, when other tasks may wait for its read. */
	if (!write && current->mortal && sim_chance(8 * w.s.kills))
		task_kill(current);
	while (advance(&io))
		sim_step();
	sim_slept();
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

/* Does the lower file refuse direct I/O although FMODE_CAN_ODIRECT is set? */
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
	/* Buffered and extending writes run synchronously under the lock. */
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
	/* A buffered read can be killed while it waits for the lower page cache. */
	if (fatal_signal_pending(current) && sim_chance(80))
		return -EINTR;
	if (sim_chance(80))
		return start(iocb, iter, false);
	ret = now(iocb, iter, false);
	return fatal_signal_pending(current) && sim_chance(80) ? -EINTR : ret;
}

static long allocate(struct disk_file *disk, loff_t offset, loff_t end)
{
	u64 block = block_at(offset), last = block_from(end);
	long err = 0;

	for (; block < last && block < MAX_LOWER_BLOCKS; block++) {
		/* On failure the blocks that were allocated stay allocated. */
		if (!take_block(disk, block)) {
			err = -ENOSPC;
			break;
		}
		disk->hole[block] &= w.s.unwritten;
	}
	sim_note("lower allocation at %lld to block %llu of file %u: %ld", (long long)offset,
		 (unsigned long long)block, (u32)(disk - w.disk), err);
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
	/* A fatal signal interrupts most file systems, any signal interrupted old tmpfs. */
	if ((fatal_signal_pending(current) && sim_chance(50)) ||
	    (signal_pending(current) && !w.s.extents))
		return -EINTR;
	if (mode != FALLOC_FL_KEEP_SIZE && sim_chance(w.s.write_error_percent))
		return -EIO;
	/* Like tmpfs and btrfs, apply RLIMIT_FSIZE even if the size does not change. */
	if ((u64)end > max((u64)i_size_read(file->f_inode), current->fsize_limit))
		return -EFBIG;
	down_write(&disk->lock);
	if (!(mode & FALLOC_FL_PUNCH_HOLE))
		err = allocate(disk, offset, end);
	if (!err && mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE)) {
		bool keep_room = !(mode & FALLOC_FL_PUNCH_HOLE);
		/* Like ext4, a punch up to the end frees the blocks of the whole last page. */
		loff_t last = keep_room ? disk->size : round_up(disk->size, PAGE_SIZE);

		model_zeroes(changed, offset, end);
		punch(disk, offset, end < disk->size ? end : last, keep_room);
	}
	if (!err && !(mode & FALLOC_FL_KEEP_SIZE) && end > disk->size) {
		sim_note("lower file %u has %lld bytes, had %lld", (u32)(disk - w.disk),
			 (long long)end, (long long)disk->size);
		model_resizes(changed, end);
		/*
		 * The engine has cached the words between the end of the lower file and that of the
		 * upper one, or they are zeros, as the extended lower file has them. So the values
		 * of words change only beyond the upper end.
		 */
		model_resize(changed, changed->hi->vfs_inode.i_size, end);
		resize(disk, end);
	}
	up_write(&disk->lock);
	return err;
}

static int lower_fiemap(struct inode *inode, struct fiemap_extent_info *info, u64 start, u64 len)
{
	struct disk_file *disk = container_of(inode, struct disk_file, inode);
	u64 block, end = block_from((loff_t)(start + len));

	sim_step();
	for (block = block_at((loff_t)start); block < end && block < MAX_LOWER_BLOCKS; block++)
		info->fi_extents_mapped += disk->room[block];
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

/* Advance a random I/O in flight, or stall all of them for long. */
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

/* --- other operations of lower files --------------------------------------------------------- */

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
	u64 block;

	sim_step();
	sim_slept();
	if (offset >= disk->size)
		return -ENXIO;
	for (block = block_at(offset); (loff_t)block * w.s.lower_block < disk->size; block++)
		if (disk->hole[block] == hole)
			return max(offset, (loff_t)block * w.s.lower_block);
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
	*st = (struct kstatfs){ .f_blocks = 1u << 20,
				.f_bavail = room,
				.f_bsize = w.s.lower_block };
	return 0;
}
