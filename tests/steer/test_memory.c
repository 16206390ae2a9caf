// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* The limits of memory control groups (version 2), read from a directory of the test. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "memory.h"

#define MB (1ull << 20)
#define LESS(bytes) ((bytes) - (bytes) / 8) /* the part that is left for the page cache */

/* It contains the groups parent/ and parent/child/, and "cgroup", the child's /proc/PID/cgroup. */
static char dir[32];

static const char *path_of(const char *name)
{
	static char path[64];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

static void write_file(const char *name, const char *text)
{
	FILE *file = fopen(path_of(name), "w");

	assert_non_null(file);
	fputs(text, file);
	assert_int_equal(fclose(file), 0);
}

static uint64_t memory(void)
{
	return memory_for_cache_of(path_of("cgroup"));
}

static void lowest_limit_counts(void **state)
{
	uint64_t without;

	if (access("/sys/fs/cgroup", F_OK))
		skip();
	write_file("parent/memory.max", "max\n");
	write_file("parent/memory.high", "max\n");
	write_file("parent/child/memory.max", "max\n");
	write_file("parent/child/memory.high", "max\n");
	without = memory();
	assert_true(without > LESS(8 * MB));
	write_file("parent/child/memory.max", "8388608\n");
	assert_int_equal(memory(), LESS(8 * MB));
	write_file("parent/child/memory.high", "4194304\n");
	assert_int_equal(memory(), LESS(4 * MB));
	write_file("parent/memory.high", "2097152\n");
	assert_int_equal(memory(), LESS(2 * MB));
	write_file("parent/memory.max", "1048576\n");
	assert_int_equal(memory(), LESS(1 * MB));
}

static void evicted_files_are_counted(void **state)
{
	uint64_t bytes = memory_read_again();
	FILE *file = fopen("/proc/vmstat", "re");
	unsigned long long pages = 0;
	char line[128];

	assert_non_null(file);
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "workingset_refault_file %llu", &pages) == 1)
			break;
	fclose(file);
	/* Other programs may read meanwhile. */
	assert_true(bytes <= pages * 4096 && bytes >= pages / 2 * 4096);
}

static int make_groups(void **state)
{
	char text[80];

	strcpy(dir, "/tmp/hugemap-memory-XXXXXX");
	if (!mkdtemp(dir) || mkdir(path_of("parent"), 0700) || mkdir(path_of("parent/child"), 0700))
		return -1;
	/* Paths are relative to /sys/fs/cgroup. */
	snprintf(text, sizeof(text), "0::/../../..%s/parent/child\n", dir);
	write_file("cgroup", text);
	return 0;
}

static int remove_groups(void **state)
{
	static const char *const names[] = {
		"parent/child/memory.max",
		"parent/child/memory.high",
		"parent/child",
		"parent/memory.max",
		"parent/memory.high",
		"parent",
		"cgroup",
		"",
	};
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		remove(path_of(names[i]));
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(lowest_limit_counts, make_groups, remove_groups),
		cmocka_unit_test(evicted_files_are_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
