// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "common.h"

#include <dirent.h>
#include <dlfcn.h>

unsigned char byte_of(size_t offset)
{
	return (unsigned char)(offset * 2654435761u >> 13 ^ offset >> 20);
}

void file_new(struct file *file, size_t size)
{
	const char *dir = getenv("HM_TEST_DIR");
	unsigned char *bytes = malloc(size);
	size_t at;

	snprintf(file->path, sizeof(file->path), "%s/hugemap-preload-XXXXXX",
		 dir ? dir : "/var/tmp");
	file->fd = mkostemp(file->path, O_CLOEXEC);
	assert_true(file->fd >= 0);
	for (at = 0; at < size; at++)
		bytes[at] = byte_of(at);
	assert_int_equal(pwrite(file->fd, bytes, size, 0), size);
	free(bytes);
}

void file_end(struct file *file)
{
	close(file->fd);
	unlink(file->path);
}

char *map_shared(const struct file *file, int prot)
{
	char *addr = mmap(NULL, SIZE, prot, MAP_SHARED, file->fd, 0);

	assert_true(addr != MAP_FAILED);
	return addr;
}

int end_of(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

unsigned int watchers(void)
{
	DIR *dir = opendir("/proc/self/task");
	struct dirent *entry;
	unsigned int n = 0;

	assert_non_null(dir);
	while ((entry = readdir(dir))) {
		char path[300], name[32] = "";
		FILE *file;

		snprintf(path, sizeof(path), "/proc/self/task/%s/comm", entry->d_name);
		file = fopen(path, "re");
		if (!file)
			continue;
		n += fgets(name, sizeof(name), file) && !strcmp(name, "hugemap\n");
		fclose(file);
	}
	closedir(dir);
	return n;
}

bool wait_for_watchers(unsigned int n)
{
	int tries;

	for (tries = 0; tries < 1000; tries++) {
		if (watchers() == n)
			return true;
		usleep(10000);
	}
	return false;
}

int run_group(const struct CMUnitTest *tests, size_t n)
{
	void *(*function)(void *, size_t, int, int, int, off_t) = mmap;
	Dl_info info;

	if (!dladdr((void *)function, &info) || !strstr(info.dli_fname, "libhugemap-run")) {
		fprintf(stderr, "libhugemap-run.so is not loaded\n");
		return 1;
	}
	return _cmocka_run_group_tests("tests", tests, n, NULL, NULL);
}
