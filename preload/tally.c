// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "tally.h"

#include <fcntl.h>
#include <stdint.h>
#include <sys/stat.h>

#include "call.h"
#include "say.h"

/* Read a number and the character after it. Return the text after that, or NULL. */
static const char *tally_number(const char *text, char end, uint64_t *number)
{
	*number = 0;
	for (; text && *text >= '0' && *text <= '9'; text++)
		*number = *number * 10 + (uint64_t)(*text - '0');
	return text && *text == end ? text + 1 : NULL;
}

void tally_add(const char *pipe, unsigned char byte)
{
	uint64_t pid, number, inode;
	struct stat st;
	struct say say;
	char path[64];
	long fd;

	pipe = tally_number(tally_number(tally_number(pipe, ':', &pid), ':', &number), '\0',
			    &inode);
	if (!pipe)
		return;
	say_into(&say, path, sizeof(path));
	say_text(&say, "/proc/");
	say_number(&say, pid);
	say_text(&say, "/fd/");
	say_number(&say, number);
	/* In another PID name space the path may name a file of an unrelated program. */
	if (call(SYS_newfstatat, AT_FDCWD, (long)path, (long)&st, 0, 0, 0) ||
	    !S_ISFIFO(st.st_mode) || st.st_ino != inode)
		return;
	fd = call(SYS_openat, AT_FDCWD, (long)path, O_WRONLY | O_NONBLOCK | O_CLOEXEC, 0, 0, 0);
	if (fd < 0)
		return;
	call(SYS_write, fd, (long)&byte, 1, 0, 0, 0);
	call(SYS_close, fd, 0, 0, 0, 0, 0);
}
