/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Programs that this program starts. */
#ifndef PRELOAD_EXEC_H
#define PRELOAD_EXEC_H

#include <spawn.h>

/* Since glibc 2.39. A program that looks them up with dlsym() finds them here with any glibc. */
int pidfd_spawn(int *fd, const char *path, const posix_spawn_file_actions_t *actions,
		const posix_spawnattr_t *attributes, char *const argv[], char *const envp[]);
int pidfd_spawnp(int *fd, const char *name, const posix_spawn_file_actions_t *actions,
		 const posix_spawnattr_t *attributes, char *const argv[], char *const envp[]);

/*
 * A filter of system calls may be installed soon. From now on, programs are started without
 * this library, because the filter may not allow the system calls that examine a program.
 */
void exec_begin_filter(void);
/* The root directory has changed. If the library is not below it, LD_PRELOAD must not name it. */
void exec_check_root(void);

#endif /* PRELOAD_EXEC_H */
