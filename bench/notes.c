// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Notes and errors, which are printed at the end, and the handler of signals. */
#include "bench.h"

#include <signal.h>
#include <stdarg.h>
#include <string.h>

static volatile sig_atomic_t interrupted;

static void notes_interrupt(int signal)
{
	interrupted = signal;
}

void bench_catch_signals(void)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction action = { .sa_handler = notes_interrupt };
	size_t i;

	for (i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		sigaction(signals[i], &action, NULL);
}

bool bench_interrupted(void)
{
	return interrupted;
}

bool bench_progress(struct bench *bench, const char *what, double share)
{
	cli_progress("[%u of %u] %s: %.0f %%", bench->runs_done, bench->runs_planned, what,
		     100 * share);
	return !interrupted;
}

static void notes_add(char (*texts)[256], unsigned int *n, unsigned int max, const char *format,
		      va_list args)
{
	char text[256];
	unsigned int i;

	vsnprintf(text, sizeof(text), format, args);
	for (i = 0; i < *n; i++)
		if (!strncmp(texts[i], text, 12))
			return; /* the same note with another number */
	if (*n < max)
		memcpy(texts[(*n)++], text, sizeof(text));
}

void bench_note(struct bench *bench, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	notes_add(bench->notes, &bench->nnotes, sizeof(bench->notes) / sizeof(bench->notes[0]),
		  format, args);
	va_end(args);
}

void bench_error(struct bench *bench, const char *format, ...)
{
	va_list args;

	if (bench->nerrors == sizeof(bench->errors) / sizeof(bench->errors[0]))
		return;
	va_start(args, format);
	vsnprintf(bench->errors[bench->nerrors++], sizeof(bench->errors[0]), format, args);
	va_end(args);
}
