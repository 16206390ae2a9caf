// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Errors as sentences with the remedy. */
#include "lib.h"

static const struct {
	int err;
	const char *sentence;
} sentences[] = {
	{ 0, "success" },
	{ EACCES, "the file is not open for what the mapping needs: open it O_RDWR to map it "
		  "for writing" },
	{ EAGAIN, "the limit of locked memory is reached: raise RLIMIT_MEMLOCK" },
	{ EBADF, "the file descriptor is not open: pass an open one" },
	{ EBUSY, "the range is locked in memory: unlock it first" },
	{ EDQUOT, "the disk quota is used up: free some space and sync again; nothing is lost "
		  "until then" },
	{ EFAULT, "the range is not one mapping, or the program has given parts of it different "
		  "advice: give all of it the same advice first" },
	{ EINVAL, "an argument is out of range: offsets are multiples of 4096 and lengths are "
		  "not 0" },
	{ EIO, "the device failed to read or write: see the kernel's log, and try again" },
	{ ENODEV, "this file cannot be mapped: use a regular file or a block device" },
	{ ENOMEM, "too little memory or address space is available, or the process has too many "
		  "mappings (vm.max_map_count)" },
	{ ENOSPC, "the file system is full: free some space and sync again; nothing is lost "
		  "until then" },
	{ ENOSYS, "this kernel lacks a system call: run `hugemap doctor`" },
	{ EOVERFLOW, "the range ends beyond the largest possible file" },
	{ EPERM, "this is not allowed here: run `hugemap doctor` to see what would allow it" },
	{ EROFS, "the file system is mounted read-only: map the file for reading" },
};

const char *hugemap_strerror(int err)
{
	size_t i;

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
