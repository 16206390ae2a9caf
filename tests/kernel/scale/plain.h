/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The calls that the compiler inserts for ThreadSanitizer at each plain load and store of the
 * cache. machine.c implements them; an access of any size is an access to one line.
 */
#ifndef SCALE_PLAIN_H
#define SCALE_PLAIN_H

#define ALIAS(name) __attribute__((alias(#name)))

void __tsan_read1(void *p);
void __tsan_write1(void *p);
void __tsan_read2(void *p) ALIAS(__tsan_read1);
void __tsan_read4(void *p) ALIAS(__tsan_read1);
void __tsan_read8(void *p) ALIAS(__tsan_read1);
void __tsan_read16(void *p) ALIAS(__tsan_read1);
void __tsan_unaligned_read2(void *p) ALIAS(__tsan_read1);
void __tsan_unaligned_read4(void *p) ALIAS(__tsan_read1);
void __tsan_unaligned_read8(void *p) ALIAS(__tsan_read1);
void __tsan_unaligned_read16(void *p) ALIAS(__tsan_read1);
void __tsan_write2(void *p) ALIAS(__tsan_write1);
void __tsan_write4(void *p) ALIAS(__tsan_write1);
void __tsan_write8(void *p) ALIAS(__tsan_write1);
void __tsan_write16(void *p) ALIAS(__tsan_write1);
void __tsan_unaligned_write2(void *p) ALIAS(__tsan_write1);
void __tsan_unaligned_write4(void *p) ALIAS(__tsan_write1);
void __tsan_unaligned_write8(void *p) ALIAS(__tsan_write1);
void __tsan_unaligned_write16(void *p) ALIAS(__tsan_write1);
void __tsan_read_range(void *p, unsigned long bytes);
void __tsan_write_range(void *p, unsigned long bytes);

void __tsan_func_entry(void *caller);
void __tsan_func_exit(void *nothing) ALIAS(__tsan_func_entry);
void __tsan_init(void *nothing) ALIAS(__tsan_func_entry);

#endif /* SCALE_PLAIN_H */
