/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The number of programs that are not steered. A helper of `hugemap run --summary` prints it when
 * the program has ended. It reads a pipe, and each process writes one byte for a program to it.
 */
#ifndef PRELOAD_TALLY_H
#define PRELOAD_TALLY_H

/* The variable in the environment: PID:DESCRIPTOR:INODE of the pipe, in decimal. */
#define TALLY_VARIABLE "HUGEMAP_RUN_TALLY"
#define TALLY_PIPE 48 /* bytes that its value takes at most */

/* The byte: an enum target, or one of these. */
enum {
	TALLY_LIMITED = 32, /* the program limits its system calls */
	TALLY_OUTSIDE, /* the program does not load the library, and another process advises it */
	TALLY_REASONS, /* the bytes above are reasons not to steer a program */
	TALLY_CLOSED, /* the program was steered, but its summary has no descriptor */
	TALLY_MAPPED, /* the monitor gets a large mapping, or PROGRAM did not start */
	TALLY_EXCLUDED, /* --include or --exclude leave out a large mapping */
	TALLY_MOST,
};

/*
 * Write a byte to the pipe of a value of the variable. The pipe of another process is left alone.
 * It may be called in a child of vfork(). The byte is lost if the pipe is full, or if the process
 * may not open it, as in another container or as another user.
 */
void tally_add(const char *pipe, unsigned char byte);

#endif /* PRELOAD_TALLY_H */
