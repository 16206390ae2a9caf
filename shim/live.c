// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Calls on descriptors of LIVE files hold shim_lock for reading; others pass. */
#include "live.h"

#include <errno.h>
#include <fcntl.h>

/* False: it is not LIVE after all, or not open. */
bool live_begin(struct live *live, int fd)
{
	shim_enter(&live->section);
	pthread_rwlock_rdlock(&shim_lock);
	live->fd = fd;
	live->mode = real->fcntl(fd, F_GETFL);
	live->file = file_of_fd(fd);
	if (live->file && live->file->kind == FILE_LIVE && live->mode >= 0 &&
	    !(live->mode & O_PATH))
		return true;
	pthread_rwlock_unlock(&shim_lock);
	shim_leave(&live->section);
	return false;
}

/* A negative errno, or a result. */
ssize_t live_end(struct live *live, ssize_t result)
{
	pthread_rwlock_unlock(&shim_lock);
	if (result < 0)
		live->section.saved_errno = (int)-result;
	shim_leave(&live->section);
	return result < 0 ? -1 : result;
}

/*
 * May a call write? Otherwise the kernel's own call gives the error. Files grow
 * by the kernel's rules too: limits and signals are its business.
 */
bool live_can(const struct live *live, int access)
{
	int mode = live->mode & O_ACCMODE;

	return mode == O_RDWR || mode == access;
}

/*
 * Begin a call that writes and is left to the kernel: counted, so that the file
 * cannot become LIVE meanwhile. NULL: it is LIVE, and nothing is counted.
 */
atomic_int *live_begin_passing(int fd)
{
	for (;;) {
		atomic_int *n = shim_pass();

		if (likely(!atomic_load(&shim_live)))
			return n;
		shim_passed(n);
		if (fd_is_live(fd))
			return NULL;
		/* Known now; unless that has changed, it is known when counted too. */
		n = shim_pass();
		if (!fd_is_live(fd))
			return n;
		shim_passed(n);
	}
}
