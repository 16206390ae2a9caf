/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Write-back (write.c), and the handler's side of a sync (sync.c).
 *
 * Owns: the units that are being written, from hm_writeback() to hm_writeback_done(), and
 * a store's wb_ fields.
 * Locks: takes block_lock(), and that of a sync that is over. maps_lock is held for reading.
 */
#ifndef HM_WRITE_H
#define HM_WRITE_H

#include "handler.h"

bool write_may_go_on(struct handler *h);
enum hm_wb write_next(struct handler *h, struct store *store, u64 *pos, u64 end, bool wait,
		      struct sync_request *sync, bool background);
void write_complete(struct handler *h, struct io_op *op);
void write_background(struct handler *h);
void write_works(struct store *store);
void sync_run(struct handler *h);

#endif /* HM_WRITE_H */
