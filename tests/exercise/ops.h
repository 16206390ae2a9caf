/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The operations, by source file. Each operation picks a range by the random numbers of its
 * worker, logs itself, runs, and then updates the model or compares the result with it.
 */
#ifndef HUGEMAP_EXERCISE_OPS_H
#define HUGEMAP_EXERCISE_OPS_H

#include "exercise.h"

/* ops.c */
bool pick_range(struct worker *w, bool change, uint64_t *off, uint64_t *len);
uint64_t pick_offset(struct worker *w, uint64_t limit);
uint64_t pick_length(struct worker *w);

/* file.c */
void op_pread(struct worker *w);
void op_pwrite(struct worker *w);
void op_read_self(struct worker *w);
void op_write_self(struct worker *w);
void op_truncate(struct worker *w);
void op_verify(struct worker *w);

/* kept.c */
uint64_t mapped_end(const struct worker *w);
struct map *pick_map(struct worker *w, bool writable, uint64_t *len);
struct map *pick_pages(struct worker *w, bool writable, uint64_t *off, uint64_t *len);
void op_map_read(struct worker *w);
void op_map_write(struct worker *w);
void op_kept_read(struct worker *w);
void op_kept_write(struct worker *w);
void op_sync(struct worker *w);
void op_unmap(struct worker *w);

/* dma.c */
void op_direct_into(struct worker *w);
void op_direct_from(struct worker *w);

/* bytes.c */
void op_read(struct worker *w);
void op_preadv(struct worker *w);
void op_write(struct worker *w);
void op_pwritev(struct worker *w);
void op_append(struct worker *w);
void op_stream_read(struct worker *w);
void op_stream_write(struct worker *w);
void op_direct_read(struct worker *w);
void op_direct_write(struct worker *w);
void op_copy_range(struct worker *w);
void op_sendfile(struct worker *w);
void op_splice(struct worker *w);

/* room.c */
void op_punch(struct worker *w);
void op_fallocate(struct worker *w);
void op_zero_range(struct worker *w);
void op_collapse(struct worker *w);
void op_insert(struct worker *w);
void op_seek(struct worker *w);

/* maps.c */
void op_private(struct worker *w);
void op_keep(struct worker *w);
void op_keep_odd(struct worker *w);
void op_madvise(struct worker *w);
void op_remove(struct worker *w);
void op_mremap(struct worker *w);
void op_mremap_fixed(struct worker *w);
void op_mprotect(struct worker *w);
void op_fork(struct worker *w);
void op_pollute(struct worker *w);

/* pipes.c */
void pipes_watch(struct worker *w); /* call it after each operation */
void pipes_end(struct worker *w);
void op_pipe_hold(struct worker *w);
void op_pipe_take(struct worker *w);

/* limits.c */
void op_limit(struct worker *w);

/* exec.c */
void await_child(struct worker *w, const char *who, pid_t pid, int expected);
uint64_t other_program(struct worker *w, const char *command, bool inherit, uint64_t off,
		       uint64_t len, uint64_t more);
void op_exec(struct worker *w);

/* apart.c */
void op_apart(struct worker *w);
void op_settled(struct worker *w);

/* still.c */
void op_reopen(struct worker *w);
void op_fsync(struct worker *w);
void op_sync_range(struct worker *w);
void op_fadvise(struct worker *w);

#endif /* HUGEMAP_EXERCISE_OPS_H */
