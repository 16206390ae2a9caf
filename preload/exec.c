// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The functions that start programs. A program that cannot load this library, that starts
 * differently with it, or that has no use for it, is started with an LD_PRELOAD that does not
 * name it.
 *
 * system(3) and popen(3) are not replaced. They start /bin/sh, which loads the library as this
 * program did, and the shell starts its commands by the functions here.
 */
#include "preload.h"

#include <spawn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "environment.h"
#include "exec.h"
#include "next.h"
#include "notice.h"
#include "tally.h"
#include "target.h"

static bool exec_filtered;

void exec_begin_filter(void)
{
	if (!exec_filtered)
		notice(NULL,
		       "limits its system calls: it is not steered any more, and neither are the "
		       "programs that it starts",
		       TALLY_LIMITED);
	exec_filtered = true;
}

/* In a chroot or as another user, the process may not reach the library. */
static bool exec_library_opens(void)
{
	long fd = call(SYS_openat, AT_FDCWD, (long)next_own_path(), O_RDONLY | O_CLOEXEC, 0, 0, 0);

	if (fd < 0)
		return false;
	call(SYS_close, fd, 0, 0, 0, 0, 0);
	return true;
}

void exec_check_root(void)
{
	if (environment_loads(environ) && (exec_filtered || !exec_library_opens()))
		environment_cut(environ);
}

/* Returns whether a program is started without the library. @path may be NULL. */
static bool exec_drops(int dir, const char *path, char *const *environment)
{
	enum target target;
	const char *why;

	if (!environment_loads(environment))
		return false;
	/* A filter may end the process for the system calls of target_check(). */
	if (exec_filtered || !path)
		return true;
	target = target_check(dir, path);
	why = target_reason(target);
	if (why)
		notice(path, why, (unsigned char)target);
	/* Another library may call the functions that this one replaces. */
	if (target == TARGET_UNAFFECTED && environment_loads_others(environment))
		target = TARGET_LOADS;
	return !target_loads(target) || !exec_library_opens();
}

static bool exec_drops_named(const char *name, char *const *environment)
{
	char path[PATH_MAX];

	return environment_loads(environment) &&
	       (exec_filtered ||
		exec_drops(AT_FDCWD, target_find(name, environment_get(environ, "PATH"), path),
			   environment));
}

/* The copy is on the caller's stack: memory that a child of vfork() allocates would leak. */
#define EXEC_ENVIRONMENT(drops, environment)                                                \
	((drops) ? environment_without((environment),                                       \
				       __builtin_alloca(environment_room((environment)))) : \
		   (char **)(environment))

/* Looks up the replaced function once. */
#define EXEC_NEXT(next, name) (*(void **)&(next) = (next) ? (void *)(next) : next_function(#name))

PRELOAD_EXPORT int execveat(int dir, const char *path, char *const argv[], char *const envp[],
			    int flags)
{
	char own[PRELOAD_FD_PATH];
	const char *name = flags & AT_EMPTY_PATH && !*path ? preload_fd_path(own, dir) : path;
	char **environment = EXEC_ENVIRONMENT(exec_drops(dir, name, envp), envp);

	return (int)preload_result(
		call(SYS_execveat, dir, (long)path, (long)argv, (long)environment, flags, 0));
}

PRELOAD_EXPORT int fexecve(int fd, char *const argv[], char *const envp[])
{
	static int (*next)(int fd, char *const argv[], char *const envp[]);
	char own[PRELOAD_FD_PATH];

	EXEC_NEXT(next, fexecve);
	return next(fd, argv,
		    EXEC_ENVIRONMENT(exec_drops(AT_FDCWD, preload_fd_path(own, fd), envp), envp));
}

static int exec_path(const char *path, char *const argv[], char *const envp[])
{
	char **environment = EXEC_ENVIRONMENT(exec_drops(AT_FDCWD, path, envp), envp);

	return (int)preload_result(
		call(SYS_execve, (long)path, (long)argv, (long)environment, 0, 0, 0));
}

static int exec_name(const char *name, char *const argv[], char *const envp[])
{
	static int (*next)(const char *name, char *const argv[], char *const envp[]);

	EXEC_NEXT(next, execvpe);
	return next(name, argv, EXEC_ENVIRONMENT(exec_drops_named(name, envp), envp));
}

PRELOAD_EXPORT int execve(const char *path, char *const argv[], char *const envp[])
{
	return exec_path(path, argv, envp);
}

PRELOAD_EXPORT int execv(const char *path, char *const argv[])
{
	return exec_path(path, argv, environ);
}

PRELOAD_EXPORT int execvpe(const char *name, char *const argv[], char *const envp[])
{
	return exec_name(name, argv, envp);
}

PRELOAD_EXPORT int execvp(const char *name, char *const argv[])
{
	return exec_name(name, argv, environ);
}

/* --- arguments in a list that ends with a null pointer --- */

static size_t exec_room(const char *arg, va_list *args)
{
	size_t n = 1;
	va_list copy;

	va_copy(copy, *args);
	for (; arg; arg = va_arg(copy, const char *))
		n++;
	va_end(copy);
	return n * sizeof(arg);
}

/*
 * Copy the arguments up to the null pointer into @argv. @args then continues behind that pointer.
 */
static char **exec_collect(char **argv, const char *arg, va_list *args)
{
	size_t n = 0;

	argv[0] = (char *)arg;
	while (argv[n])
		argv[++n] = va_arg(*args, char *);
	return argv;
}

PRELOAD_EXPORT int execl(const char *path, const char *arg, ...)
{
	va_list args;
	char **argv;

	va_start(args, arg);
	argv = exec_collect(__builtin_alloca(exec_room(arg, &args)), arg, &args);
	va_end(args);
	return exec_path(path, argv, environ);
}

PRELOAD_EXPORT int execlp(const char *name, const char *arg, ...)
{
	va_list args;
	char **argv;

	va_start(args, arg);
	argv = exec_collect(__builtin_alloca(exec_room(arg, &args)), arg, &args);
	va_end(args);
	return exec_name(name, argv, environ);
}

PRELOAD_EXPORT int execle(const char *path, const char *arg, ...)
{
	char **argv, **environment;
	va_list args;

	va_start(args, arg);
	argv = exec_collect(__builtin_alloca(exec_room(arg, &args)), arg, &args);
	environment = va_arg(args, char **);
	va_end(args);
	return exec_path(path, argv, environment);
}

/* --- in a new process --- */

/* An action of posix_spawn_file_actions_t, as all versions of glibc have it. */
struct exec_action {
	enum {
		EXEC_CLOSE,
		EXEC_DUP2,
		EXEC_OPEN,
		EXEC_CHDIR,
		EXEC_FCHDIR,
		EXEC_CLOSEFROM,
		EXEC_TCSETPGRP,
	} kind;
	uint64_t arguments[3];
};

/* Actions of another C library or of a later glibc are not known: they may do it. */
static bool exec_changes_directory(const posix_spawn_file_actions_t *actions)
{
	const struct exec_action *action = actions ? (const void *)actions->__actions : NULL;
	int i;

	if (!action)
		return false;
	for (i = 0; i < actions->__used; i++)
		if (action[i].kind == EXEC_CHDIR || action[i].kind == EXEC_FCHDIR ||
		    action[i].kind > EXEC_TCSETPGRP)
			return true;
	return !next_is_glibc();
}

/* Returns whether the directory decides about the program. @searched: in PATH. */
static bool exec_is_relative(const char *file, bool searched)
{
	const char *path = environment_get(environ, "PATH");

	if (!searched || strchr(file, '/'))
		return *file != '/';
	while (path && *path == '/') {
		path = strchr(path, ':');
		path = path ? path + 1 : NULL;
	}
	return path;
}

/* The program of a relative path in a directory that the child changes to is not checked. */
static bool exec_spawn_drops(const posix_spawn_file_actions_t *actions, const char *file,
			     bool searched, char *const *environment)
{
	if (exec_changes_directory(actions) && exec_is_relative(file, searched))
		return environment_loads(environment);
	return searched ? exec_drops_named(file, environment) :
			  exec_drops(AT_FDCWD, file, environment);
}

#define EXEC_SPAWN(name, id_type, searched)                                              \
	PRELOAD_EXPORT int name(id_type id, const char *file,                            \
				const posix_spawn_file_actions_t *actions,               \
				const posix_spawnattr_t *attributes, char *const argv[], \
				char *const envp[])                                      \
	{                                                                                \
		static __typeof(&name) next_##name;                                      \
		bool drops = exec_spawn_drops(actions, file, searched, envp);            \
                                                                                         \
		EXEC_NEXT(next_##name, name);                                            \
		return next_##name ? next_##name(id, file, actions, attributes, argv,    \
						 EXEC_ENVIRONMENT(drops, envp)) :        \
				     ENOSYS;                                             \
	}

EXEC_SPAWN(posix_spawn, pid_t *, false)
EXEC_SPAWN(posix_spawnp, pid_t *, true)
EXEC_SPAWN(pidfd_spawn, int *, false)
EXEC_SPAWN(pidfd_spawnp, int *, true)
