/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* A FUSE server that counts the requests that it gets. It has one file, "file". */
#ifndef STEER_TEST_FUSE_H
#define STEER_TEST_FUSE_H

#include "common.h"

#define FUSE_FILE_SIZE (64 * MB)

/*
 * Mount it in a mount name space of this process, with a server in a child. Returns the path of the
 * file, or NULL if this process has no permission.
 */
const char *fuse_begin(void);
/*
 * Remove the directory, and end the server, so that requests without an answer fail. The mount ends
 * with the mount name space.
 */
void fuse_end(void);
/* The number of requests of a kind: FUSE_FLUSH, FUSE_GETATTR and so on. */
unsigned int fuse_count(unsigned int opcode);
/* From now on the server answers no request of a kind. */
void fuse_hang(unsigned int opcode);

#endif /* STEER_TEST_FUSE_H */
