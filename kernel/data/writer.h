/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* writer.c: background write-back. */
#ifndef HUGEMAP_DATA_WRITER_H
#define HUGEMAP_DATA_WRITER_H

#include "data.h"

/* The writer thread of a mount. */
int hugemap_writer(void *mount);

/* The work hugemap_inode.chunk, which the writer queues. */
void hugemap_chunk_work(struct work_struct *work);

#endif /* HUGEMAP_DATA_WRITER_H */
