// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Errors in words: one sentence for each code, and the reason of the last one. */
#include "hugemap.h"
#include "port.h"
#include "reason.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

static _Thread_local char reason[256];

void reason_clear(void)
{
	reason[0] = '\0';
}

/* Remember why, and return the error. */
int fail(int err, const char *format, ...)
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

static const struct {
	int err;
	const char *sentence;
} sentences[] = {
	{ 0, "success" },
	{ EACCES, "the file is not open for what the mapping needs: open it O_RDWR to map it "
		  "for writing" },
	{ EBADF, "the file descriptor is not open: pass an open one" },
	{ EBUSY, "somebody else uses this: unmap it there first, or wait" },
	{ EFBIG, "the file is too large for one mapping: map a part of it" },
	{ EINVAL, "an argument is out of range: offsets are multiples of 4096 and lengths are "
		  "not 0" },
	{ EIO, "the device failed to read or write: see the kernel's log, and try the sync again" },
	{ ENODEV, "this is no file that can be mapped: use a regular file or a block device" },
	{ ENOMEM, "too little memory is available: ask for a smaller pool" },
	{ ENOSPC, "the file system is full: free some space and sync again; nothing is lost "
		  "until then" },
	{ ENOSYS, "this kernel lacks something: run `hugemap doctor`" },
	{ EOPNOTSUPP, "this cannot be done here: a pool needs Linux 6.8, and has no private "
		      "copies; map without one" },
	{ EOVERFLOW, "the range ends beyond the largest possible file" },
	{ EPERM, "this is not allowed here: run `hugemap doctor` to see what would allow it" },
	{ EDQUOT, "the disk quota is used up: free some space and sync again; nothing is lost "
		  "until then" },
	{ E2BIG, "the program is newer than the library: install the library that it was "
		 "built for" },
	{ EROFS, "the file system is mounted read-only: map the file for reading" },
	{ EFAULT, "a buffer is not accessible: pass valid memory" },
};

const char *hugemap_strerror(int err)
{
	u32 i;

	err = err < 0 ? -err : err;
	for (i = 0; i < sizeof(sentences) / sizeof(sentences[0]); i++)
		if (sentences[i].err == err)
			return sentences[i].sentence;
	return "an unexpected error: hugemap_reason() may say more";
}

const char *hugemap_version(void)
{
	return HUGEMAP_VERSION_STRING;
}
