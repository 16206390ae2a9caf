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

static struct shim_section forking; /* of the thread that holds shim_lock for it */

/*
 * Children that have not executed a program yet, or do not have a memory of their own. A
 * file must not become LIVE meanwhile if that program may get it: nobody would be told.
 */
static atomic_int starting; /* those that may do anything to their descriptors first */
static atomic_int starting_plainly; /* those that pass on what is not close-on-exec */

static void lock_for_child(void)
{
	struct shim_section section;

	shim_enter(&section);
	pthread_rwlock_wrlock(&shim_lock);
	forking = section;
}

/* Registered after the engine's own handler, so this runs before it. */
static void before_fork(void)
{
	aside_live("the program has called fork() with the file open", true);
	lock_for_child();
}

static void after_fork_in_parent(void)
{
	struct shim_section section = forking;

	pthread_rwlock_unlock(&shim_lock);
	shim_leave(&section);
}

/* And in the child it runs after the engine's. */
static void after_fork_in_child(void)
{
	aside_in_child();
	shim_lock_child();
	shim_leave(&forking);
}

/* Also while there is no engine, whose handlers have a lock held: it may be made now. */
static void fork_begins(void)
{
	atomic_fetch_add(&starting, 1);
}

static void fork_ends(void)
{
	atomic_fetch_sub(&starting, 1);
}

/* The first thing that a child does. */
static void child_begins(void)
{
	shim_pid = getpid();
	atomic_store(&starting, 0);
	atomic_store(&starting_plainly, 0);
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

/* Is there a descriptor, of a file or (NULL) of any LIVE one, that a program would get? */
static bool would_pass_on(const struct stat *st)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *entry;
	bool found = !dir;

	while (!found && (entry = readdir(dir))) {
		int fd = atoi(entry->d_name);

		if (entry->d_name[0] == '.' || own_is(fd))
			continue;
		if (st ? fd_is_of(fd, st) : fd_is_live(fd))
			found = !(real->fcntl(fd, F_GETFD) & FD_CLOEXEC);
	}
	if (dir)
		real->closedir(dir);
	return found;
}

/* Asked when the file is LIVE already, so that whoever starts a child later sees that. */
bool child_may_get(const struct stat *st)
{
	return atomic_load(&starting) || (atomic_load(&starting_plainly) && would_pass_on(st));
}

/* @unseen: it does something to its descriptors that does not come by here. */
static void child_counted(atomic_int *count, bool unseen)
{
	atomic_fetch_add(count, 1);
	if (unlikely(atomic_load(&shim_live)) && (unseen || would_pass_on(NULL)))
		aside_live(CHILD, false);
}

/* @actions: it may do something to its descriptors first. Return: for child_started(). */
static atomic_int *child_starts(bool actions)
{
	atomic_int *count = actions ? &starting : &starting_plainly;

	child_counted(count, actions);
	return count;
}

/* It has executed a program, which has a memory of its own, or has ended. */
static void child_started(atomic_int *count)
{
	atomic_fetch_sub(count, 1);
}

/*
 * vfork() returns twice on one stack, which the child has used in between. So where to
 * return to is kept here, once for each child that has a child by vfork() itself.
 */
#define VFORKS 8u
static __thread void *vfork_back[VFORKS] __attribute__((tls_model("initial-exec")));
static __thread unsigned int vforks __attribute__((tls_model("initial-exec")));

/* Called by vfork() below. What the child does to its descriptors is seen: dup(), fcntl(). */
__attribute__((used)) void *shim_vfork_begin(void *back)
{
	if (vforks == VFORKS)
		abort();
	child_counted(&starting, false);
	vfork_back[vforks++] = back;
	return (void *)real->vfork;
}

__attribute__((used)) void *shim_vfork_end(int pid)
{
	if (!pid)
		return vfork_back[vforks - 1];
	child_started(&starting);
	return vfork_back[--vforks];
}

#if defined(__x86_64__)
__asm__(".text\n"
	".globl vfork\n"
	".type vfork, @function\n"
	"vfork:\n"
	"	pop %rdi\n"
	"	call shim_vfork_begin\n"
	"	call *%rax\n"
	"	push %rax\n"
	"	sub $8, %rsp\n"
	"	mov %eax, %edi\n"
	"	call shim_vfork_end\n"
	"	mov %rax, %rdx\n"
	"	add $8, %rsp\n"
	"	pop %rax\n"
	"	push %rdx\n"
	"	ret\n"
	".size vfork, .-vfork\n"
	".globl __vfork\n"
	".set __vfork, vfork\n");
#elif defined(__aarch64__)
__asm__(".text\n"
	".globl vfork\n"
	".type vfork, %function\n"
	"vfork:\n"
	"	mov x0, x30\n"
	"	bl shim_vfork_begin\n"
	"	blr x0\n"
	"	str x0, [sp, #-16]!\n"
	"	bl shim_vfork_end\n"
	"	mov x30, x0\n"
	"	ldr x0, [sp], #16\n"
	"	ret\n"
	".size vfork, .-vfork\n"
	".globl __vfork\n"
	".set __vfork, vfork\n");
#endif

SHIM_EXPORT int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
			    const posix_spawnattr_t *attr, char *const argv[], char *const env[])
{
	atomic_int *count = child_starts(actions);
	int err = real->posix_spawn(pid, path, actions, attr, argv, env);

	child_started(count);
	return err;
}

SHIM_EXPORT int posix_spawnp(pid_t *pid, const char *file,
			     const posix_spawn_file_actions_t *actions,
			     const posix_spawnattr_t *attr, char *const argv[], char *const env[])
{
	atomic_int *count = child_starts(actions);
	int err = real->posix_spawnp(pid, file, actions, attr, argv, env);

	child_started(count);
	return err;
}

SHIM_EXPORT int system(const char *command)
{
	atomic_int *count = child_starts(false);
	int status = real->system(command);

	child_started(count);
	return status;
}

SHIM_EXPORT FILE *popen(const char *command, const char *mode)
{
	atomic_int *count = child_starts(false);
	FILE *file = real->popen(command, mode);
	int saved = errno;

	child_started(count);
	if (file)
		fd_forget(fileno(file));
	errno = saved;
	return file;
}

/* --- clone, _Fork --- */

/*
 * A child with a copy of our memory, without fork handlers, which are the engine's
 * too. So nothing of the engine may be there: all files step down.
 */
static void copy_begins(const char *why)
{
	lock_for_child();
	heap_aside();
	aside_range(NULL, (char *)UINTPTR_MAX, why);
}

static void copy_made(void)
{
	forking.saved_errno = errno;
	after_fork_in_parent();
}

static void copy_in_child(void)
{
	child_begins();
	after_fork_in_child();
}

SHIM_EXPORT pid_t _Fork(void)
{
	pid_t pid;

	copy_begins("the program has called _Fork()");
	pid = real->_Fork();
	if (pid)
		copy_made();
	else
		copy_in_child();
	return pid;
}

struct start {
	int (*run)(void *arg);
	void *arg;
};

static int run_in_child(void *arg)
{
	struct start start = *(struct start *)arg;

	copy_in_child();
	return start.run(start.arg);
}

static int clone_copy(struct start *start, void *stack, int flags, void *ptid, void *tls,
		      void *ctid)
{
	int pid;

	copy_begins("the program has called clone()");
	pid = real->clone(run_in_child, stack, flags, start, ptid, tls, ctid);
	copy_made();
	return pid;
}

SHIM_EXPORT int clone(int (*run)(void *arg), void *stack, int flags, void *arg, ...)
{
	void *ptid, *tls, *ctid;
	struct start start = { run, arg };
	atomic_int *count;
	va_list args;
	int pid;

	va_start(args, arg);
	ptid = va_arg(args, void *);
	tls = va_arg(args, void *);
	ctid = va_arg(args, void *);
	va_end(args);
	if (!(flags & CLONE_VM) && run && stack)
		return clone_copy(&start, stack, flags, ptid, tls, ctid);
	if (flags & CLONE_THREAD)
		return real->clone(run, stack, flags, arg, ptid, tls, ctid);
	/* Without CLONE_VFORK it shares our memory for longer: see others_use(). */
	count = child_starts(true);
	pid = real->clone(run, stack, flags, arg, ptid, tls, ctid);
	child_started(count);
	return pid;
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
	case SYS_clone3:
		/* Whatever the child may be: nothing of the engine is there. */
		copy_begins("the program makes processes by number");
		after_fork_in_parent();
		break;
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
	pthread_atfork(fork_begins, fork_ends, child_begins);
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
