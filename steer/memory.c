// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The memory for the page cache: the minimum of the available memory and the limits of the memory
 * cgroups of the process.
 */
#include "memory.h"

#include "call.h"
#include "say.h"

#include <stdbool.h>
#include <string.h>

#define NOT_LIMITED (1ull << 60)

static uint64_t memory_number_at(const char *text)
{
	uint64_t number = 0;

	while (*text == ' ')
		text++;
	while (*text >= '0' && *text <= '9' && number < NOT_LIMITED)
		number = number * 10 + (uint64_t)(*text++ - '0');
	return number;
}

/* Returns the limit in a file. "max" and absurd numbers are no limit. */
static uint64_t memory_limit_in(const char *directory, const char *name)
{
	char path[640], text[64];
	struct say say;

	say_into(&say, path, sizeof(path));
	say_text(&say, directory);
	say_text(&say, name);
	if (!call_read_text(path, text, sizeof(text)) || text[0] < '0' || text[0] > '9')
		return NOT_LIMITED;
	return memory_number_at(text);
}

/*
 * Returns the lowest limit of the cgroup and its ancestors, up to the mount point. Above
 * memory.high the kernel reclaims and slows the processes down, so it limits the page cache as well
 * as memory.max does. Version 1 (@old) has no equivalent of it.
 */
static uint64_t memory_limit_up(char *directory, size_t top, bool old)
{
	uint64_t limit = NOT_LIMITED, one, high;
	char *slash;

	for (;;) {
		one = memory_limit_in(directory, old ? "/memory.limit_in_bytes" : "/memory.max");
		high = old ? NOT_LIMITED : memory_limit_in(directory, "/memory.high");
		one = high < one ? high : one;
		limit = one < limit ? one : limit;
		slash = strrchr(directory, '/');
		if (!slash || (size_t)(slash - directory) < top)
			return limit;
		*slash = '\0';
	}
}

static uint64_t memory_cgroup_limit(const char *cgroup)
{
	static const char v1[] = "/sys/fs/cgroup/memory", v2[] = "/sys/fs/cgroup";
	uint64_t limit = NOT_LIMITED, one;
	char text[2048], *line, *end;

	if (!call_read_text(cgroup, text, sizeof(text)))
		return limit;
	for (line = text; *line; line = end + 1) {
		char directory[512], *controllers = strchr(line, ':'), *path;
		struct say say;
		bool old;

		end = strchr(line, '\n');
		if (!end || !controllers)
			break;
		*end = '\0';
		path = strchr(controllers + 1, ':');
		if (!path)
			break;
		*path++ = '\0';
		old = !strcmp(controllers + 1, "memory");
		if (!old && controllers[1])
			continue;
		say_into(&say, directory, sizeof(directory));
		say_text(&say, old ? v1 : v2);
		if (strcmp(path, "/"))
			say_text(&say, path);
		one = memory_limit_up(directory, old ? sizeof(v1) - 1 : sizeof(v2) - 1, old);
		limit = one < limit ? one : limit;
	}
	return limit;
}

uint64_t memory_for_cache_of(const char *cgroup)
{
	uint64_t available = 0, limit = memory_cgroup_limit(cgroup);
	char text[1024], *at;

	if (call_read_text("/proc/meminfo", text, sizeof(text))) {
		at = strstr(text, "MemAvailable:");
		if (at)
			available = memory_number_at(at + strlen("MemAvailable:")) << 10;
	}
	if (limit < NOT_LIMITED && (!available || limit < available))
		available = limit;
	/* Leave an eighth for page tables and the program itself. */
	return available - available / 8;
}

uint64_t memory_read_again(void)
{
	static const char name[] = "\nworkingset_refault_file ";
	char text[4096], *at;

	if (!call_read_text("/proc/vmstat", text, sizeof(text)))
		return 0;
	at = strstr(text, name);
	return at ? memory_number_at(at + strlen(name)) * 4096 : 0;
}

uint64_t memory_for_cache(void)
{
	return memory_for_cache_of("/proc/self/cgroup");
}
