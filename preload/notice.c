// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "notice.h"

#include <errno.h>
#include <unistd.h>

#include "call.h"
#include "say.h"
#include "settings.h"
#include "tally.h"

void notice(const char *name, const char *why, unsigned char byte)
{
	struct say say;
	char line[400];

	if (!settings.verbose && !settings.summary)
		return;
	tally_add(settings.tally, byte);
	say_into(&say, line, sizeof(line) - 1);
	say_begin(&say, (uint64_t)call(SYS_getpid, 0, 0, 0, 0, 0, 0), settings.rank);
	say_text(&say, name ? name : program_invocation_short_name);
	say_text(&say, " ");
	say_text(&say, why);
	line[say.length++] = '\n';
	call(SYS_write, STDERR_FILENO, (long)line, (long)say.length, 0, 0, 0);
}
