/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The pool engine's only door to Linux: every system call that it makes, by its own name
 * and with the kernel's way to answer: a negative errno, and errno is left alone. linux.c
 * is the real thing; tests/user/sim/ has a simulated one. Beside it there are io.h's
 * backend for io_uring, which has the same two, and POSIX threads.
 */
#ifndef HM_LINUX_H
#define HM_LINUX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Debian 12's headers have it, not all. */
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

struct pollfd;
struct stat;
struct statx;

/* --- files; their descriptors are closed on exec(), and none is 0, 1 or 2 ----------- */
int sys_open(const char *path, int flags);
void sys_close(int fd);
int sys_replace(int fd, int by); /* fd is what by is, from now on */
ssize_t sys_read(int fd, void *buffer, size_t count);
ssize_t sys_write(int fd, const void *buffer, size_t count);
ssize_t sys_pread(int fd, void *buffer, size_t count, uint64_t offset);
ssize_t sys_pwrite(int fd, const void *buffer, size_t count, uint64_t offset);
int64_t sys_lseek(int fd, uint64_t offset, int whence);
int sys_fstat(int fd, struct stat *st);
int sys_statx(int fd, unsigned int mask, struct statx *stx);
int sys_fcntl(int fd, int command, void *arg);
int sys_ioctl(int fd, unsigned long request, void *arg);
int sys_ftruncate(int fd, uint64_t size);
int sys_fallocate(int fd, int mode, uint64_t offset, uint64_t length);
int sys_fdatasync(int fd);
int sys_memfd_create(const char *name);

/* --- memory ------------------------------------------------------------------------ */
void *sys_mmap(void *at, size_t length, int prot, int flags, int fd, uint64_t offset);
int sys_munmap(void *at, size_t length);
int sys_madvise(void *at, size_t length, int advice);
int sys_mprotect(void *at, size_t length, int prot);
int sys_munlock(const void *at, size_t length);
int sys_mincore(void *at, size_t length, unsigned char *present);

/* What sys_mmap() returned: 0 if it is an address, else the negative errno. */
static inline int sys_error(const void *at)
{
	return (uintptr_t)at >= (uintptr_t)-4095 ? (int)(intptr_t)at : 0;
}

/* --- events, time ------------------------------------------------------------------ */
int sys_userfaultfd(int flags);
int sys_eventfd(void); /* does not block */
int sys_poll(struct pollfd *fds, unsigned int n, int timeout_ms);
uint64_t sys_clock_ns(void); /* CLOCK_MONOTONIC */
void sys_sleep_ns(uint32_t ns);
void sys_yield(void);

/* --- the machine and this process -------------------------------------------------- */
int sys_pid(void);
unsigned int sys_cpus(void);
uint64_t sys_memory_available(void); /* bytes that can be taken without harm to others */

#endif /* HM_LINUX_H */
