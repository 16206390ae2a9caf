// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* The functions before which the monitor thread must have ended, and chroot(2). */
#include "process.h"

#include <grp.h>
#include <sched.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "exec.h"
#include "next.h"
#include "preload.h"
#include "report.h"
#include "settings.h"
#include "steer.h"

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x00000080
#endif

PRELOAD_EXPORT int unshare(int flags)
{
	bool alone = settings.on &&
		     flags & (CLONE_NEWUSER | CLONE_VM | CLONE_THREAD | CLONE_SIGHAND);
	long result;

	if (alone)
		steer_alone();
	result = call(SYS_unshare, flags, 0, 0, 0, 0, 0);
	if (alone)
		steer_alone_end();
	return (int)preload_result(result);
}

/* With type 0, any kind of name space descriptor is accepted. */
PRELOAD_EXPORT int setns(int fd, int type)
{
	bool alone = settings.on && (!type || type & (CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWTIME));
	long result;

	if (alone)
		steer_alone();
	result = call(SYS_setns, fd, type, 0, 0, 0, 0);
	if (alone)
		steer_alone_end();
	return (int)preload_result(result);
}

void process_begin_filter(void)
{
	exec_begin_filter();
	if (!settings.on)
		return;
	steer_never();
	report_print();
	/* The filter may not allow the system calls that count a program. */
	settings.tally[0] = '\0';
}

PRELOAD_EXPORT int prctl(int option, ...)
{
	long arg[4];
	va_list args;
	int i;

	va_start(args, option);
	for (i = 0; i < 4; i++)
		arg[i] = va_arg(args, long);
	va_end(args);
	if (option == PR_SET_NO_NEW_PRIVS || option == PR_SET_SECCOMP)
		process_begin_filter();
	return (int)preload_result(call(SYS_prctl, option, arg[0], arg[1], arg[2], arg[3], 0));
}

/*
 * The C library changes the user of each thread that it knows. It does not know the monitor
 * thread, so the monitor thread ends first. The next large mapping starts it again, with the
 * new user.
 */
#define PROCESS_USER_CALL(name, parameters, arguments)                 \
	PRELOAD_EXPORT int name parameters                             \
	{                                                              \
		static int(*next_##name) parameters;                   \
		int result;                                            \
                                                                       \
		if (!next_##name)                                      \
			*(void **)&next_##name = next_function(#name); \
		if (!settings.on)                                      \
			return next_##name arguments;                  \
		steer_alone();                                         \
		result = next_##name arguments;                        \
		steer_alone_end();                                     \
		return result;                                         \
	}

PROCESS_USER_CALL(setuid, (uid_t uid), (uid))
PROCESS_USER_CALL(setgid, (gid_t gid), (gid))
PROCESS_USER_CALL(seteuid, (uid_t uid), (uid))
PROCESS_USER_CALL(setegid, (gid_t gid), (gid))
PROCESS_USER_CALL(setreuid, (uid_t real, uid_t effective), (real, effective))
PROCESS_USER_CALL(setregid, (gid_t real, gid_t effective), (real, effective))
PROCESS_USER_CALL(setresuid, (uid_t real, uid_t effective, uid_t saved), (real, effective, saved))
PROCESS_USER_CALL(setresgid, (gid_t real, gid_t effective, gid_t saved), (real, effective, saved))
PROCESS_USER_CALL(setgroups, (size_t n, const gid_t *groups), (n, groups))
PROCESS_USER_CALL(initgroups, (const char *user, gid_t group), (user, group))

PRELOAD_EXPORT int chroot(const char *path)
{
	long result = call(SYS_chroot, (long)path, 0, 0, 0, 0, 0);

	if (!result)
		exec_check_root();
	return (int)preload_result(result);
}
