// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * One line of /proc/self/maps, found without stdio:
 *	7f0000000000-7f0000200000 r--s 00000000 fe:00 1234    /data/file
 */
#include "area.h"

#include "call.h"

#include <fcntl.h>
#include <string.h>
#include <sys/sysmacros.h>

#define LINE 1024u

static uint64_t number(const char **text, unsigned int base)
{
	uint64_t value = 0;

	for (;; (*text)++) {
		char c = **text;
		unsigned int digit = c >= '0' && c <= '9' ? (unsigned int)(c - '0') :
				     c >= 'a' && c <= 'f' ? (unsigned int)(c - 'a') + 10 :
							    99;

		if (digit >= base)
			return value;
		value = value * base + digit;
	}
}

static const char *after(const char *text, char c, int times)
{
	while (*text && times)
		times -= *text++ == c;
	return text;
}

static bool line_is(const char *line, uint64_t address)
{
	uint64_t start = number(&line, 16), end;

	if (*line++ != '-')
		return false;
	end = number(&line, 16);
	return start <= address && address < end;
}

static void take_line(const char *line, struct area *area)
{
	uint64_t major, minor;
	size_t length;

	line = after(line, ' ', 3);
	major = number(&line, 16);
	line += *line == ':';
	minor = number(&line, 16);
	area->dev = makedev((unsigned int)major, (unsigned int)minor);
	line += *line == ' ';
	area->ino = number(&line, 10);
	line += strspn(line, " ");
	length = strlen(line);
	if (length >= sizeof(area->path))
		line += length - sizeof(area->path) + 1;
	memcpy(area->path, line, strlen(line) + 1);
}

bool area_at(uint64_t address, struct area *area)
{
	int fd = (int)call(SYS_openat, AT_FDCWD, (long)"/proc/self/maps", O_RDONLY | O_CLOEXEC, 0,
			   0, 0);
	char text[4 * LINE + 1];
	size_t have = 0;
	bool found = false, long_line = false;
	long n;

	*area = (struct area){};
	while (fd >= 0 && !found &&
	       (n = call(SYS_read, fd, (long)(text + have), (long)(4 * LINE - have), 0, 0, 0)) >
		       0) {
		char *line = text, *end;

		have += (size_t)n;
		text[have] = '\0';
		while (!found && (end = strchr(line, '\n'))) {
			*end = '\0';
			if (!long_line && line_is(line, address)) {
				take_line(line, area);
				found = true;
			}
			long_line = false;
			line = end + 1;
		}
		have -= (size_t)(line - text);
		memmove(text, line, have);
		/* Of a path that is longer than that nothing is known. */
		if (have == 4 * LINE) {
			have = 0;
			long_line = true;
		}
	}
	if (fd >= 0)
		call(SYS_close, fd, 0, 0, 0, 0, 0);
	return found;
}
