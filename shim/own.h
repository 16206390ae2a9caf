/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What the engine, and the shim itself, call instead of the C library; see own.c. */
#ifndef SHIM_OWN_H
#define SHIM_OWN_H

#include <stdio.h>
#include <sys/types.h>
#include <sys/uio.h>

int engine_close(int fd);
int engine_open(const char *path, int flags, ...);
int engine_fcntl(int fd, int command, ...);
int engine_eventfd(unsigned int value, int flags);
int engine_inotify_init1(int flags);
int engine_memfd_create(const char *name, unsigned int flags);
int engine_ioctl(int fd, unsigned long request, ...);
long engine_syscall(long number, ...);
void *engine_mmap(void *addr, size_t length, int prot, int flags, int fd, off_t offset);
int engine_munmap(void *addr, size_t length);
int engine_mprotect(void *addr, size_t length, int prot);
int engine_madvise(void *addr, size_t length, int advice);
int engine_msync(void *addr, size_t length, int flags);
int engine_mincore(void *addr, size_t length, unsigned char *present);
ssize_t engine_read(int fd, void *buffer, size_t count);
ssize_t engine_write(int fd, const void *buffer, size_t count);
ssize_t engine_pread(int fd, void *buffer, size_t count, off_t offset);
ssize_t engine_pwrite(int fd, const void *buffer, size_t count, off_t offset);
ssize_t engine_preadv(int fd, const struct iovec *iov, int n, off_t offset);
ssize_t engine_pwritev(int fd, const struct iovec *iov, int n, off_t offset);
off_t engine_lseek(int fd, off_t offset, int whence);
int engine_ftruncate(int fd, off_t length);
int engine_fallocate(int fd, int mode, off_t offset, off_t length);
int engine_fdatasync(int fd);
int engine_dup3(int from, int to, int flags);
FILE *engine_fopen(const char *path, const char *mode);
int engine_fclose(FILE *file);
int engine_closedir(void *dir);
int engine_clone(int (*run)(void *), void *stack, int flags, void *arg, void *ptid, void *tls,
		 void *ctid);

#endif /* SHIM_OWN_H */
