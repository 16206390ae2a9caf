// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The functions of the C library that are replaced: those that make, move, end and advise
 * mappings, and those before which the monitor thread must have ended.
 */
#include "preload.h"

#include <dlfcn.h>
#include <grp.h>
#include <sched.h>
#include <stdarg.h>
#include <sys/prctl.h>

#include "steer.h"

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x00000080
#endif

const char hugemap_run_version[] = HUGEMAP_VERSION_STRING;

const struct steer_page *hugemap_run_page(void)
{
	return steer_page();
}

SHIM_EXPORT void *mmap(void *addr, size_t length, int prot, int flags, int fd, off_t offset)
{
	void *at;

	if (!preload.on)
		return raw_mmap(addr, length, prot, flags, fd, offset);
	if (flags & MAP_FIXED)
		steer_unmapping(addr, length);
	at = raw_mmap(addr, length, prot, flags, fd, offset);
	if (at != MAP_FAILED && !(flags & MAP_ANONYMOUS) && length >= preload.least &&
	    config_wants(fd))
		steer_mapped(at, length, prot, flags, fd, offset);
	return at;
}

SHIM_EXPORT void *mmap64(void *addr, size_t length, int prot, int flags, int fd, off_t offset)
	__attribute__((alias("mmap")));

SHIM_EXPORT int munmap(void *addr, size_t length)
{
	if (preload.on)
		steer_unmapping(addr, length);
	return raw_munmap(addr, length);
}

static void *remap(void *old, size_t old_length, size_t length, int flags, void *new)
{
	intptr_t at = (intptr_t)steer_remap(old, old_length, length, flags, new);

	if (at >= 0 || at < -4095)
		return (void *)at;
	errno = (int)-at;
	return MAP_FAILED;
}

SHIM_EXPORT void *mremap(void *old, size_t old_length, size_t length, int flags, ...)
{
	void *new = NULL, *at;
	va_list args;

	va_start(args, flags);
	if (flags & (MREMAP_FIXED | MREMAP_DONTUNMAP))
		new = va_arg(args, void *);
	va_end(args);
	if (!preload.on)
		return raw_mremap(old, old_length, length, flags, new);
	if (flags & MREMAP_FIXED)
		steer_unmapping(new, length);
	at = remap(old, old_length, length, flags, new);
	if (at != MAP_FAILED)
		steer_moved(old, old_length, at, length);
	return at;
}

static bool is_hint(int advice)
{
	return advice == MADV_NORMAL || advice == MADV_RANDOM || advice == MADV_SEQUENTIAL ||
	       advice == MADV_HUGEPAGE || advice == MADV_NOHUGEPAGE;
}

SHIM_EXPORT int madvise(void *addr, size_t length, int advice)
{
	int result = raw_madvise(addr, length, advice);

	if (!result && preload.on && is_hint(advice))
		steer_hint(addr, length, advice);
	return result;
}

/* As in the C library, the error is the return value, and POSIX_MADV_DONTNEED does nothing. */
SHIM_EXPORT int posix_madvise(void *addr, size_t length, int advice)
{
	int saved = errno, err = 0;

	if (advice != POSIX_MADV_DONTNEED && madvise(addr, length, advice))
		err = errno;
	errno = saved;
	return err;
}

/* --- calls that need a process without the monitor thread --- */

SHIM_EXPORT int unshare(int flags)
{
	if (preload.on && flags & (CLONE_NEWUSER | CLONE_VM | CLONE_THREAD | CLONE_SIGHAND))
		steer_alone();
	return (int)syscall(SYS_unshare, flags);
}

/* With type 0, any kind of name space descriptor is accepted. */
SHIM_EXPORT int setns(int fd, int type)
{
	if (preload.on && (!type || type & (CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWTIME)))
		steer_alone();
	return (int)syscall(SYS_setns, fd, type);
}

/*
 * A seccomp filter may be installed on all threads. It allows the system calls that the
 * program makes, and may kill the process for one that only the monitor thread makes.
 */
SHIM_EXPORT int prctl(int option, ...)
{
	unsigned long arg[4];
	va_list args;
	int i;

	va_start(args, option);
	for (i = 0; i < 4; i++)
		arg[i] = va_arg(args, unsigned long);
	va_end(args);
	if (preload.on && (option == PR_SET_NO_NEW_PRIVS || option == PR_SET_SECCOMP))
		steer_never();
	return (int)syscall(SYS_prctl, option, arg[0], arg[1], arg[2], arg[3]);
}

/*
 * The C library changes the user of each thread that it knows. It does not know the monitor
 * thread, so that ends first. The next large mapping starts it again, with the new user.
 */
static void *next(const char *name)
{
	return dlsym(RTLD_NEXT, name);
}

#define USER_CALL(name, parameters, arguments)                \
	static int(*real_##name) parameters;                  \
	SHIM_EXPORT int name parameters                       \
	{                                                     \
		if (!real_##name)                             \
			*(void **)&real_##name = next(#name); \
		if (preload.on)                               \
			steer_alone();                        \
		return real_##name arguments;                 \
	}

USER_CALL(setuid, (uid_t uid), (uid))
USER_CALL(setgid, (gid_t gid), (gid))
USER_CALL(seteuid, (uid_t uid), (uid))
USER_CALL(setegid, (gid_t gid), (gid))
USER_CALL(setreuid, (uid_t real, uid_t effective), (real, effective))
USER_CALL(setregid, (gid_t real, gid_t effective), (real, effective))
USER_CALL(setresuid, (uid_t real, uid_t effective, uid_t saved), (real, effective, saved))
USER_CALL(setresgid, (gid_t real, gid_t effective, gid_t saved), (real, effective, saved))
USER_CALL(setgroups, (size_t n, const gid_t *groups), (n, groups))
USER_CALL(initgroups, (const char *user, gid_t group), (user, group))
