/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * kernel/ gets this for each header of Linux that it includes: the model, and declarations of
 * names that kernel/ mentions but does not use here.
 */
#ifndef SIM_KERNEL_LINUX_H
#define SIM_KERNEL_LINUX_H

/* kernel/compat/compat.h covers the differences between kernels. This is the newest interface. */
#define HUGEMAP_COMPAT_H
/* A task may switch at each race point, and stays long at one that the scenario chooses. */
#define HUGEMAP_RACE_H
#define RACE_POINT_OF(text) ((sizeof(text) + (text)[0] + (text)[sizeof(text) / 2]) % RACE_POINTS)
#define hugemap_race_point(text) window_pass(RACE_POINT_OF(text), text)
#define hugemap_race_point_atomic(text) hugemap_race_point(text)
#define HUGEMAP_HAVE_COPY_SPLICE_READ
#define HUGEMAP_HAVE_HUGE_FAULT_ORDER
#define HUGEMAP_HAVE_LARGE_MAPCOUNT
#define HUGEMAP_HAVE_VMF_INSERT_FOLIO_PMD
#define HUGEMAP_WQ_PERCPU 0
#define HUGEMAP_XATTR_CONST
#define HUGEMAP_FORGETS_DIRTY 0
#define BTRFS_SUPER_MAGIC 0x9123683E
#define OVERLAYFS_SUPER_MAGIC 0x794c7630
#define IS_NOCMTIME(inode) ((void)(inode), false)
#define IS_NOSEC(inode) ((void)(inode), true)
#define PAGE_ALIGNED(n) (!((n) % PAGE_SIZE))
#define EXT4_SUPER_MAGIC 0xEF53
#define XFS_SUPER_MAGIC 0x58465342
#define CONFIG_X86 1
#define CONFIG_TRACEPOINTS 0
#define CONFIG_MEMORY_FAILURE 1
#define IS_ENABLED(CONFIG_option) (CONFIG_option)

#include "fs.h"

struct fs_context;
struct iattr;
struct fs_parameter;
struct inode_operations;
struct kstat;
struct seq_file;
struct timespec64;
struct xattr_handler;
struct hugemap_idmap;

/* kernel/fs/file.c mentions these. No program splices, leases or sets a priority. */
#define HUGEMAP_IOCTL_H
#define HUGEMAP_IOC_PRIORITY 1
#define HUGEMAP_IOC_CACHED 4
#define FS_IOC_GETVERSION 2
#define FS_IOC_GETFSLABEL 3
#define THIS_MODULE NULL
#define hugemap_splice_read NULL
#define iter_file_splice_write NULL
#define compat_ptr_ioctl NULL
#define generic_setlease NULL
#define CAP_SYS_NICE 23
#define CAP_SYS_ADMIN 21
#define capable(cap) ((void)(cap), false)
#define get_user(to, from) ((to) = *(from), 0)
#define inode_owner_or_capable(idmap, inode) ((void)(idmap), (void)(inode), true)

struct kobject {
	char unused;
};

struct dentry {
	void *d_fsdata;
	struct super_block *d_sb;
};

#define d_prune_aliases(inode) ((void)(inode)) /* the model has no dcache */

#define hugemap_idmap_of(mnt) ((struct hugemap_idmap *)(mnt))

#define errorf(fc, ...) kernel_log(__VA_ARGS__)

struct tracepoint {
	const char *name;
};
#define for_each_kernel_tracepoint(look, data) look(NULL, data)
#define tracepoint_probe_register(tp, probe, data) ((void)(tp), (void)(probe), -ENOENT)
#define tracepoint_probe_unregister(tp, probe, data) ((void)(tp), (void)(probe))
#define tracepoint_synchronize_unregister() \
	do {                                \
	} while (0)

#define DECLARE_EVENT_CLASS(...)
#define TP_PROTO(...) __VA_ARGS__
#define TP_ARGS(...)
#define DEFINE_EVENT(class, name, proto, args)                                               \
	static inline void trace_##name(proto)                                               \
	{                                                                                    \
		sim_note("%-18s %llu+%u of file %llu: %d", #name, (unsigned long long)pgoff, \
			 npages, (unsigned long long)inode->i_ino, value);                   \
	}
#define TRACE_EVENT(name, proto, ...)                                                        \
	static inline void trace_##name(proto)                                               \
	{                                                                                    \
		sim_note("%-18s bytes %lld..%lld of file %llu: %d", #name, (long long)start, \
			 (long long)end, (unsigned long long)inode->i_ino, err);             \
	}

#endif /* SIM_KERNEL_LINUX_H */
