// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "permit.h"

#include "call.h"
#include "say.h"
#include "thread.h"
#include "uapi.h"

#include <linux/magic.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

/* close_range() copies this many descriptors even if it closes all of them (NR_OPEN_DEFAULT). */
#define PERMIT_COPIED 64
#define PERMIT_STACK 2048u
#define PERMIT_DRM_MAJOR 226u

bool permit_page_size(void)
{
	/* With larger pages this address lies inside a page, and the call fails. */
	return call(SYS_madvise, 4096, 0, MADV_NORMAL, 0, 0, 0) == 0;
}

bool permit_close_range(void)
{
	/* A kernel that has the call refuses a range whose end lies before its start. */
	return call(SYS_close_range, 1, 0, 0, 0, 0, 0) == -EINVAL;
}

/* --- system calls --- */

/* Make each call that the monitor makes, with arguments that make it fail or do nothing. */
static int permit_try(void *unused)
{
	static const unsigned char advice[] = {
		MADV_NORMAL,	 MADV_RANDOM,	     MADV_WILLNEED, MADV_HUGEPAGE,
		MADV_NOHUGEPAGE, MADV_POPULATE_READ, MADV_DONTFORK, MADV_DONTNEED_LOCKED,
	};
	size_t i;

	(void)unused;
	call(SYS_getpid, 0, 0, 0, 0, 0, 0);
	call(SYS_tgkill, -1, -1, 0, 0, 0, 0);
	call(SYS_nanosleep, 0, 0, 0, 0, 0, 0);
	call(SYS_rt_sigprocmask, -1, 0, 0, 8, 0, 0);
	call(SYS_prctl, PR_SET_NAME, 0, 0, 0, 0, 0);
	call(SYS_getrusage, -1, 0, 0, 0, 0, 0);
	call(SYS_sched_setscheduler, -1, 0, 0, 0, 0, 0);
	call(SYS_capset, 0, 0, 0, 0, 0, 0);
	call(SYS_futex, 0, -1, 0, 0, 0, 0);
	call(SYS_clock_gettime, -1, 0, 0, 0, 0, 0);
	call(SYS_close_range, 1, 0, 0, 0, 0, 0);
	call(SYS_pidfd_open, -1, 0, 0, 0, 0, 0);
	call(SYS_pidfd_getfd, -1, 0, 0, 0, 0, 0);
	call(SYS_memfd_create, 0, ~0l, 0, 0, 0, 0);
	call(SYS_ftruncate, -1, 0, 0, 0, 0, 0);
	call(SYS_mmap, 1, 0, 0, 0, -1, 0);
	call(SYS_munmap, 1, 0, 0, 0, 0, 0);
	call(SYS_openat, -1, (long)"", 0, 0, 0, 0);
	call(SYS_readlinkat, -1, (long)"", 0, 0, 0, 0);
	call(SYS_fcntl, -1, F_GETFD, 0, 0, 0, 0);
	call(SYS_statx, -1, (long)"", 0, 0, 0, 0);
	call(SYS_name_to_handle_at, -1, (long)"", 0, 0, 0, 0);
	call(SYS_statmount, 0, 0, 0, 0, 0, 0);
	call(SYS_read, -1, 0, 0, 0, 0, 0);
	call(SYS_write, -1, 0, 0, 0, 0, 0);
	call(SYS_pread64, -1, 0, 0, 0, 0, 0);
	call(SYS_ioctl, -1, (long)PAGEMAP_SCAN, 0, 0, 0, 0);
	call(SYS_ioctl, -1, (long)PROCMAP_QUERY, 0, 0, 0, 0);
	for (i = 0; i < sizeof(advice); i++)
		call(SYS_madvise, 0, 0, advice[i], 0, 0, 0);
	call(SYS_close, -1, 0, 0, 0, 0, 0);
	return 0;
}

/*
 * A filter may kill the process for a call. So a child makes each call first. It shares the
 * memory of the program, which is not copied, and the caller waits until the child has ended.
 * The child sends no signal when it ends. It must not dump core: that would write the memory of
 * the program, and before Linux 5.16 would kill all that share it. So the memory is made not
 * dumpable until the child has ended.
 */
static bool permit_probe(void)
{
	/* permit_try() needs little, and a filter may refuse memory for a larger stack. */
	char stack[PERMIT_STACK] __attribute__((aligned(16)));
	int status = -1;
	long dumpable = call(SYS_prctl, PR_GET_DUMPABLE, 0, 0, 0, 0, 0), child;

	if (dumpable == 1 && call(SYS_prctl, PR_SET_DUMPABLE, 0, 0, 0, 0, 0) < 0)
		return false;
	child = thread_clone(CLONE_VM | CLONE_VFORK, stack + sizeof(stack), NULL, NULL, permit_try);
	if (child > 0)
		call(SYS_wait4, child, (long)&status, 1u << 30 /* __WALL */, 0, 0, 0);
	if (dumpable == 1)
		call(SYS_prctl, PR_SET_DUMPABLE, 1, 0, 0, 0, 0);
	return child > 0 && status == 0;
}

bool permit_calls(void)
{
	static int answer; /* 0 = not known; -1 = no */

	if (!answer && call(SYS_prctl, PR_GET_SECCOMP, 0, 0, 0, 0, 0) == 0)
		return true;
	if (!answer)
		answer = permit_probe() ? 1 : -1;
	return answer > 0;
}

/* --- descriptors --- */

/* Returns the type of the file system, without a call into the file system; 0 = not known. */
static uint64_t permit_type(int fd)
{
	struct {
		uint32_t bytes;
		int type;
	} handle = {};
	struct {
		uint32_t size, spare;
		uint64_t id, param;
	} request = { .size = sizeof(request), .param = 1 /* STATMOUNT_SB_BASIC */ };
	struct {
		uint32_t size, options;
		uint64_t mask;
		uint32_t major, minor;
		uint64_t magic;
		char rest[512];
	} mount = {};

	if (call(SYS_name_to_handle_at, fd, (long)"", (long)&handle, (long)&request.id,
		 AT_EMPTY_PATH | AT_HANDLE_FID | AT_HANDLE_MNT_ID_UNIQUE, 0) != -EOVERFLOW ||
	    call(SYS_statmount, (long)&request, (long)&mount, sizeof(mount), 0, 0, 0))
		return 0;
	/* fuseblk has a block device, too. */
	return mount.major && mount.magic != FUSE_SUPER_MAGIC ? EXT4_SUPER_MAGIC : mount.magic;
}

/* NFS, CIFS and FUSE answer this without a request to the server. */
static bool permit_stat(int fd, struct statx *st)
{
	return call(SYS_statx, fd, (long)"", AT_EMPTY_PATH | AT_STATX_DONT_SYNC,
		    STATX_TYPE | STATX_BTIME, (long)st, 0) == 0;
}

/* A close() of an amdgpu device waits for the GPU. */
static bool permit_device(const struct statx *st)
{
	return st->stx_rdev_major != PERMIT_DRM_MAJOR;
}

/*
 * Before Linux 6.12, and under filters, the type is not known. Then the time of birth
 * distinguishes a file system on a disk from fuseblk.
 */
static bool permit_by_stat(const struct statx *st)
{
	if (S_ISCHR(st->stx_mode))
		return permit_device(st);
	if (!S_ISREG(st->stx_mode) && !S_ISDIR(st->stx_mode))
		return true;
	return st->stx_dev_major && st->stx_mask & STATX_BTIME;
}

static bool permit_descriptor(int fd)
{
	char link[32], name[16];
	struct statx st;
	struct say say;
	long n;

	if (call(SYS_fcntl, fd, F_GETFD, 0, 0, 0, 0) == -EBADF)
		return true;
	/* Only files in memory have seals, and these have no mount. */
	if (call(SYS_fcntl, fd, F_GET_SEALS, 0, 0, 0, 0) >= 0)
		return true;
	say_into(&say, link, sizeof(link));
	say_text(&say, "/proc/self/fd/");
	say_number(&say, (uint64_t)fd);
	n = call(SYS_readlinkat, AT_FDCWD, (long)link, (long)name, sizeof(name), 0, 0);
	if (n <= 0)
		return false;
	/* "pipe:[1]", "socket:[2]", "anon_inode:[eventpoll]" */
	if (name[0] != '/')
		return true;
	switch (permit_type(fd)) {
	case 0:
		return permit_stat(fd, &st) && permit_by_stat(&st);
	case TMPFS_MAGIC: /* /dev is one, too */
		return permit_stat(fd, &st) && permit_device(&st);
	case EXT4_SUPER_MAGIC:
	case BTRFS_SUPER_MAGIC:
	case OVERLAYFS_SUPER_MAGIC:
	case RAMFS_MAGIC:
	case HUGETLBFS_MAGIC:
	case PROC_SUPER_MAGIC:
	case SYSFS_MAGIC:
	case CGROUP2_SUPER_MAGIC:
	case DEVPTS_SUPER_MAGIC:
		return true;
	default:
		return false;
	}
}

/*
 * close_range(CLOSE_RANGE_UNSHARE) gives the monitor a table of its own that begins with copies of
 * the first 64 descriptors, and closes them. That flushes each file: NFS and CIFS write its dirty
 * pages, and a FUSE server sees a close(). During a slow flush, the copies that are not closed yet
 * keep their pipes and sockets open. So the monitor is not started while such a file is among the
 * first 64 descriptors.
 */
bool permit_descriptors(void)
{
	int fd;

	for (fd = 0; fd < PERMIT_COPIED; fd++)
		if (!permit_descriptor(fd))
			return false;
	return true;
}
