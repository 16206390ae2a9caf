// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "system.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

_Noreturn static void spawn_exec(char *const argv[], int output)
{
	dup2(output, STDOUT_FILENO);
	dup2(output, STDERR_FILENO);
	/* execvpe() would search the caller's own PATH, and mounts at boot have none. */
	clearenv();
	setenv("PATH", "/usr/sbin:/usr/bin:/sbin:/bin", 1);
	execvp(argv[0], argv);
	_exit(127);
}

int spawn_wait(char *const argv[], char *error, size_t size)
{
	int fds[2], status;
	size_t used = 0;
	ssize_t n;
	pid_t pid;

	error[0] = '\0';
	if (pipe2(fds, O_CLOEXEC) < 0)
		return -1;
	pid = fork();
	if (pid == 0)
		spawn_exec(argv, fds[1]);
	close(fds[1]);
	while (pid > 0 && used + 1 < size && (n = read(fds[0], error + used, size - 1 - used)) > 0)
		used += (size_t)n;
	error[used] = '\0';
	error[strcspn(error, "\n")] = '\0';
	close(fds[0]);
	while (pid > 0 && waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -1;
	return pid > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
