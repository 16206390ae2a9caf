/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The helper of mount(8). */
#ifndef CLI_MOUNT_H
#define CLI_MOUNT_H

/* Runs mount.hugemap SOURCE DIR [-sfnv] [-o OPTIONS]; returns the exit status. */
int mount_helper(int argc, char **argv);

#endif /* CLI_MOUNT_H */
