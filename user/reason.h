/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Why the last call of a thread failed, in words (error.c).
 *
 * Owns: the sentence that hugemap_reason() gives, one for each thread.
 * Locks: none.
 */
#ifndef HM_REASON_H
#define HM_REASON_H

/* Remember why, and return @err. */
int fail(int err, const char *format, ...) __attribute__((format(printf, 2, 3)));
void reason_clear(void);

#endif /* HM_REASON_H */
