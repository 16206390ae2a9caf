// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The settings that `hugemap run` passes in the environment: HUGEMAP_RUN_*. The command has
 * checked them; a value that is invalid here leaves the default. They are copied, because
 * programs overwrite their environment to change their title in ps.
 */
#include "preload.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "steer.h"

struct preload_settings preload;

static bool flag(const char *name)
{
	const char *value = getenv(name);

	return value && *value && strcmp(value, "0") && strcasecmp(value, "no");
}

static uint64_t size(const char *name)
{
	static const char units[] = "KMGT";
	const char *value = getenv(name), *unit;
	char *end;
	double number;

	if (!value)
		return 0;
	number = strtod(value, &end);
	unit = *end ? strchr(units, *end & ~0x20) : NULL;
	if (unit)
		number *= (double)(1ull << 10 * (unit - units + 1));
	return end == value || !(number >= 0 && number < 0x1p62) ? 0 : (uint64_t)number;
}

static void text(const char *name, char *to, size_t room)
{
	const char *value = getenv(name);

	if (value && strlen(value) < room)
		strcpy(to, value);
}

/* A glob with a slash must match the whole path, one without only the last part. */
static bool matches(const char *globs, const char *path)
{
	const char *base = strrchr(path, '/');
	char glob[sizeof(preload.include)];

	base = base ? base + 1 : path;
	while (*globs) {
		size_t length = strcspn(globs, ":");

		memcpy(glob, globs, length);
		glob[length] = '\0';
		if (length && !fnmatch(glob, strchr(glob, '/') ? path : base, 0))
			return true;
		globs += length + (globs[length] == ':');
	}
	return false;
}

bool config_wants(int fd)
{
	char link[32], path[4096];
	int saved = errno;
	bool wanted = true;
	ssize_t n;

	if (!*preload.include && !*preload.exclude)
		return true;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof(path) - 1);
	path[n < 0 ? 0 : n] = '\0';
	if (*preload.include && !matches(preload.include, path))
		wanted = false;
	if (*preload.exclude && matches(preload.exclude, path))
		wanted = false;
	errno = saved;
	return wanted;
}

void config_read(void)
{
	struct steer_settings settings = {
		.least = size("HUGEMAP_RUN_MIN_SIZE"),
		.verbose = flag("HUGEMAP_RUN_VERBOSE"),
	};

	if (flag("HUGEMAP_RUN_OFF"))
		return;
	if (!settings.least)
		settings.least = STEER_LEAST_DEFAULT;
	preload.least = settings.least;
	preload.summary = flag("HUGEMAP_RUN_SUMMARY");
	text("HUGEMAP_RUN_INCLUDE", preload.include, sizeof(preload.include));
	text("HUGEMAP_RUN_EXCLUDE", preload.exclude, sizeof(preload.exclude));
	steer_configure(&settings);
	preload.on = true;
}

/* Mappings that the program makes before this constructor runs are not reported. */
__attribute__((constructor)) static void begin(void)
{
	config_read();
	if (preload.on)
		report_open();
}
