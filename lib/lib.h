/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Shared by the files of libhugemap: the frame of every public call, and errors. */
#ifndef HM_LIB_H
#define HM_LIB_H

#include "hugemap.h"

#include <errno.h>
#include <pthread.h>

#define LIB_PAGE ((uintptr_t)4096)
#define LIB_HUGE_PAGE ((uintptr_t)2 << 20)

struct lib_call {
	int saved_errno, cancel_state;
};

struct lib_call lib_call_begin(void);
void lib_call_end(const struct lib_call *call);

/*
 * Every public call that may fail starts with this. Until it returns, the thread cannot be
 * cancelled (some calls have files open). At the end, errno has its old value.
 */
#define LIB_CALL()                                                                       \
	__attribute__((cleanup(lib_call_end))) struct lib_call call_ = lib_call_begin(); \
	(void)call_

/* Set the text that hugemap_reason() returns. Return: @err. */
__attribute__((format(printf, 2, 3))) int lib_fail(int err, const char *format, ...);

/**
 * lib_check_range() - check a range of addresses and extend it to whole pages
 * @addr: the start
 * @length: bytes
 * @aligned: @addr must be a multiple of 4096
 * @start: set to the start of the first page
 * @end: set to the end of the last page
 *
 * Return: 0 or -EINVAL.
 */
int lib_check_range(void *addr, size_t length, bool aligned, char **start, char **end);

/*
 * Does this copy of the library steer? The first call starts steering. Under `hugemap run`
 * the preload library does it: it sees our calls of mmap() and munmap() like all others.
 */
bool lib_steers(void);

/*
 * Symbols of the preload library of `hugemap run`; NULL if it is not in the process. install() of
 * the Python package loads that library later, and then sets these pointers: preload/install.c.
 */
#pragma weak hugemap_run_version
#pragma weak hugemap_run_page
extern const char hugemap_run_version[];
const struct steer_page *hugemap_run_page(void);

/* The statistics of steering in this process; NULL if it never steered a mapping. */
const struct steer_page *lib_steer_page(void);

#endif /* HM_LIB_H */
