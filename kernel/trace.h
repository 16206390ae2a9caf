/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Tracepoints: events of the pages of a file. */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM hugemap

#if !defined(HUGEMAP_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define HUGEMAP_TRACE_H

#include <linux/fs.h>
#include <linux/tracepoint.h>

/* clang-format off */
DECLARE_EVENT_CLASS(hugemap_unit,
	TP_PROTO(const struct inode *inode, u64 pgoff, u32 npages, int value),
	TP_ARGS(inode, pgoff, npages, value),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(u64, ino)
		__field(u64, pgoff)
		__field(u32, npages)
		__field(int, value)
	),
	TP_fast_assign(
		__entry->dev = inode->i_sb->s_dev;
		__entry->ino = inode->i_ino;
		__entry->pgoff = pgoff;
		__entry->npages = npages;
		__entry->value = value;
	),
	TP_printk("dev %u:%u ino %llu pgoff %llu npages %u value %d",
		  MAJOR(__entry->dev), MINOR(__entry->dev), __entry->ino, __entry->pgoff,
		  __entry->npages, __entry->value)
);

/* A fault mapped @npages, or those of them that are cached. value: 1 for a store */
DEFINE_EVENT(hugemap_unit, hugemap_fault,
	TP_PROTO(const struct inode *inode, u64 pgoff, u32 npages, int value),
	TP_ARGS(inode, pgoff, npages, value));

/* value: 0 or a negative errno */
DEFINE_EVENT(hugemap_unit, hugemap_fill,
	TP_PROTO(const struct inode *inode, u64 pgoff, u32 npages, int value),
	TP_ARGS(inode, pgoff, npages, value));

/* value: enum hm_evict_result */
DEFINE_EVENT(hugemap_unit, hugemap_evict,
	TP_PROTO(const struct inode *inode, u64 pgoff, u32 npages, int value),
	TP_ARGS(inode, pgoff, npages, value));

/* value: 0 or a negative errno */
DEFINE_EVENT(hugemap_unit, hugemap_writeback,
	TP_PROTO(const struct inode *inode, u64 pgoff, u32 npages, int value),
	TP_ARGS(inode, pgoff, npages, value));

/* Cached base pages became one huge unit. value: 0 */
DEFINE_EVENT(hugemap_unit, hugemap_promote,
	TP_PROTO(const struct inode *inode, u64 pgoff, u32 npages, int value),
	TP_ARGS(inode, pgoff, npages, value));

/* Base pages were not promoted to a huge unit. value: enum hm_promote_result */
DEFINE_EVENT(hugemap_unit, hugemap_refuse,
	TP_PROTO(const struct inode *inode, u64 pgoff, u32 npages, int value),
	TP_ARGS(inode, pgoff, npages, value));

TRACE_EVENT(hugemap_sync,
	TP_PROTO(const struct inode *inode, loff_t start, loff_t end, int err),
	TP_ARGS(inode, start, end, err),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(u64, ino)
		__field(loff_t, start)
		__field(loff_t, end)
		__field(int, err)
	),
	TP_fast_assign(
		__entry->dev = inode->i_sb->s_dev;
		__entry->ino = inode->i_ino;
		__entry->start = start;
		__entry->end = end;
		__entry->err = err;
	),
	TP_printk("dev %u:%u ino %llu bytes %lld..%lld err %d",
		  MAJOR(__entry->dev), MINOR(__entry->dev), __entry->ino, __entry->start,
		  __entry->end, __entry->err)
);
/* clang-format on */

#endif /* HUGEMAP_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
