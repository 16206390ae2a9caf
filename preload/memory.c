// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* The functions that make, move, end and advise mappings. */
#include "preload.h"

#include <stdarg.h>
#include <sys/mman.h>

#include "settings.h"
#include "steer.h"
#include "tally.h"

static void *memory_map(void *addr, size_t length, int prot, int flags, int fd, off_t offset)
{
	return (void *)preload_result(
		call(SYS_mmap, (long)addr, (long)length, prot, flags, fd, offset));
}

/* Each byte is counted once for each process and its children. */
static void memory_tally(unsigned char byte)
{
	static bool is_told[TALLY_MOST];

	if (*settings.tally && !__atomic_exchange_n(&is_told[byte], true, __ATOMIC_RELAXED))
		tally_add(settings.tally, byte);
}

static void memory_mapped(void *at, size_t length, int prot, int flags, int fd, off_t offset)
{
	if (!settings_select(fd)) {
		memory_tally(TALLY_EXCLUDED);
		return;
	}
	memory_tally(TALLY_MAPPED);
	steer_mapped(at, length, prot, flags, offset);
}

PRELOAD_EXPORT void *mmap(void *addr, size_t length, int prot, int flags, int fd, off_t offset)
{
	struct steer_removal replaced = {};
	void *at;

	if (!settings.on)
		return memory_map(addr, length, prot, flags, fd, offset);
	if (flags & MAP_FIXED)
		replaced = steer_unmapping(addr, length);
	at = memory_map(addr, length, prot, flags, fd, offset);
	steer_unmapped(replaced, at != MAP_FAILED);
	if (at != MAP_FAILED && !(flags & MAP_ANONYMOUS) && length >= settings.least)
		memory_mapped(at, length, prot, flags, fd, offset);
	return at;
}

PRELOAD_EXPORT void *mmap64(void *addr, size_t length, int prot, int flags, int fd, off_t offset)
	__attribute__((alias("mmap")));

PRELOAD_EXPORT int munmap(void *addr, size_t length)
{
	struct steer_removal removed = {};
	long result;

	if (settings.on)
		removed = steer_unmapping(addr, length);
	result = call(SYS_munmap, (long)addr, (long)length, 0, 0, 0, 0);
	steer_unmapped(removed, result >= 0);
	return (int)preload_result(result);
}

PRELOAD_EXPORT void *mremap(void *old, size_t old_length, size_t length, int flags, ...)
{
	struct steer_removal replaced = {};
	void *new = NULL;
	va_list args;
	long result;

	va_start(args, flags);
	if (flags & (MREMAP_FIXED | MREMAP_DONTUNMAP))
		new = va_arg(args, void *);
	va_end(args);
	if (!settings.on)
		return (void *)preload_result(call(SYS_mremap, (long)old, (long)old_length,
						   (long)length, flags, (long)new, 0));
	if (flags & MREMAP_FIXED)
		replaced = steer_unmapping(new, length);
	result = (long)steer_remap(old, old_length, length, flags, new);
	steer_unmapped(replaced, !call_failed(result));
	return (void *)preload_result(result);
}

static bool memory_is_hint(int advice)
{
	return advice == MADV_NORMAL || advice == MADV_RANDOM || advice == MADV_SEQUENTIAL ||
	       advice == MADV_HUGEPAGE || advice == MADV_NOHUGEPAGE;
}

PRELOAD_EXPORT int madvise(void *addr, size_t length, int advice)
{
	long result = call(SYS_madvise, (long)addr, (long)length, advice, 0, 0, 0);

	/* If a part of the range is not mapped, the kernel advises the rest and reports ENOMEM. */
	if ((!result || result == -ENOMEM) && settings.on && memory_is_hint(advice))
		steer_hint(addr, length, advice);
	return (int)preload_result(result);
}

/* As in the C library, the error is the return value, and POSIX_MADV_DONTNEED does nothing. */
PRELOAD_EXPORT int posix_madvise(void *addr, size_t length, int advice)
{
	int saved = errno, err = 0;

	if (advice != POSIX_MADV_DONTNEED && madvise(addr, length, advice))
		err = errno;
	errno = saved;
	return err;
}
