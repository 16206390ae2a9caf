// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Starts a program by one of the functions of the C library, and ends as it ends.
 *
 *	starter FUNCTION PROGRAM	the program gets the name of the function as its argument;
 *					"setuid" starts no program and exits with 3
 *	starter chroot DIR FUNCTION PROGRAM
 *	starter filter FUNCTION PROGRAM	under a filter that kills for openat(2)
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <spawn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int end_of(int status)
{
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int wait_for(pid_t pid)
{
	int status;

	return waitpid(pid, &status, 0) == pid ? end_of(status) : 1;
}

/* As programs do that are built for any glibc. */
static int by_pidfd_spawn(const char *path, char **argv)
{
	int (*spawn)(int *fd, const char *path, const posix_spawn_file_actions_t *actions,
		     const posix_spawnattr_t *attributes, char *const argv[], char *const envp[]);
	siginfo_t info;
	pid_t pid;
	int fd, err = ENOSYS;

	*(void **)&spawn = dlsym(RTLD_DEFAULT, "pidfd_spawn");
	if (spawn)
		err = spawn(&fd, path, NULL, NULL, argv, environ);
	if (!err)
		return waitid((idtype_t)3 /* P_PIDFD */, (id_t)fd, &info, WEXITED) ? 1 :
										     info.si_status;
	if (err == ENOSYS)
		err = posix_spawn(&pid, path, NULL, NULL, argv, environ);
	return err ? 1 : wait_for(pid);
}

#ifdef __GLIBC__
/* The child changes to the directory of the program. @searched: it finds the program by PATH. */
static int by_directory(const char *path, char **argv, int searched)
{
	const char *name = strrchr(path, '/') + 1;
	char *directory = strndup(path, (size_t)(name - path));
	posix_spawn_file_actions_t actions;
	char relative[256];
	pid_t pid;
	int err;

	snprintf(relative, sizeof(relative), "./%s", name);
	if (chdir("/") || setenv("PATH", "/nowhere:.", 1))
		return 1;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDOUT_FILENO);
	posix_spawn_file_actions_addchdir_np(&actions, directory);
	err = searched ? posix_spawnp(&pid, name, &actions, NULL, argv, environ) :
			 posix_spawn(&pid, relative, &actions, NULL, argv, environ);
	return err ? 1 : wait_for(pid);
}
#endif

static void filter(void)
{
	static struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { .len = sizeof(code) / sizeof(code[0]), .filter = code };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program))
		exit(1);
}

static int by_pipe(const char *command)
{
	FILE *pipe = popen(command, "r");
	char line[1024];

	while (pipe && fgets(line, sizeof(line), pipe))
		fputs(line, stdout);
	fflush(stdout);
	return pipe ? end_of(pclose(pipe)) : 1;
}

static int start(const char *by, const char *path)
{
	const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
	char command[4096], *argv[] = { (char *)path, (char *)by, NULL };
	pid_t pid;

	snprintf(command, sizeof(command), "%s %s", path, by);
	if (!strcmp(by, "execve"))
		execve(path, argv, environ);
	else if (!strcmp(by, "syscall-execve"))
		syscall(SYS_execve, path, argv, environ);
	else if (!strcmp(by, "syscall-execveat"))
		syscall(SYS_execveat, AT_FDCWD, path, argv, environ, 0);
	else if (!strcmp(by, "execv"))
		execv(path, argv);
	else if (!strcmp(by, "execvp"))
		execvp(name, argv);
	else if (!strcmp(by, "execvpe"))
		execvpe(name, argv, environ);
	else if (!strcmp(by, "execl"))
		execl(path, path, by, NULL);
	else if (!strcmp(by, "execlp"))
		execlp(name, path, by, NULL);
	else if (!strcmp(by, "execle"))
		execle(path, path, by, NULL, environ);
#ifdef __GLIBC__
	else if (!strcmp(by, "execveat"))
		execveat(AT_FDCWD, path, argv, environ, 0);
	else if (!strcmp(by, "spawn-directory"))
		return by_directory(path, argv, 0);
	else if (!strcmp(by, "spawnp-directory"))
		return by_directory(path, argv, 1);
	else if (!strcmp(by, "execveat-fd"))
		execveat(open(path, O_PATH), "", argv, environ, AT_EMPTY_PATH);
#endif
	else if (!strcmp(by, "fexecve"))
		fexecve(open(path, O_RDONLY), argv, environ);
	else if (!strcmp(by, "posix_spawn"))
		return posix_spawn(&pid, path, NULL, NULL, argv, environ) ? 1 : wait_for(pid);
	else if (!strcmp(by, "posix_spawnp"))
		return posix_spawnp(&pid, name, NULL, NULL, argv, environ) ? 1 : wait_for(pid);
	else if (!strcmp(by, "pidfd_spawn"))
		return by_pidfd_spawn(path, argv);
	else if (!strcmp(by, "setuid"))
		return setuid(getuid()) ? 1 : 3;
	else if (!strcmp(by, "system"))
		return end_of(system(command));
	else if (!strcmp(by, "popen"))
		return by_pipe(command);
	else if (!strcmp(by, "vfork")) {
		pid = vfork();
		if (!pid) {
			execv(path, argv);
			_exit(1);
		}
		return wait_for(pid);
	}
	perror(by);
	return 1;
}

int main(int argc, char **argv)
{
	if (argc == 5 && !strcmp(argv[1], "chroot")) {
		if (chroot(argv[2]) || chdir("/"))
			return 1;
		argv += 2;
	} else if (argc == 4 && !strcmp(argv[1], "filter")) {
		filter();
		argv++;
	} else if (argc != 3) {
		return 1;
	}
	return start(argv[1], argv[2]);
}
