/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* hugemap run: a second process beside the program. */
#ifndef CLI_RUN_HELPER_H
#define CLI_RUN_HELPER_H

#include <stdbool.h>
#include <stddef.h>

#define RUN_HELPER_FDS 4 /* the helper's first descriptor of @fds */

/**
 * struct run_helper_answer - from the helper to the program
 * @err: 0; or -errno, and then the helper ends
 * @pid: of the helper
 * @why: the reason, in words, if @err is not 0
 */
struct run_helper_answer {
	int err;
	int pid;
	char why[256];
};

/**
 * struct run_helper - a process that stays beside the program
 * @body: runs in the helper. It calls run_helper_answer(), and returns at the end
 * @arg: of @body
 * @fds: descriptors that become RUN_HELPER_FDS and so on in the helper; it closes all others of the
 * program
 * @nfds: their number, 4 at most
 * @arguments: the arguments of the command line that become the program's
 */
struct run_helper {
	void (*body)(const void *arg);
	const void *arg;
	const int *fds;
	size_t nfds;
	char **arguments;
};

/**
 * run_helper_start() - start a helper, and read its answer
 * @helper: as above
 * @answer: set to the answer
 *
 * Afterwards the caller becomes the program by exec(). So the program has the parent, the
 * process group, the terminal and the exit status that it has without the helper. The helper
 * is not the program's child, unless orphans become children of the program. In that case it
 * sends no signal when it ends, and only a wait(2) with __WALL or __WCLONE sees it. When this
 * function returns, the helper has left the session and the working directory, and has closed
 * the descriptors of the program.
 *
 * Return: 0; or -errno, and then there is no helper, and answer->why has the reason.
 */
int run_helper_start(const struct run_helper *helper, struct run_helper_answer *answer);

/* In the helper: answer, with @err and @why. Return whether the helper goes on. */
bool run_helper_answer(struct run_helper_answer *answer);

#endif /* CLI_RUN_HELPER_H */
