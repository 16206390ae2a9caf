// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Processes: fork, other ways to get a child, and other programs.
 *
 * After fork() the child has the program's descriptors, so LIVE files step down
 * before it. SETTLED ones stay with the parent, whom their leases still warn.
 * A child by vfork() or posix_spawn() uses our memory until it executes another
 * program: what matters is which descriptors that program gets.
 */
#include "shim.h"
#include "gather.h"
#include "names.h"
#include "own.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>

#define CHILD "a child of the program has the file open"

/* --- fork --- */

static struct shim_section forking;

/* Registered after the engine's own handler, so this runs before it. */
static void before_fork(void)
{
	aside_live("the program has called fork() with the file open", true);
	shim_enter(&forking);
	pthread_rwlock_wrlock(&shim_lock);
}

static void after_fork_in_parent(void)
{
	pthread_rwlock_unlock(&shim_lock);
	shim_leave(&forking);
}

/* And in the child it runs after the engine's. */
static void after_fork_in_child(void)
{
	aside_in_child();
	shim_lock_child();
	shim_leave(&forking);
}

/* The first thing that a child does. */
static void child_begins(void)
{
	shim_pid = getpid();
	own_child();
	report_child();
	decide_child();
}

/* When the engine has its handlers; it keeps them in children. */
void fork_take_over(void)
{
	static bool done;

	if (!done)
		pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
	done = true;
}

/* --- children that share our memory until they execute a program --- */

/* Is there a descriptor of a LIVE file that another program would get? */
static bool would_pass_on(void)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *entry;
	bool found = !dir;

	while (!found && (entry = readdir(dir))) {
		int fd = atoi(entry->d_name);

		if (entry->d_name[0] == '.' || own_is(fd) || !fd_is_live(fd))
			continue;
		found = !(real->fcntl(fd, F_GETFD) & FD_CLOEXEC);
	}
	if (dir)
		real->closedir(dir);
	return found;
}

/* @actions: it will do something to its descriptors first. */
static void before_child(bool actions)
{
	if (unlikely(atomic_load(&shim_live)) && (actions || would_pass_on()))
		aside_live(CHILD, false);
}

/* Called by vfork() below, which must leave no frame of its own. */
__attribute__((used)) void shim_before_vfork(void)
{
	before_child(false);
}

__attribute__((used)) void *shim_real_vfork(void)
{
	return (void *)real->vfork;
}

#if defined(__x86_64__)
__asm__(".text\n"
	".globl vfork\n"
	".type vfork, @function\n"
	"vfork:\n"
	"	sub $8, %rsp\n"
	"	call shim_before_vfork\n"
	"	call shim_real_vfork\n"
	"	add $8, %rsp\n"
	"	jmp *%rax\n"
	".size vfork, .-vfork\n"
	".globl __vfork\n"
	".set __vfork, vfork\n");
#elif defined(__aarch64__)
__asm__(".text\n"
	".globl vfork\n"
	".type vfork, %function\n"
	"vfork:\n"
	"	stp x29, x30, [sp, #-16]!\n"
	"	bl shim_before_vfork\n"
	"	bl shim_real_vfork\n"
	"	ldp x29, x30, [sp], #16\n"
	"	br x0\n"
	".size vfork, .-vfork\n"
	".globl __vfork\n"
	".set __vfork, vfork\n");
#endif

SHIM_EXPORT int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
			    const posix_spawnattr_t *attr, char *const argv[], char *const env[])
{
	before_child(actions);
	return real->posix_spawn(pid, path, actions, attr, argv, env);
}

SHIM_EXPORT int posix_spawnp(pid_t *pid, const char *file,
			     const posix_spawn_file_actions_t *actions,
			     const posix_spawnattr_t *attr, char *const argv[], char *const env[])
{
	before_child(actions);
	return real->posix_spawnp(pid, file, actions, attr, argv, env);
}

SHIM_EXPORT int system(const char *command)
{
	before_child(false);
	return real->system(command);
}

SHIM_EXPORT FILE *popen(const char *command, const char *mode)
{
	FILE *file;

	before_child(false);
	file = real->popen(command, mode);
	if (file)
		fd_forget(fileno(file));
	return file;
}

/* --- clone --- */

struct start {
	int (*run)(void *arg);
	void *arg;
};

/* In a copy of our memory: as after fork(). */
static int run_in_child(void *arg)
{
	struct start start = *(struct start *)arg;

	child_begins();
	aside_in_child();
	shim_lock_child();
	shim_leave(&forking);
	return start.run(start.arg);
}

/*
 * The engine's fork handlers do not run for clone(), so nothing of the engine
 * may be there: all files step down.
 */
static int clone_copy(struct start *start, void *stack, int flags, void *ptid, void *tls,
		      void *ctid)
{
	int pid;

	shim_enter(&forking);
	pthread_rwlock_wrlock(&shim_lock);
	heap_aside();
	aside_range(NULL, (char *)UINTPTR_MAX, "the program has called clone()");
	pid = real->clone(run_in_child, stack, flags, start, ptid, tls, ctid);
	forking.saved_errno = errno;
	pthread_rwlock_unlock(&shim_lock);
	shim_leave(&forking);
	return pid;
}

SHIM_EXPORT int clone(int (*run)(void *arg), void *stack, int flags, void *arg, ...)
{
	void *ptid, *tls, *ctid;
	struct start start = { run, arg };
	va_list args;

	va_start(args, arg);
	ptid = va_arg(args, void *);
	tls = va_arg(args, void *);
	ctid = va_arg(args, void *);
	va_end(args);
	if (!(flags & CLONE_VM) && run && stack)
		return clone_copy(&start, stack, flags, ptid, tls, ctid);
	if (!(flags & CLONE_THREAD))
		before_child(true);
	return real->clone(run, stack, flags, arg, ptid, tls, ctid);
}

/* --- other programs --- */

/* What was stored is in the files before another program begins. */
static void before_exec(void)
{
	struct shim_section section;
	struct map *map;

	if (!atomic_load(&shim_live) || getpid() != shim_pid)
		return;
	shim_enter(&section);
	pthread_rwlock_rdlock(&shim_lock);
	for (map = shim_maps; map; map = map->next)
		if (map->file && map->file->kind == FILE_LIVE && !map->file->heap)
			hugemap_flush(map->fd, 0, 0);
	pthread_rwlock_unlock(&shim_lock);
	shim_leave(&section);
}

SHIM_EXPORT int execve(const char *path, char *const argv[], char *const env[])
{
	before_exec();
	return real->execve(path, argv, env);
}

SHIM_EXPORT int execv(const char *path, char *const argv[])
{
	return execve(path, argv, environ);
}

SHIM_EXPORT int execvpe(const char *file, char *const argv[], char *const env[])
{
	before_exec();
	return real->execvpe(file, argv, env);
}

SHIM_EXPORT int execvp(const char *file, char *const argv[])
{
	return execvpe(file, argv, environ);
}

SHIM_EXPORT int fexecve(int fd, char *const argv[], char *const env[])
{
	before_exec();
	return real->fexecve(fd, argv, env);
}

#define MAX_ARGUMENTS 4096

/* The arguments that a call has as a list; the environment follows it in execle(). */
static int list(const char *first, va_list args, char **argv)
{
	int n = 0;

	argv[n++] = (char *)first;
	while (argv[n - 1]) {
		if (n == MAX_ARGUMENTS) {
			errno = E2BIG;
			return -1;
		}
		argv[n++] = va_arg(args, char *);
	}
	return 0;
}

SHIM_EXPORT int execl(const char *path, const char *arg, ...)
{
	char *argv[MAX_ARGUMENTS];
	va_list args;
	int err;

	va_start(args, arg);
	err = list(arg, args, argv);
	va_end(args);
	return err ? err : execve(path, argv, environ);
}

SHIM_EXPORT int execlp(const char *file, const char *arg, ...)
{
	char *argv[MAX_ARGUMENTS];
	va_list args;
	int err;

	va_start(args, arg);
	err = list(arg, args, argv);
	va_end(args);
	return err ? err : execvpe(file, argv, environ);
}

SHIM_EXPORT int execle(const char *path, const char *arg, ...)
{
	char *argv[MAX_ARGUMENTS], **env;
	va_list args;
	int err;

	va_start(args, arg);
	err = list(arg, args, argv);
	env = va_arg(args, char **);
	va_end(args);
	return err ? err : execve(path, argv, env);
}

/* --- system calls by number --- */

SHIM_EXPORT long syscall(long number, ...)
{
	long a[6], result;
	va_list args;
	int i;

	va_start(args, number);
	for (i = 0; i < 6; i++)
		a[i] = va_arg(args, long);
	va_end(args);
	if (gather_on() && gather_by_number(number, a, &result))
		return result;
	switch (number) {
	case SYS_mmap:
		return (long)mmap((void *)a[0], (size_t)a[1], (int)a[2], (int)a[3], (int)a[4],
				  a[5]);
	case SYS_munmap:
		return munmap((void *)a[0], (size_t)a[1]);
	case SYS_mremap:
		return (long)mremap((void *)a[0], (size_t)a[1], (size_t)a[2], (int)a[3],
				    (void *)a[4]);
	case SYS_mprotect:
		return mprotect((void *)a[0], (size_t)a[1], (int)a[2]);
	case SYS_msync:
		return msync((void *)a[0], (size_t)a[1], (int)a[2]);
	case SYS_madvise:
		return madvise((void *)a[0], (size_t)a[1], (int)a[2]);
	case SYS_mlock:
		return mlock((void *)a[0], (size_t)a[1]);
	case SYS_mlock2:
		return mlock2((void *)a[0], (size_t)a[1], (unsigned int)a[2]);
	case SYS_mlockall:
		return mlockall((int)a[0]);
	case SYS_read:
		return read((int)a[0], (void *)a[1], (size_t)a[2]);
	case SYS_write:
		return write((int)a[0], (void *)a[1], (size_t)a[2]);
	case SYS_pread64:
		return pread((int)a[0], (void *)a[1], (size_t)a[2], a[3]);
	case SYS_pwrite64:
		return pwrite((int)a[0], (void *)a[1], (size_t)a[2], a[3]);
	case SYS_readv:
		return readv((int)a[0], (void *)a[1], (int)a[2]);
	case SYS_writev:
		return writev((int)a[0], (void *)a[1], (int)a[2]);
	case SYS_ftruncate:
		return ftruncate((int)a[0], a[1]);
	case SYS_fallocate:
		return fallocate((int)a[0], (int)a[1], a[2], a[3]);
	case SYS_fsync:
		return fsync((int)a[0]);
	case SYS_fdatasync:
		return fdatasync((int)a[0]);
	case SYS_close:
		return close((int)a[0]);
	case SYS_dup:
		return dup((int)a[0]);
	case SYS_dup3:
		return dup3((int)a[0], (int)a[1], (int)a[2]);
	case SYS_sendfile:
		return sendfile((int)a[0], (int)a[1], (off_t *)a[2], (size_t)a[3]);
	case SYS_copy_file_range:
		return copy_file_range((int)a[0], (off_t *)a[1], (int)a[2], (off_t *)a[3],
				       (size_t)a[4], (unsigned int)a[5]);
	case SYS_openat:
		return openat((int)a[0], (char *)a[1], (int)a[2], (mode_t)a[3]);
	case SYS_execve:
		return execve((char *)a[0], (char **)a[1], (char **)a[2]);
	case SYS_preadv:
	case SYS_preadv2:
	case SYS_pwritev:
	case SYS_pwritev2:
	case SYS_splice:
		aside_fd((int)a[0], "the program makes system calls by number");
		aside_fd((int)a[2], "the program makes system calls by number");
		break;
	case SYS_io_uring_setup:
		unseen_io("the program uses io_uring, which is not seen");
		break;
	case SYS_io_setup:
		unseen_io("the program uses aio, which is not seen");
		break;
	case SYS_clone:
#ifdef SYS_fork
	case SYS_fork:
#endif
	case SYS_clone3: {
		/* Whatever the child may be: nothing of the engine is there. */
		struct shim_section section;

		shim_enter(&section);
		pthread_rwlock_wrlock(&shim_lock);
		heap_aside();
		aside_range(NULL, (char *)UINTPTR_MAX, "the program makes processes by number");
		pthread_rwlock_unlock(&shim_lock);
		shim_leave(&section);
		break;
	}
	}
	return real->syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* --- the beginning and the end --- */

__attribute__((constructor)) static void begin(void)
{
	real_find();
	config_read();
	shim_pid = getpid();
	if (shim_config.off)
		return;
	pthread_atfork(NULL, NULL, child_begins);
	if (shim_config.verbose || shim_config.summary)
		report_open();
}

__attribute__((destructor)) static void end(void)
{
	report_at_exit();
}

SHIM_EXPORT _Noreturn void _exit(int status)
{
	report_at_exit();
	real->syscall(SYS_exit_group, status);
	__builtin_unreachable();
}

SHIM_EXPORT _Noreturn void _Exit(int status) __attribute__((alias("_exit")));
