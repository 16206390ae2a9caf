// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Open files: all operations except cached reads and writes, mappings and direct I/O. Each open
 * file also has the lower file open with the same access mode, for direct I/O and for operations
 * that only the lower file system can perform.
 */
#include <linux/capability.h>
#include <linux/compat.h>
#include <linux/fadvise.h>
#include <linux/falloc.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/fsnotify.h>
#include <linux/magic.h>
#include <linux/mm.h>
#include <linux/mount.h>
#include <linux/slab.h>
#include <linux/splice.h>
#include <linux/uaccess.h>

#include "hugemap_ioctl.h"
#include "namespace.h"

/* --- open and close ---------------------------------------------------------------- */

static struct file *file_open_lower(struct file *file)
{
	/* An overlayfs mount above opens this inode with a path of the overlay. */
	struct path lower = hugemap_lower_path(file_dentry(file));
	int flags = file->f_flags & ~(O_CREAT | O_EXCL | O_NOCTTY | O_TRUNC);

	/* A read-only mount does not change access times either. */
	if (sb_rdonly(file_inode(file)->i_sb))
		flags |= O_NOATIME;
	return hugemap_open_lower(hugemap_mount(file_inode(file)->i_sb), &lower, flags);
}

int hugemap_open(struct inode *inode, struct file *file)
{
	struct hugemap_file *private;
	int err = 0;

	if (S_ISREG(inode->i_mode) && i_size_read(inode) > inode->i_sb->s_maxbytes)
		return -EFBIG;
	private = kzalloc(sizeof(*private), GFP_KERNEL_ACCOUNT);
	if (!private)
		return -ENOMEM;
	if (hugemap_inode(inode)->lower) {
		private->lower = file_open_lower(file);
		if (IS_ERR(private->lower)) {
			err = PTR_ERR(private->lower);
			private->lower = NULL;
		}
	}
	file->private_data = private;
	if (!err && S_ISREG(inode->i_mode)) {
		/* Over a device, direct I/O goes through the pool. */
		if (!private->lower || (private->lower->f_mode & FMODE_CAN_ODIRECT))
			file->f_mode |= FMODE_CAN_ODIRECT;
		file->f_mode |= FMODE_NOWAIT;
		err = hugemap_data_open(inode, file);
	}
	if (err)
		hugemap_release(inode, file);
	return err;
}

/*
 * Some lower file systems set the mtime when write-back writes the data. Write back at close, so
 * that the mtime does not change after a program has closed its file.
 */
static int file_update_times(struct inode *inode, const struct file *file)
{
	const struct inode *lower = hugemap_inode(inode)->lower;

	if (!(file->f_mode & FMODE_WRITE) || !S_ISREG(inode->i_mode) || !lower || !inode->i_nlink)
		return 0;
	if (!IS_NOCMTIME(lower) && lower->i_sb->s_magic != OVERLAYFS_SUPER_MAGIC)
		return 0;
	return hugemap_write_back(inode, 0, LLONG_MAX);
}

int hugemap_release(struct inode *inode, struct file *file)
{
	struct hugemap_file *private = file->private_data;

	/* A program may have stored through a mapping after close(2). */
	file_update_times(inode, file);
	if (private->lower)
		fput(private->lower);
	kfree(private);
	return 0;
}

static int file_flush(struct file *file, fl_owner_t id)
{
	struct file *lower = hugemap_lower_file(file);
	int err = file_update_times(file_inode(file), file), lower_err = 0;

	if (lower && lower->f_op->flush)
		lower_err = lower->f_op->flush(lower, id);
	return err ?: lower_err;
}

/* --- reading and writing ------------------------------------------------------------- */

static bool file_is_direct(const struct kiocb *iocb)
{
	return (iocb->ki_flags & IOCB_DIRECT) && hugemap_lower_file(iocb->ki_filp);
}

/* RWF_NOWAIT works for reads of cached data, but not for direct I/O and writes. */
static ssize_t file_read_iter(struct kiocb *iocb, struct iov_iter *to)
{
	if (!file_is_direct(iocb))
		return hugemap_read_iter(iocb, to);
	return iocb->ki_flags & IOCB_NOWAIT ? -EAGAIN : hugemap_direct_read(iocb, to);
}

static ssize_t file_write_iter(struct kiocb *iocb, struct iov_iter *from)
{
	struct inode *inode = file_inode(iocb->ki_filp);

	if (iocb->ki_flags & IOCB_NOWAIT)
		return -EOPNOTSUPP;
	/* As in ext4_write_checks(): write-back to an immutable file would fail. */
	hugemap_copy_flags(inode);
	if (IS_IMMUTABLE(inode))
		return -EPERM;
	if (hugemap_swaps_lower(hugemap_inode(inode)))
		return -ETXTBSY;
	return file_is_direct(iocb) ? hugemap_direct_write(iocb, from) :
				      hugemap_write_iter(iocb, from);
}

static loff_t file_llseek(struct file *file, loff_t offset, int whence)
{
	struct file *lower = hugemap_lower_file(file);
	struct inode *inode = file_inode(file);
	loff_t at;

	if ((whence != SEEK_DATA && whence != SEEK_HOLE) || !lower)
		return generic_file_llseek(file, offset, whence);
	/* A store into a hole makes it data: write back, so that the lower file has it. */
	at = hugemap_write_back(inode, 0, LLONG_MAX);
	if (!at)
		at = vfs_llseek(lower, offset, whence);
	return at < 0 ? at : vfs_setpos(file, at, inode->i_sb->s_maxbytes);
}

/* --- changes that only the lower file system can make ---------------------------------- */

/* The modes for which file_fallocate() computes the range that changes. */
#define KNOWN_MODES                                                          \
	(FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE | \
	 FALLOC_FL_COLLAPSE_RANGE | FALLOC_FL_INSERT_RANGE | FALLOC_FL_UNSHARE_RANGE)

struct change_range {
	struct file *lower;
	int mode;
	loff_t offset;
	loff_t length;
};

/* Repeat the checks of vfs_fallocate(), whose copy of the flags may have been old. */
static int file_may_fallocate(struct inode *inode, int mode)
{
	hugemap_copy_flags(inode);
	if (IS_IMMUTABLE(inode) || (IS_APPEND(inode) && mode & ~FALLOC_FL_KEEP_SIZE))
		return -EPERM;
	return hugemap_swaps_lower(hugemap_inode(inode)) ? -ETXTBSY : 0;
}

static ssize_t file_fallocate_lower(void *arg)
{
	struct change_range *change = arg;
	struct file *lower = change->lower;
	int err;

	/* vfs_fallocate() would take freeze protection, which the caller holds already. */
	if (!lower->f_op->fallocate)
		return -EOPNOTSUPP;
	err = lower->f_op->fallocate(lower, change->mode, change->offset, change->length);
	if (!err)
		fsnotify_modify(lower);
	return err;
}

static long file_fallocate(struct file *file, int mode, loff_t offset, loff_t length)
{
	struct inode *inode = file_inode(file);
	struct change_range change = { hugemap_lower_file(file), mode, offset, length };
	enum hugemap_change what = HUGEMAP_KEEP;
	loff_t start = offset, end = offset + length, size;
	long err;

	if (!change.lower || mode & ~KNOWN_MODES)
		return -EOPNOTSUPP;
	inode_lock(inode);
	err = file_may_fallocate(inode, mode);
	if (err)
		goto out;
	size = i_size_read(inode);
	if (mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE)) {
		what = HUGEMAP_DISCARD;
	} else if (mode & (FALLOC_FL_COLLAPSE_RANGE | FALLOC_FL_INSERT_RANGE)) {
		end = LLONG_MAX;
	} else {
		/* Allocating or unsharing blocks of existing data does not change the data. */
		start = max(start, size);
		end = max(start, end);
	}
	/* Do not extend the lower file before write-back writes the appended data. */
	if (offset + length <= size && !(mode & ~FALLOC_FL_UNSHARE_RANGE))
		change.mode |= FALLOC_FL_KEEP_SIZE;
	if (end > size && !(mode & FALLOC_FL_KEEP_SIZE)) {
		start = min(start, size);
		end = LLONG_MAX;
		if (!mode)
			what = HUGEMAP_GROW;
	}
	hugemap_start_write_lower(hugemap_inode(inode));
	if (start < end)
		err = hugemap_change_lower(inode, start, end, what, file_fallocate_lower, &change);
	else
		err = file_fallocate_lower(&change);
	hugemap_end_write_lower(hugemap_inode(inode));
	hugemap_copy_attr(inode);
out:
	inode_unlock(inode);
	return err;
}

struct remap {
	struct file *in;
	struct file *out;
	loff_t from;
	loff_t to;
	loff_t length;
	unsigned int flags;
};

static ssize_t file_remap_lower(void *arg)
{
	struct remap *remap = arg;
	struct file *out = remap->out;
	loff_t done;

	/* As in file_fallocate_lower(): the VFS has checked the upper files. */
	done = out->f_op->remap_file_range(remap->in, remap->from, out, remap->to, remap->length,
					   remap->flags);
	if (done > 0 && !(remap->flags & REMAP_FILE_DEDUP))
		fsnotify_modify(out);
	return done;
}

static loff_t file_remap_range(struct file *file_in, loff_t from, struct file *file_out, loff_t to,
			       loff_t length, unsigned int flags)
{
	struct inode *in = file_inode(file_in), *out = file_inode(file_out);
	struct hugemap_mount *mount = hugemap_mount(out->i_sb);
	struct remap remap = {
		hugemap_lower_file(file_in), hugemap_lower_file(file_out), from, to, length, flags
	};
	loff_t end, done;

	/* Fail before any write-back: each copy_file_range(2) tries to clone first. */
	if (!remap.in || !remap.out || !remap.out->f_op->remap_file_range)
		return -EOPNOTSUPP;
	if (file_inode(remap.in)->i_sb != file_inode(remap.out)->i_sb)
		return -EXDEV;
	if (READ_ONCE(mount->never_clones))
		return -EOPNOTSUPP;
	lock_two_nondirectories(in, out);
	/* A length of 0 means "to the end", for the lower file system, too. */
	end = to + (length ?: max_t(loff_t, i_size_read(in) - from, 0));
	/* Write back so much that the lower file reaches the end of the range. */
	done = hugemap_write_back(in, from,
				  length && !hugemap_is_growing(hugemap_inode(in)) ? from + length :
										     LLONG_MAX);
	/* Deduplication works on files that are not open for writing, so check the mount. */
	if (!done)
		done = mnt_want_write(mount->lower.mnt);
	if (!done) {
		done = hugemap_change_lower(out, min(to, i_size_read(out)),
					    end > i_size_read(out) ? LLONG_MAX : end, HUGEMAP_KEEP,
					    file_remap_lower, &remap);
		mnt_drop_write(mount->lower.mnt);
	}
	/* XFS without reflinks returns this for any two files: do not try again. */
	if (done == -EOPNOTSUPP && file_inode(remap.out)->i_sb->s_magic == XFS_SUPER_MAGIC)
		WRITE_ONCE(mount->never_clones, true);
	hugemap_copy_attr(out);
	unlock_two_nondirectories(in, out);
	return done;
}

/* --- advice ------------------------------------------------------------------------------ */

/*
 * The cache core detects streams by their faults. f_ra.ra_pages stays 0: with another value,
 * khugepaged would read ahead into folios of its own: see aops.c.
 */
static void file_advise_order(struct file *file, int advice)
{
	struct hugemap_file *private = file->private_data;

	spin_lock(&file->f_lock);
	if (advice == POSIX_FADV_RANDOM)
		file->f_mode |= FMODE_RANDOM;
	else
		file->f_mode &= ~FMODE_RANDOM;
	WRITE_ONCE(private->sequential, advice == POSIX_FADV_SEQUENTIAL);
	spin_unlock(&file->f_lock);
}

static int file_fadvise(struct file *file, loff_t start, loff_t length, int advice)
{
	struct inode *inode = file_inode(file);
	loff_t end;

	if (length < 0)
		return -EINVAL;
	if (!length || check_add_overflow(start, length, &end))
		end = LLONG_MAX;
	switch (advice) {
	case POSIX_FADV_NORMAL:
	case POSIX_FADV_SEQUENTIAL:
	case POSIX_FADV_RANDOM:
		file_advise_order(file, advice);
		break;
	case POSIX_FADV_WILLNEED:
		hugemap_data_willneed(file, start, end);
		break;
	case POSIX_FADV_DONTNEED:
		hugemap_data_dontneed(inode, start, end);
		break;
	case POSIX_FADV_NOREUSE:
		break;
	default:
		return -EINVAL;
	}
	return 0;
}

/*
 * A file of high priority displaces the other files of the mount from the pool. So, as with
 * nice(2) and ioprio_set(2), only an administrator may set a high priority.
 */
static bool file_may_go_first(void)
{
	return capable(CAP_SYS_NICE) || capable(CAP_SYS_ADMIN);
}

static long file_set_priority(struct file *file, const __s32 __user *arg)
{
	struct inode *inode = file_inode(file);
	__s32 priority;

	if (get_user(priority, arg))
		return -EFAULT;
	if (priority < -1 || priority > 1)
		return -EINVAL;
	if (!(file->f_mode & FMODE_WRITE) &&
	    !inode_owner_or_capable(hugemap_idmap_of(file->f_path.mnt), inode))
		return -EPERM;
	if (priority > READ_ONCE(hugemap_inode(inode)->data->priority) && priority > 0 &&
	    !file_may_go_first())
		return -EPERM;
	WRITE_ONCE(hugemap_inode(inode)->data->priority, priority);
	return 0;
}

static long file_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	struct file *lower = hugemap_lower_file(file);

	switch (cmd) {
	case HUGEMAP_IOC_PRIORITY:
		return file_set_priority(file, (const __s32 __user *)arg);
	case HUGEMAP_IOC_CACHED:
		return hugemap_cached(file, (void __user *)arg);
	/* These change nothing. Other ioctls could change the lower file without the cache. */
	case FS_IOC_GETVERSION:
	case FS_IOC_GETFSLABEL:
		if (lower && lower->f_op->unlocked_ioctl)
			return lower->f_op->unlocked_ioctl(lower, cmd, arg);
		break;
	}
	return -ENOTTY;
}

const struct file_operations hugemap_file_operations = {
	.owner = THIS_MODULE,
	.open = hugemap_open,
	.release = hugemap_release,
	.flush = file_flush,
	.llseek = file_llseek,
	.read_iter = file_read_iter,
	.write_iter = file_write_iter,
	.splice_read = hugemap_splice_read,
	.splice_write = iter_file_splice_write,
	.mmap = hugemap_mmap,
	.get_unmapped_area = thp_get_unmapped_area,
	.fsync = hugemap_fsync,
	.fallocate = file_fallocate,
	.remap_file_range = file_remap_range,
	.fadvise = file_fadvise,
	.unlocked_ioctl = file_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.setlease = generic_setlease,
};
