// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "module.h"
#include "guard.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

bool module_load(const char *name, const char *option)
{
	char *const argv[] = { "modprobe", "-q", (char *)name, (char *)option, NULL };
	static char *const env[] = { "PATH=/usr/sbin:/usr/bin:/sbin:/bin", NULL };
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

		guard_release();
		dup2(null, STDOUT_FILENO);
		dup2(null, STDERR_FILENO);
		execvpe(argv[0], argv, env);
		_exit(127);
	}
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return pid > 0 && WIFEXITED(status) && !WEXITSTATUS(status);
}
