/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Functions that are taken over and that no header declares for us. */
#ifndef SHIM_NAMES_H
#define SHIM_NAMES_H

#include <sys/types.h>

/* Those of programs that were built with checks for buffers. */
_Noreturn void __chk_fail(void);
ssize_t __read_chk(int fd, void *buffer, size_t count, size_t room);
ssize_t __pread_chk(int fd, void *buffer, size_t count, off_t offset, size_t room);
ssize_t __pread64_chk(int fd, void *buffer, size_t count, off_t offset, size_t room);
int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __openat_2(int dirfd, const char *path, int flags);
int __openat64_2(int dirfd, const char *path, int flags);

/* Older names. */
ssize_t __read(int fd, void *buffer, size_t count);
ssize_t __write(int fd, const void *buffer, size_t count);
ssize_t __pread64(int fd, void *buffer, size_t count, off_t offset);
ssize_t __pwrite64(int fd, const void *buffer, size_t count, off_t offset);
int __close(int fd);

pid_t _Fork(void); /* since glibc 2.34 */

/* As libaio and liburing declare them. */
int io_setup(int n, void *context);
int io_uring_queue_init(unsigned int entries, void *ring, unsigned int flags);
int io_uring_queue_init_params(unsigned int entries, void *ring, void *params);
int io_uring_queue_init_mem(unsigned int entries, void *ring, void *params, void *memory,
			    size_t length);

/* Called by vfork(), which is not C. */
void *shim_vfork_begin(void *back);
void *shim_vfork_end(int pid);

#endif /* SHIM_NAMES_H */
