/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The functions that the shim takes the place of, as the program would have had
 * them without it: the next ones in the order of the dynamic linker.
 */
#ifndef SHIM_REAL_H
#define SHIM_REAL_H

#include <aio.h>
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "names.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

struct real_calls {
	__typeof__(mmap) *mmap;
	__typeof__(munmap) *munmap;
	__typeof__(mremap) *mremap;
	__typeof__(mprotect) *mprotect;
	__typeof__(pkey_mprotect) *pkey_mprotect;
	__typeof__(msync) *msync;
	__typeof__(madvise) *madvise;
	__typeof__(posix_madvise) *posix_madvise;
	__typeof__(mincore) *mincore;
	__typeof__(mlock) *mlock;
	__typeof__(mlock2) *mlock2;
	__typeof__(munlock) *munlock;
	__typeof__(mlockall) *mlockall;
	__typeof__(remap_file_pages) *remap_file_pages;
	__typeof__(read) *read;
	__typeof__(write) *write;
	__typeof__(pread) *pread;
	__typeof__(pwrite) *pwrite;
	__typeof__(readv) *readv;
	__typeof__(writev) *writev;
	__typeof__(preadv) *preadv;
	__typeof__(pwritev) *pwritev;
	__typeof__(preadv2) *preadv2;
	__typeof__(pwritev2) *pwritev2;
	__typeof__(lseek) *lseek;
	__typeof__(ftruncate) *ftruncate;
	__typeof__(truncate) *truncate;
	__typeof__(fallocate) *fallocate;
	__typeof__(posix_fallocate) *posix_fallocate;
	__typeof__(posix_fadvise) *posix_fadvise;
	__typeof__(fsync) *fsync;
	__typeof__(fdatasync) *fdatasync;
	__typeof__(sync_file_range) *sync_file_range;
	__typeof__(syncfs) *syncfs;
	__typeof__(sync) *sync;
	__typeof__(sendfile) *sendfile;
	__typeof__(copy_file_range) *copy_file_range;
	__typeof__(splice) *splice;
	__typeof__(send) *send;
	__typeof__(sendto) *sendto;
	__typeof__(sendmsg) *sendmsg;
	__typeof__(sendmmsg) *sendmmsg;
	__typeof__(vmsplice) *vmsplice;
	__typeof__(process_vm_writev) *process_vm_writev;
	__typeof__(ioctl) *ioctl;
	__typeof__(fcntl) *fcntl;
	__typeof__(lockf) *lockf;
	__typeof__(open) *open;
	__typeof__(openat) *openat;
	__typeof__(creat) *creat;
	__typeof__(close) *close;
	__typeof__(close_range) *close_range;
	__typeof__(closefrom) *closefrom;
	__typeof__(dup) *dup;
	__typeof__(dup2) *dup2;
	__typeof__(dup3) *dup3;
	__typeof__(fopen) *fopen;
	__typeof__(fdopen) *fdopen;
	__typeof__(freopen) *freopen;
	__typeof__(fclose) *fclose;
	__typeof__(fwrite) *fwrite;
	__typeof__(fwrite_unlocked) *fwrite_unlocked;
	__typeof__(fputs) *fputs;
	__typeof__(fputs_unlocked) *fputs_unlocked;
	__typeof__(puts) *puts;
	__typeof__(vdprintf) *vdprintf;
	__typeof__(closedir) *closedir;
	__typeof__(vfork) *vfork;
	__typeof__(_Fork) *_Fork;
	__typeof__(clone) *clone;
	__typeof__(posix_spawn) *posix_spawn;
	__typeof__(posix_spawnp) *posix_spawnp;
	__typeof__(system) *system;
	__typeof__(popen) *popen;
	__typeof__(execve) *execve;
	__typeof__(execvpe) *execvpe;
	__typeof__(fexecve) *fexecve;
	__typeof__(aio_read) *aio_read;
	__typeof__(aio_write) *aio_write;
	__typeof__(aio_fsync) *aio_fsync;
	__typeof__(lio_listio) *lio_listio;
	__typeof__(io_setup) *io_setup;
	__typeof__(io_uring_queue_init) *io_uring_queue_init;
	__typeof__(io_uring_queue_init_params) *io_uring_queue_init_params;
	__typeof__(io_uring_queue_init_mem) *io_uring_queue_init_mem;
	__typeof__(syscall) *syscall;
};

/* Filled in before the first use, by real_find(). */
extern struct real_calls real_table;
extern bool real_found;

void real_find(void);

static inline const struct real_calls *real_functions(void)
{
	if (__builtin_expect(!real_found, 0))
		real_find();
	return &real_table;
}

#define real (real_functions())

#endif /* SHIM_REAL_H */
