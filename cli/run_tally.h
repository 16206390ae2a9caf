/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* hugemap run --summary: the number of programs that were not steered. */
#ifndef CLI_RUN_TALLY_H
#define CLI_RUN_TALLY_H

struct stat;

/**
 * run_tally() - count the programs that are not steered until this process ends
 * @arguments: as for run_helper_start()
 * @least: the size of the smallest mapping that is steered, as text
 *
 * A helper waits for the end of this process. Then it prints one line with the number of programs
 * that were not steered, or the reason why nothing was steered. TALLY_VARIABLE in the environment
 * has the pipe for them. Without a helper, no program is counted.
 */
void run_tally(char **arguments, const char *least);

/* Put a pipe into TALLY_VARIABLE: descriptor @fd of process @pid, with this status. */
void run_tally_pass(int pid, int fd, const struct stat *st);

#endif /* CLI_RUN_TALLY_H */
