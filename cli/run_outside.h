/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* hugemap run: help for a program that does not load the library. */
#ifndef CLI_RUN_OUTSIDE_H
#define CLI_RUN_OUTSIDE_H

#include <stdbool.h>

#include "target.h"

struct attach_settings;

/* Return whether a program loads the library of `hugemap run`, or why not. Search it in $PATH. */
enum target run_target(const char *name);

/**
 * run_outside() - start a helper that watches and advises this process
 * @settings: as for attach_open()
 * @arguments: as for run_helper_start()
 * @why: set to the reason, in words, if there is no helper
 *
 * The helper ends with the program.
 *
 * Return: true if there is a helper.
 */
bool run_outside(const struct attach_settings *settings, char **arguments, char why[256]);

#endif /* CLI_RUN_OUTSIDE_H */
