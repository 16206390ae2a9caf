// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * With the option remap: a block has become huge while programs have it mapped in base
 * pages. Their page tables stay, even when nothing is mapped by them any more, and as long
 * as they are there mm maps base pages. So a worker of the mount makes the same mapping
 * anew over the block, in the program's place. The page table goes with the old one, mm
 * merges the new one with its neighbours, and the next touch maps the block by one PMD.
 *
 * Nobody must notice. vm_mmap() takes mmap_lock by itself, so what is mapped anew is looked
 * at once more in hugemap_get_unmapped_area(), with it held for writing, before anything is
 * unmapped: what mmap(2) would not make the same again stays. And nobody must wait:
 * programs that are busy are passed over, one at a time is held, and whoever takes his
 * lock just when it was seen to be free stops this worker, and nothing else.
 */
#include <linux/cred.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/kthread.h>
#include <linux/mempolicy.h>
#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/oom.h>
#include <linux/rbtree.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "data.h"

/* Mappings of one block that are made anew, and nodes that are looked at for them. */
#define MOST_MAPPINGS 64u
#define MOST_NODES 1024u
/* Blocks that wait for it: of more than these, some stay as they are. */
#define MOST_BLOCKS 32
/* Of a lock that others have, a tick apart. */
#define LOCK_TRIES 4u

/* What madvise(2) says of what its pages are for. */
#define ADVICE_FLAGS (VM_HUGEPAGE | VM_NOHUGEPAGE | VM_SEQ_READ | VM_RAND_READ)

struct hugemap_remap {
	struct work_struct work;
	struct hugemap_mount *mount;
	u64 pgoff;
	u32 n;
	struct {
		struct mm_struct *mm; /* it may have ended: only the struct is held */
		unsigned long address;
	} found[MOST_MAPPINGS];
};

static unsigned long prot_of(const struct vm_area_struct *vma)
{
	return (vma->vm_flags & VM_READ ? PROT_READ : 0) |
	       (vma->vm_flags & VM_WRITE ? PROT_WRITE : 0);
}

/*
 * Would mmap(2) make the same one again, with no right more or less? What runs is none:
 * protection keys and security modules have a say in that.
 */
static bool is_plain(struct vm_area_struct *vma)
{
	const struct file *file = vma->vm_file;
	const struct vfsmount *mnt = file->f_path.mnt;
	bool noexec = mnt->mnt_flags & MNT_NOEXEC || mnt->mnt_sb->s_iflags & SB_I_NOEXEC;
	unsigned long flags = VM_MAYREAD | VM_MAYSHARE | (noexec ? 0 : VM_MAYEXEC) |
			      (file->f_mode & FMODE_WRITE ? VM_SHARED | VM_MAYWRITE : 0);

	return (vma->vm_flags & ~(VM_READ | VM_WRITE | VM_SOFTDIRTY)) == flags &&
	       !vma_policy(vma) && !vma->vm_mm->def_flags;
}

u32 hugemap_access_by_caller(struct file *file, u64 first, u64 end)
{
	struct address_space *mapping = file_inode(file)->i_mapping;
	u32 access = hugemap_access(file), looked = 0;
	struct rb_node *node;

	if (!(access & HM_ACCESS_AUTO))
		return access;
	i_mmap_lock_read(mapping);
	for (node = rb_first_cached(&mapping->i_mmap); node && looked < MOST_NODES;
	     node = rb_next(node), looked++) {
		struct vm_area_struct *vma = rb_entry(node, struct vm_area_struct, shared.rb);

		if (vma->vm_mm == current->mm && vma->vm_flags & ADVICE_FLAGS &&
		    vma->vm_pgoff < end && first < vma->vm_pgoff + vma_pages(vma)) {
			access = hugemap_access_in(vma);
			break;
		}
	}
	i_mmap_unlock_read(mapping);
	return access;
}

/* Does it map all of a block, so that one PMD can? */
static bool maps_block(const struct vm_area_struct *vma, u64 pgoff, unsigned long *address)
{
	if (pgoff < vma->vm_pgoff ||
	    pgoff + HM_BLOCK_PAGES > vma->vm_pgoff + ((vma->vm_end - vma->vm_start) >> PAGE_SHIFT))
		return false;
	*address = vma->vm_start + ((pgoff - vma->vm_pgoff) << PAGE_SHIFT);
	return IS_ALIGNED(*address, PMD_SIZE);
}

/*
 * A task runs in it. Not what a fork has not finished, or has given up: the tree of such
 * a one ends in VMAs of the parent. Its task gets it when it is whole.
 */
static bool has_task(struct mm_struct *mm)
{
	bool has = false;

#ifdef CONFIG_MEMCG
	const struct task_struct *owner;

	rcu_read_lock();
	owner = rcu_dereference(mm->owner);
	has = owner && READ_ONCE(owner->mm) == mm;
	rcu_read_unlock();
#endif
	return has;
}

/* What maps the block now, as far as can be seen without its lock. */
static void find_mappings(struct hugemap_remap *r, struct address_space *mapping)
{
	struct rb_node *node;
	u32 looked = 0;

	i_mmap_lock_read(mapping);
	for (node = rb_first_cached(&mapping->i_mmap);
	     node && r->n < MOST_MAPPINGS && looked < MOST_NODES; node = rb_next(node), looked++) {
		struct vm_area_struct *vma = rb_entry(node, struct vm_area_struct, shared.rb);

		if (!maps_block(vma, r->pgoff, &r->found[r->n].address) || !is_plain(vma))
			continue;
		mmgrab(vma->vm_mm);
		r->found[r->n++].mm = vma->vm_mm;
	}
	i_mmap_unlock_read(mapping);
}

/*
 * The mapping there of such a block, if it may be made anew. mmap_lock is held. Whether it is
 * still that of the same file does not matter: none is held, of a file that may be deleted.
 */
static struct vm_area_struct *find_plain(const struct hugemap_mount *mount, struct mm_struct *mm,
					 unsigned long address, u64 pgoff)
{
	struct vm_area_struct *vma = find_vma(mm, address);
	unsigned long at;

	if (!vma || !vma->vm_file || file_inode(vma->vm_file)->i_sb != mount->sb ||
	    !is_plain(vma) || !maps_block(vma, pgoff, &at) || at != address ||
	    check_stable_address_space(mm))
		return NULL;
	return vma;
}

unsigned long hugemap_get_unmapped_area(struct file *file, unsigned long address, unsigned long len,
					unsigned long pgoff, unsigned long flags)
{
	const struct hugemap_mount *mount = hugemap_mount(file_inode(file)->i_sb);
	const struct vm_area_struct *vma;

	if (likely(current != READ_ONCE(mount->remapper)))
		return thp_get_unmapped_area(file, address, len, pgoff, flags);
	vma = find_plain(mount, current->mm, address, pgoff);
	if (!vma || vma->vm_file != file || prot_of(vma) != mount->remap_prot)
		return -EAGAIN;
	return address;
}

/* Its lock is free: who has it may have it for as long as something below takes. */
static bool try_lock(struct mm_struct *mm)
{
	u32 tries;

	for (tries = 0; tries < LOCK_TRIES; tries++) {
		if (!rwsem_is_locked(&mm->mmap_lock) && mmap_read_trylock(mm))
			return true;
		schedule_timeout_uninterruptible(1);
	}
	return false;
}

/* As who opened the file, of whom security modules have been asked before. */
static void map_anew(struct hugemap_remap *r, struct mm_struct *mm, struct file *file,
		     unsigned long address)
{
	struct hugemap_mount *mount = r->mount;
	const struct cred *old = override_creds(file->f_cred);
	unsigned long at;

	kthread_use_mm(mm);
	WRITE_ONCE(mount->remapper, current);
	at = vm_mmap(file, address, PMD_SIZE, mount->remap_prot, MAP_SHARED | MAP_FIXED,
		     r->pgoff << PAGE_SHIFT);
	WRITE_ONCE(mount->remapper, NULL);
	hugemap_count(mount, HUGEMAP_C_REMAPPED, !IS_ERR_VALUE(at));
	/* It would be the same for each block. */
	if (at == -EACCES || at == -EPERM)
		hugemap_inode(file_inode(file))->stays = true;
	/* mm allocates a little after it has unmapped. */
	if (at == -ENOMEM && mmap_read_trylock(mm)) {
		struct vm_area_struct *vma = find_vma(mm, address);

		if (!vma || vma->vm_start > address)
			pr_warn("hugemap: no memory for a mapping that was made anew: it is gone\n");
		mmap_read_unlock(mm);
	}
	kthread_unuse_mm(mm);
	revert_creds(old);
}

static void remap_one(struct hugemap_remap *r, struct mm_struct *mm, unsigned long address)
{
	struct vm_area_struct *vma;
	struct file *file = NULL;

	if (!mmget_not_zero(mm))
		return;
	if (has_task(mm) && try_lock(mm)) {
		vma = find_plain(r->mount, mm, address, r->pgoff);
		if (vma && !hugemap_inode(file_inode(vma->vm_file))->stays) {
			file = get_file(vma->vm_file);
			r->mount->remap_prot = prot_of(vma);
		}
		mmap_read_unlock(mm);
	}
	if (file) {
		map_anew(r, mm, file, address);
		/* At once: who unmounts as soon as a program has ended finds nothing open. */
		__fput_sync(file);
	}
	mmput(mm);
}

static void remap_work(struct work_struct *work)
{
	struct hugemap_remap *r = container_of(work, struct hugemap_remap, work);

	while (r->n-- > 0) {
		if (READ_ONCE(r->mount->opts.remap))
			remap_one(r, r->found[r->n].mm, r->found[r->n].address);
		mmdrop(r->found[r->n].mm);
	}
	atomic_dec(&r->mount->remaps);
	kfree(r);
}

void hugemap_remap(struct hugemap_inode *hi, u64 pgoff)
{
	struct hugemap_mount *mount = hugemap_of(hi);
	struct hugemap_remap *r;

	if (!READ_ONCE(mount->opts.remap) || hi->stays ||
	    atomic_read(&mount->remaps) == MOST_BLOCKS)
		return;
	r = kmalloc(sizeof(*r), GFP_KERNEL);
	if (!r)
		return;
	INIT_WORK(&r->work, remap_work);
	r->mount = mount;
	r->pgoff = pgoff;
	r->n = 0;
	find_mappings(r, hi->vfs_inode.i_mapping);
	atomic_inc(&mount->remaps);
	queue_work(mount->remap_wq, &r->work);
}
