/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Checks before a mount. Each check returns CLI_OK, or prints the reason, with advice, and returns
 * CLI_FAILED.
 */
#ifndef CLI_MOUNT_CHECK_H
#define CLI_MOUNT_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "cli.h"

int mount_check_root(const struct cli_command *command);
int mount_check_source(const struct cli_command *command, const char *source);
int mount_check_dir(const struct cli_command *command, const char *dir);
int mount_check_module(const struct cli_command *command, bool verbose);
/* Check that a pool fits. If memory is fragmented, report that and make the kernel compact it. */
int mount_check_memory(const struct cli_command *command, uint64_t pool, bool base_pages);
uint64_t mount_total_memory(void);
uint64_t mount_default_pool(void);
/* Print which mounts, devices and swap areas use a device. */
void mount_explain_device(const char *source);

#endif /* CLI_MOUNT_CHECK_H */
