// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "run_outside.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "attach_state.h"
#include "attach_watch.h"
#include "run_helper.h"

enum target run_target(const char *name)
{
	char buffer[PATH_MAX];
	const char *path = target_find(name, getenv("PATH"), buffer);
	enum target target = path ? target_check(AT_FDCWD, path) : TARGET_LOADS;

	if (target == TARGET_UNAFFECTED)
		target = TARGET_LOADS;
	if (target == TARGET_LOADS && path && getuid() &&
	    getxattr(path, "security.capability", NULL, 0) > 0)
		return TARGET_SECURE;
	return target;
}

struct outside {
	pid_t program;
	const struct attach_settings *settings;
};

/* Until the program ends, or calls exec() and then loads the library of `hugemap run`. */
static void outside_watch(struct attach *attach)
{
	struct pollfd program = { .fd = attach->pidfd, .events = POLLIN };
	struct timespec time;
	uint64_t wait;

	/* This command may itself run under `hugemap run`. */
	attach->steered = false;
	do {
		wait = attach_step(attach);
		time.tv_sec = (time_t)(wait / 1000000000u);
		time.tv_nsec = (long)(wait % 1000000000u);
	} while (!attach->steered && ppoll(&program, 1, &time, NULL) <= 0);
}

static void outside_help(const void *arg)
{
	const struct outside *outside = arg;
	struct run_helper_answer answer = {};
	struct attach attach;

	answer.err = attach_open(outside->program, outside->settings, &attach, answer.why);
	if (answer.err == -EPERM)
		snprintf(answer.why, sizeof(answer.why), "that takes CAP_SYS_NICE");
	if (run_helper_answer(&answer))
		outside_watch(&attach);
}

bool run_outside(const struct attach_settings *settings, char **arguments, char why[256])
{
	const struct outside outside = { getpid(), settings };
	const struct run_helper helper = {
		.body = outside_help,
		.arg = &outside,
		.arguments = arguments,
	};
	struct run_helper_answer answer;
	int err = run_helper_start(&helper, &answer);

	memcpy(why, answer.why, sizeof(answer.why));
	return !err;
}
