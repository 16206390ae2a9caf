/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* hugemap run: a second process beside the program. */
#ifndef CLI_RUN_HELPER_H
#define CLI_RUN_HELPER_H

#include <stdbool.h>
#include <stddef.h>

#define RUN_HELPER_ANSWER 3 /* the helper's descriptor for the answer; then those of @fds */

/**
 * struct run_helper - a process that stays beside the program
 * @body: runs in the helper. It writes the answer, closes that descriptor, and returns at the end
 * @arg: of @body
 * @fds: descriptors that become 4, 5, ... in the helper; it closes all others of the program
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
 * @answer: where the answer is stored
 * @size: its size in bytes
 *
 * Afterwards the caller becomes the program by exec(). So the program has the parent, the
 * process group, the terminal and the exit status that it has without the helper. The helper
 * is not the program's child, unless orphans become children of the program. In that case it
 * sends no signal when it ends, and only a wait(2) with __WALL or __WCLONE sees it. When this
 * function returns, the helper has left the session and the working directory, and has closed
 * the descriptors of the program.
 *
 * Return: 0; or -errno, and then there is no helper.
 */
int run_helper_start(const struct run_helper *helper, void *answer, size_t size);

#endif /* CLI_RUN_HELPER_H */
