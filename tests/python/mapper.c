// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* A library that maps files: test_install.py and ../preload/ build it in several ways. */
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

typedef void *(*mapper_mmap)(void *, size_t, int, int, int, off_t);

/* A relocation of the data, as SQLite has it. */
const volatile mapper_mmap mapper_table[] = { mmap }; /* tests find it by dlsym() */

static void *mapper_call(mapper_mmap function, const char *path, size_t length)
{
	int fd = open(path, O_RDONLY);
	void *at = function(NULL, length, PROT_READ, MAP_SHARED, fd, 0);

	close(fd);
	return at;
}

void *mapper_map(const char *path, size_t length)
{
	int fd = open(path, O_RDONLY);
	void *at = mmap(NULL, length, PROT_READ, MAP_SHARED, fd, 0);

	close(fd);
	return at;
}

void *mapper_map_by_table(const char *path, size_t length)
{
	return mapper_call(mapper_table[0], path, length);
}

int mapper_unmap(void *at, size_t length)
{
	return munmap(at, length);
}

void *mapper_remap(void *at, size_t old, size_t length)
{
	return mremap(at, old, length, MREMAP_MAYMOVE);
}

int mapper_advise(void *at, size_t length, int advice)
{
	return madvise(at, length, advice);
}

void *mapper_next(const char *name)
{
	return dlsym(RTLD_NEXT, name);
}

void *mapper_function(const char *name)
{
	return dlsym(RTLD_DEFAULT, name);
}
