// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Small files below /proc and /sys. */
#include "system.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool read_line(const char *path, char *line, size_t size)
{
	FILE *file = fopen(path, "re");
	bool ok;

	if (!file)
		return false;
	ok = fgets(line, (int)size, file);
	fclose(file);
	if (ok)
		line[strcspn(line, "\n")] = '\0';
	return ok;
}

bool write_line(const char *path, const char *line)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return false;
	n = write(fd, line, strlen(line));
	close(fd);
	return n == (ssize_t)strlen(line);
}

bool read_field(const char *path, const char *word, unsigned long long *value)
{
	FILE *file = fopen(path, "re");
	char line[512];
	bool found = false;

	if (!file)
		return false;
	while (!found && fgets(line, sizeof(line), file))
		found = !strncmp(line, word, strlen(word)) &&
			sscanf(line + strlen(word), "%llu", value) == 1;
	fclose(file);
	return found;
}

bool read_choice(const char *path, char *choice, size_t size)
{
	char line[256], *start, *end;

	if (!read_line(path, line, sizeof(line)))
		return false;
	start = strchr(line, '[');
	end = start ? strchr(start, ']') : NULL;
	if (end)
		*end = '\0';
	snprintf(choice, size, "%s", end ? start + 1 : line);
	return true;
}

size_t smaps_bytes(const void *start, size_t length, const char *field)
{
	FILE *file = fopen("/proc/self/smaps", "re");
	uintptr_t from = (uintptr_t)start, to = from + length;
	bool inside = false;
	size_t kb = 0;
	char line[512];

	if (!file)
		return 0;
	while (fgets(line, sizeof(line), file)) {
		uintptr_t low, high;
		size_t value;

		if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &low, &high) == 2)
			inside = low < to && high > from;
		else if (inside && !strncmp(line, field, strlen(field)) &&
			 sscanf(line + strlen(field), "%zu", &value) == 1)
			kb += value;
	}
	fclose(file);
	return kb << 10;
}
