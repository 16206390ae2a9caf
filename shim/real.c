// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Finding the functions that the shim takes the place of; and what the engine,
 * which is linked into the shim, gets instead of them: the engine's own calls
 * must never come back to the shim. See engine-names.txt.
 */
#include "real.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>

struct real_calls real_table;
bool real_found;

#define CALL(name) { #name, offsetof(struct real_calls, name) }

static const struct {
	const char *name;
	size_t place;
} calls[] = {
	CALL(mmap),
	CALL(munmap),
	CALL(mremap),
	CALL(mprotect),
	CALL(pkey_mprotect),
	CALL(msync),
	CALL(madvise),
	CALL(posix_madvise),
	CALL(mincore),
	CALL(mlock),
	CALL(mlock2),
	CALL(munlock),
	CALL(mlockall),
	CALL(remap_file_pages),
	CALL(read),
	CALL(write),
	CALL(pread),
	CALL(pwrite),
	CALL(readv),
	CALL(writev),
	CALL(preadv),
	CALL(pwritev),
	CALL(preadv2),
	CALL(pwritev2),
	CALL(lseek),
	CALL(ftruncate),
	CALL(truncate),
	CALL(fallocate),
	CALL(posix_fallocate),
	CALL(posix_fadvise),
	CALL(fsync),
	CALL(fdatasync),
	CALL(sync_file_range),
	CALL(syncfs),
	CALL(sync),
	CALL(sendfile),
	CALL(copy_file_range),
	CALL(splice),
	CALL(send),
	CALL(sendto),
	CALL(sendmsg),
	CALL(sendmmsg),
	CALL(vmsplice),
	CALL(process_vm_writev),
	CALL(ioctl),
	CALL(fcntl),
	CALL(lockf),
	CALL(open),
	CALL(openat),
	CALL(creat),
	CALL(close),
	CALL(close_range),
	CALL(closefrom),
	CALL(dup),
	CALL(dup2),
	CALL(dup3),
	CALL(fopen),
	CALL(fdopen),
	CALL(freopen),
	CALL(fclose),
	CALL(fwrite),
	CALL(fwrite_unlocked),
	CALL(fputs),
	CALL(fputs_unlocked),
	CALL(puts),
	CALL(vdprintf),
	CALL(closedir),
	CALL(vfork),
	CALL(_Fork),
	CALL(clone),
	CALL(posix_spawn),
	CALL(posix_spawnp),
	CALL(system),
	CALL(popen),
	CALL(execve),
	CALL(execvpe),
	CALL(fexecve),
	CALL(aio_read),
	CALL(aio_write),
	CALL(aio_fsync),
	CALL(lio_listio),
	CALL(io_setup),
	CALL(io_uring_queue_init),
	CALL(io_uring_queue_init_params),
	CALL(io_uring_queue_init_mem),
	CALL(syscall),
};

_Static_assert(sizeof(calls) / sizeof(calls[0]) == sizeof(struct real_calls) / sizeof(void *),
	       "each function is looked for");

/* Other libraries may call before our constructor: whoever is first does it. */
void real_find(void)
{
	int saved = errno;
	size_t i;

	for (i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		*(void **)((char *)&real_table + calls[i].place) = dlsym(RTLD_NEXT, calls[i].name);
	errno = saved;
	__atomic_store_n(&real_found, true, __ATOMIC_RELEASE);
}
