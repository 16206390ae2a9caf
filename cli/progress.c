// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* One line of progress on standard error. */
#include "cli.h"

#include <stdarg.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define FIRST_AFTER 2.0 /* seconds, without a terminal */
#define NEXT_AFTER 30.0

static bool shown;

static void progress_rewrite_line(const char *text)
{
	struct winsize size;
	int width = 80;

	if (!ioctl(STDERR_FILENO, TIOCGWINSZ, &size) && size.ws_col > 1)
		width = size.ws_col;
	fprintf(stderr, "\r\033[K%.*s", width - 1, text);
	fflush(stderr);
	shown = true;
}

void cli_progress(const char *format, ...)
{
	static double started, printed;
	char text[256];
	double now = cli_now();
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (isatty(STDERR_FILENO)) {
		progress_rewrite_line(text);
		return;
	}
	if (!started)
		started = now;
	if (now - started < FIRST_AFTER || (printed && now - printed < NEXT_AFTER))
		return;
	printed = now;
	fprintf(stderr, "%s\n", text);
}

void cli_progress_clear(void)
{
	if (shown)
		fputs("\r\033[K", stderr);
	shown = false;
}
