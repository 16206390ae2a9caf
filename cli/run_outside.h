/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* hugemap run: help for a program that does not load the library. */
#ifndef CLI_RUN_OUTSIDE_H
#define CLI_RUN_OUTSIDE_H

#include <stdbool.h>

struct attach_settings;

/**
 * run_outside() - start a helper that watches and advises this process
 * @settings: as for attach_open()
 * @arguments: the arguments of the command line that become the program's
 * @why: set to the reason, in words, if there is no helper
 *
 * Afterwards the caller becomes the program by exec(). So the program has the parent, the
 * process group, the terminal and the exit status that it has without the helper. The helper
 * is not the program's child, unless orphans become children of the program. In that case it
 * sends no signal when it ends, and only a wait(2) with __WALL or __WCLONE sees it. When this
 * function returns, the helper has left the session and the working directory and has closed
 * all descriptors of the program. It ends with the program.
 *
 * Return: true if there is a helper.
 */
bool run_outside(const struct attach_settings *settings, char **arguments, char why[256]);

#endif /* CLI_RUN_OUTSIDE_H */
