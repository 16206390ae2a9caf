// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* The HTML page: made by a Python program from the JSON. */
#include "bench.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The exit status of report.py if this Python has no matplotlib: the page has no charts. */
#define NO_MATPLOTLIB 3
#define NO_PYTHON 127

/* Returns the exit status of the script. */
static int report_try_python(const char *python, const char *script, const char *json,
			     const char *html)
{
	int status;
	pid_t pid = fork();

	if (pid < 0)
		return NO_PYTHON;
	if (!pid) {
		execlp(python, python, script, "--html", html, json, NULL);
		_exit(NO_PYTHON);
	}
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return NO_PYTHON;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static int report_make_page(const struct cli_command *command, const char *script, const char *json,
			    const char *html, bool *charts)
{
	/* Debian's matplotlib is for Debian's Python, which may not be the first one in PATH. */
	static const char *const pythons[] = { "/usr/bin/python3", "python3" };
	int status = NO_PYTHON;
	bool page = false;
	size_t i;

	for (i = 0; i < sizeof(pythons) / sizeof(pythons[0]); i++) {
		status = report_try_python(pythons[i], script, json, html);
		page |= status == NO_MATPLOTLIB;
		if (status != NO_MATPLOTLIB && status != NO_PYTHON)
			break;
	}
	*charts = !status;
	if (!status || page)
		return 0;
	if (status == NO_PYTHON)
		cli_fail(command, "the report needs Python: type "
				  "`apt-get install python3` as root");
	else
		cli_fail(command, "%s could not be made: report.py ended with status %d", html,
			 status);
	return -1;
}

int report_write(const struct cli_command *command, struct bench *bench, const char *path,
		 bool *charts)
{
	char script[PATH_MAX], json[] = "/tmp/hugemap-bench-XXXXXX";
	int fd, err;

	if (!files_find_helper("bench/report.py", script)) {
		cli_fail(command, "report.py, which makes the report, is not where it was "
				  "installed");
		return -1;
	}
	fd = mkstemp(json);
	if (fd >= 0)
		close(fd);
	err = fd < 0 ? -errno : json_write(bench, json);
	if (err)
		cli_fail(command, "%s: %s", json, strerror(-err));
	else
		err = report_make_page(command, script, json, path, charts);
	if (fd >= 0)
		unlink(json);
	return err ? -1 : 0;
}
