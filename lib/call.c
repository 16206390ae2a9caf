// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* The frame of every public call: errno, cancellation, the reason of a failure, ranges. */
#include "lib.h"

#include "steer.h"

#include <stdarg.h>
#include <stdio.h>

static _Thread_local char reason[256];

struct lib_call lib_call_begin(void)
{
	struct lib_call call = { .saved_errno = errno };

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &call.cancel_state);
	reason[0] = '\0';
	return call;
}

void lib_call_end(const struct lib_call *call)
{
	pthread_setcancelstate(call->cancel_state, NULL);
	errno = call->saved_errno;
}

int lib_fail(int err, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(reason, sizeof(reason), format, args);
	va_end(args);
	return err;
}

const char *hugemap_reason(void)
{
	return reason;
}

int lib_check_range(void *addr, size_t length, bool aligned, char **start, char **end)
{
	uintptr_t into = (uintptr_t)addr % LIB_PAGE;

	if (aligned && into)
		return lib_fail(-EINVAL, "the address must be a multiple of 4096");
	if (!length || length > SIZE_MAX / 2)
		return lib_fail(-EINVAL, "the length is 0 or too large");
	*start = (char *)addr - into;
	*end = *start + (length + into + LIB_PAGE - 1) / LIB_PAGE * LIB_PAGE;
	if (*end < *start)
		return lib_fail(-EINVAL, "the range ends beyond the last address");
	return 0;
}

static void call_start_steering(void)
{
	steer_configure(&(struct steer_settings){ 0 });
}

bool lib_steers(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	if (hugemap_run_version) {
		/* It may have come after the first call. Its monitor steers the mappings now. */
		steer_never();
		return false;
	}
	pthread_once(&once, call_start_steering);
	return true;
}

const struct steer_page *lib_steer_page(void)
{
	return hugemap_run_page ? hugemap_run_page() : steer_own_page();
}
