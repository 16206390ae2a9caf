// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Sizes and times as text, waiting, and JSON. */
#include "cli.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <jansson.h>

const char *cli_bytes(char text[CLI_TEXT], double bytes)
{
	static const char *const units[] = { "B", "KB", "MB", "GB", "TB", "PB" };
	unsigned int i = 0;

	while (bytes >= 1024 && i + 1 < sizeof(units) / sizeof(units[0])) {
		bytes /= 1024;
		i++;
	}
	snprintf(text, CLI_TEXT, bytes < 10 && i ? "%.1f %s" : "%.0f %s", bytes, units[i]);
	return text;
}

const char *cli_time(char text[CLI_TEXT], double ns)
{
	if (ns < 1e3)
		snprintf(text, CLI_TEXT, "%.0f ns", ns);
	else if (ns < 1e6)
		snprintf(text, CLI_TEXT, ns < 1e5 ? "%.1f us" : "%.0f us", ns / 1e3);
	else if (ns < 1e9)
		snprintf(text, CLI_TEXT, ns < 1e8 ? "%.1f ms" : "%.0f ms", ns / 1e6);
	else
		snprintf(text, CLI_TEXT, "%.1f s", ns / 1e9);
	return text;
}

double cli_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

void cli_sleep(double seconds)
{
	struct timespec ts = {
		.tv_sec = (time_t)seconds,
		.tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9),
	};

	while (nanosleep(&ts, &ts) < 0 && errno == EINTR)
		;
}

int cli_write_json(FILE *to, const struct json_t *json)
{
	if (json_dumpf(json, to, JSON_INDENT(2) | JSON_REAL_PRECISION(6)) < 0)
		return -EIO;
	if (fputc('\n', to) == EOF || fflush(to) == EOF)
		return -errno;
	return 0;
}

void cli_print_json(json_t *object, bool line)
{
	if (line) {
		json_dumpf(object, stdout, JSON_COMPACT | JSON_REAL_PRECISION(6));
		putchar('\n');
		fflush(stdout);
	} else {
		cli_write_json(stdout, object);
	}
	json_decref(object);
}

struct json_t *cli_json_text(const char *text)
{
	json_t *json = json_string(text);
	char *copy, *at;

	if (json)
		return json;
	copy = strdup(text);
	for (at = copy; at && *at; at++)
		if ((unsigned char)*at >= 0x80)
			*at = '?';
	json = json_string(copy ? copy : "?");
	free(copy);
	return json;
}
