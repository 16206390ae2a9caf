// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Inodes, open files and iterators: see fs.h. */
#include "world.h"

/* --- inodes ------------------------------------------------------------------------ */

void inode_init(struct inode *inode, struct super_block *sb, u64 ino, loff_t size)
{
	memset(inode, 0, sizeof(*inode));
	inode->i_sb = sb;
	inode->i_mapping = &inode->i_data;
	inode->i_data.host = inode;
	init_rwsem(&inode->i_data.invalidate_lock);
	init_rwsem(&inode->i_data.i_mmap_rwsem);
	init_rwsem(&inode->i_rwsem);
	inode->i_count.value = 1;
	inode->i_ino = ino;
	inode->i_nlink = 1;
	inode->i_size = size;
}

static struct inode *inodes[CONTEST_FILES]; /* those that are hashed */

struct inode *iget5_locked(struct super_block *sb, unsigned long hash,
			   int (*test)(struct inode *inode, void *data),
			   int (*set)(struct inode *inode, void *data), void *data)
{
	struct inode *inode;
	u32 i;

	for (i = 0; i < CONTEST_FILES; i++) {
		if (!inodes[i] || !test(inodes[i], data))
			continue;
		sim_check(!inodes[i]->is_new && !inodes[i]->freeing,
			  "a lookup found an inode that is not ready");
		return igrab(inodes[i]);
	}
	inode = sb->s_op->alloc_inode(sb);
	if (!inode)
		return NULL;
	inode_init(inode, sb, hash, 0);
	set(inode, data);
	inode->is_new = inode->hashed = true;
	for (i = 0; inodes[i]; i++)
		;
	inodes[i] = inode;
	return inode;
}

static void unhash(struct inode *inode)
{
	u32 i;

	for (i = 0; i < CONTEST_FILES; i++)
		if (inodes[i] == inode)
			inodes[i] = NULL;
	inode->hashed = false;
}

void unlock_new_inode(struct inode *inode)
{
	sim_check(inode->is_new, "an inode becomes visible twice");
	WRITE_ONCE(inode->is_new, false);
}

void iget_failed(struct inode *inode)
{
	/* As in make_bad_inode(): it is a regular file now, whatever it was. */
	unhash(inode);
	inode->i_mode = S_IFREG;
	unlock_new_inode(inode);
	iput(inode);
}

void clear_inode(struct inode *inode)
{
	sim_check(mapping_empty(inode->i_mapping), "an evicted inode still has folios");
}

void inode_evict(struct inode *inode)
{
	inode->freeing = true;
	inode->i_sb->s_op->evict_inode(inode);
	unhash(inode);
	inode->i_sb->s_op->destroy_inode(inode);
}

void inodes_forget(void)
{
	memset(inodes, 0, sizeof(inodes));
}

/* Fails sometimes, as if another task or the caller held the lock. */
bool inode_trylock(struct inode *inode)
{
	return !sim_chance(5) && down_write_trylock(&inode->i_rwsem);
}

struct inode *igrab(struct inode *inode)
{
	sim_step();
	if (inode->freeing)
		return NULL;
	inode->i_count.value++;
	return inode;
}

void iput(struct inode *inode)
{
	int count = atomic_add_return(-1, &inode->i_count);

	sim_check(count >= 0, "iput() without a reference");
	/* A hashed inode stays in memory without references: disturb.c evicts it. */
	if (!count && inode->i_sb->s_op && !inode->hashed)
		inode_evict(inode);
}

struct file *get_file(struct file *file)
{
	atomic_inc(&file->refs);
	return file;
}

void fput(struct file *file)
{
	sim_check(file->refs.value > 0, "fput() without a reference");
	if (!atomic_add_return(-1, &file->refs))
		sim_free(file);
}

void lock_two(struct inode *a, struct inode *b)
{
	inode_lock(min(a, b));
	if (a != b)
		inode_lock(max(a, b));
}

void unlock_two_nondirectories(struct inode *a, struct inode *b)
{
	inode_unlock(max(a, b));
	if (a != b)
		inode_unlock(min(a, b));
}

/* End the caller's write or resize in the model while the caller still holds the lock. */
static void end_in_model(struct inode *inode)
{
	struct transfer *t = current->transfer;

	if (t && t->begun && &t->file->hi->vfs_inode == inode) {
		model_end(t, (size_t)(t->iocb->ki_pos - t->pos));
		current->transfer = NULL;
	}
	if (current->resizes && &current->resizes->hi->vfs_inode == inode) {
		current->resizes->resizes++;
		current->resizes = NULL;
	}
}

void inode_unlock(struct inode *inode)
{
	end_in_model(inode);
	up_write(&inode->i_rwsem);
}

void inode_unlock_shared(struct inode *inode)
{
	end_in_model(inode);
	up_read(&inode->i_rwsem);
}

void *xas_find_conflict(const struct xa_state *xas)
{
	u32 i;

	for (i = 0; i < 1u << xas->order; i++)
		if (xas->xa->slot[xas->index + i])
			return xas->xa->slot[xas->index + i];
	return NULL;
}

void *xas_store(struct xa_state *xas, void *entry)
{
	struct folio *old = xas->xa->slot[xas->index];
	u32 i;

	sim_check(xas->xa->lock.locked, "xas_store() without the lock");
	/* Inserting an entry may need memory, removing one does not. */
	if (entry && !old && sim_chance(w.s.alloc_error_percent)) {
		xas->err = -ENOMEM;
		return NULL;
	}
	/* Only a frozen folio may be replaced. */
	sim_check(!entry || !xas_find_conflict(xas) ||
			  (old && !xas->order && !atomic_read(&old->refs)),
		  "xas_store() over another entry");
	for (i = 0; i < 1u << xas->order; i++)
		xas->xa->slot[xas->index + i] = entry;
	return old;
}

bool xas_nomem(struct xa_state *xas, gfp_t gfp)
{
	if (xas->err != -ENOMEM)
		return false;
	memory_pressure(gfp);
	if (!(gfp & __GFP_NOFAIL) && sim_chance(w.s.alloc_error_percent))
		return false;
	xas->err = 0;
	return true;
}

void foreign_folio(struct inode *inode, u64 index)
{
	struct xarray *xa = &inode->i_mapping->i_pages;
	struct page *page = alloc_pages_node(0, GFP_KERNEL, 0);
	struct folio *folio;

	if (!page)
		return;
	folio = page->folio;
	folio_lock(folio);
	spin_lock(&xa->lock);
	if (!xa->slot[index]) {
		u32 pause = sim_lower(100);

		folio_get(folio);
		xa->slot[index] = folio;
		inode->i_mapping->nrpages++;
		spin_unlock(&xa->lock);
		while (pause--)
			sim_yield();
		spin_lock(&xa->lock);
		sim_check(xa->slot[index] == folio, "a foreign folio was removed from i_pages");
		xa->slot[index] = NULL;
		inode->i_mapping->nrpages--;
		folio_put(folio);
	}
	spin_unlock(&xa->lock);
	folio_unlock(folio);
	folio_put(folio);
}

bool mapping_empty(const struct address_space *mapping)
{
	u32 i;

	for (i = 0; i < MAX_FILE_PAGES; i++)
		if (mapping->i_pages.slot[i])
			return false;
	return true;
}

/* Like errseq_t: each open file reports an error once. */
void mapping_set_error(struct address_space *mapping, int err)
{
	sim_step();
	sim_check(model_may_be_told(err), "error %d was set on the mapping without a cause", err);
	w.failures++;
	mapping->wb_seq++;
	mapping->wb_err = err;
}

int file_check_and_advance_wb_err(struct file *file)
{
	struct address_space *mapping = file->f_mapping;

	sim_step();
	if (file->wb_seen == mapping->wb_seq)
		return 0;
	file->wb_seen = mapping->wb_seq;
	return mapping->wb_err;
}

ssize_t generic_write_checks(struct kiocb *iocb, struct iov_iter *from)
{
	u64 limit = current->fsize_limit;

	if (!from->count)
		return 0;
	if (iocb->ki_flags & IOCB_APPEND)
		iocb->ki_pos = i_size_read(file_inode(iocb->ki_filp));
	limit = min(limit, (u64)MAX_FILE_PAGES << PAGE_SHIFT);
	if ((u64)iocb->ki_pos >= limit)
		return -EFBIG;
	iov_iter_truncate(from, limit - (u64)iocb->ki_pos);
	if (from->transfer && !from->transfer->begun) {
		from->transfer->known_at = from->at;
		model_begin(from->transfer, from->transfer->file, iocb->ki_pos, from->count);
		from->transfer->iocb = iocb;
		current->transfer = from->transfer;
	}
	return (ssize_t)from->count;
}

ssize_t generic_write_sync(struct kiocb *iocb, ssize_t count)
{
	(void)iocb;
	return count;
}

int file_modified(struct file *file)
{
	(void)file;
	sim_step();
	return 0;
}

/* --- iterators ------------------------------------------------------------------------ */

void iov_iter_bvec(struct iov_iter *iter, int direction, const struct bio_vec *bvec, u32 n,
		   size_t bytes)
{
	(void)direction;
	(void)n;
	*iter = (struct iov_iter){ .type = ITER_BVEC, .bvec = bvec, .count = bytes };
}

void iov_iter_kvec(struct iov_iter *iter, int direction, const struct kvec *kvec, u32 n,
		   size_t bytes)
{
	(void)direction;
	(void)n;
	*iter = (struct iov_iter){ .type = ITER_KVEC, .base = kvec->iov_base, .count = bytes };
}

void iov_iter_mapping(struct iov_iter *iter, struct mm_struct *mm, unsigned long address,
		      size_t bytes)
{
	*iter = (struct iov_iter){
		.type = ITER_MAPPING, .mm = mm, .address = address, .count = bytes
	};
}

void iov_iter_advance(struct iov_iter *iter, size_t bytes)
{
	iter->at += bytes;
	iter->count -= bytes;
}

void iov_iter_revert(struct iov_iter *iter, size_t bytes)
{
	iter->at -= bytes;
	iter->count += bytes;
}

void iov_iter_truncate(struct iov_iter *iter, u64 bytes)
{
	if (iter->count > bytes)
		iter->count = bytes;
}

static u64 *bvec_word(const struct iov_iter *iter)
{
	const struct bio_vec *bvec = iter->bvec;
	size_t at = iter->at;
	char *page;

	for (; at >= bvec->bv_len; bvec++)
		at -= bvec->bv_len;
	page = (char *)folio_address(bvec->bv_page->folio) +
	       (size_t)(bvec->bv_page - bvec->bv_page->folio->page) * PAGE_SIZE;
	return (u64 *)(page + bvec->bv_offset + at);
}

/* Address of the next word. NULL: the access faults, and the fault is disabled or fails. */
static u64 *next_word(const struct iov_iter *iter, bool write)
{
	unsigned long address = iter->address + iter->at;
	u64 *word;

	switch (iter->type) {
	case ITER_BVEC:
		return bvec_word(iter);
	case ITER_KVEC:
		return (u64 *)(iter->base + iter->at);
	case ITER_MAPPING:
		break;
	}
	while (!(word = mm_word(iter->mm, address, write))) {
		if (current->nofault || iter->nofault ||
		    mm_fault(iter->mm, address,
			     (write ? FAULT_FLAG_WRITE : 0) |
				     (sim_chance(80) ? FAULT_FLAG_ALLOW_RETRY : 0)))
			return NULL;
	}
	return word;
}

size_t copy_to_iter(const void *from, size_t bytes, struct iov_iter *to)
{
	size_t done;

	sim_check(to->type != ITER_MAPPING || current->nofault || !memory_is_folios(from),
		  "copy_to_iter() from a folio with page faults enabled");
	for (done = 0; done < bytes; done += sizeof(u64)) {
		u64 *word = next_word(to, true);

		if (!word)
			break;
		memory_check(from);
		*word = *(const u64 *)((const char *)from + done);
		if (to->type == ITER_MAPPING)
			model_stored(to->mm, to->address + to->at, *word);
		to->at += sizeof(u64);
		to->count -= sizeof(u64);
		sim_step();
	}
	return done;
}

size_t copy_from_iter(void *to, size_t bytes, struct iov_iter *from)
{
	size_t done;

	for (done = 0; done < bytes; done += sizeof(u64)) {
		const u64 *word = next_word(from, false);

		if (!word)
			break;
		memory_check(to);
		*(u64 *)((char *)to + done) = *word;
		if (from->transfer)
			model_transfers(from->transfer, from->at - from->transfer->known_at, *word);
		from->at += sizeof(u64);
		from->count -= sizeof(u64);
		sim_step();
	}
	return done;
}

static size_t fault_in(const struct iov_iter *iter, size_t bytes, bool write)
{
	size_t at;

	if (iter->type != ITER_MAPPING)
		return 0;
	for (at = 0; at < bytes; at += PAGE_SIZE - (iter->address + iter->at + at) % PAGE_SIZE) {
		unsigned long address = iter->address + iter->at + at;

		while (!mm_word(iter->mm, address, write))
			if (mm_fault(iter->mm, address,
				     (write ? FAULT_FLAG_WRITE : 0) | FAULT_FLAG_ALLOW_RETRY))
				return bytes - at;
	}
	return 0;
}

size_t fault_in_iov_iter_readable(const struct iov_iter *iter, size_t bytes)
{
	return fault_in(iter, bytes, false);
}

size_t fault_in_iov_iter_writeable(const struct iov_iter *iter, size_t bytes)
{
	return fault_in(iter, bytes, true);
}
