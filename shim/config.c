// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Settings, as `hugemap run` has put them into the environment: HUGEMAP_RUN_*.
 * The command checks them; what makes no sense here is left at its default.
 */
#include "shim.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

struct config shim_config;

static const char *text(const char *name)
{
	const char *value = getenv(name);

	return value && *value ? value : NULL;
}

static bool flag(const char *name)
{
	const char *value = text(name);

	return value && strcmp(value, "0") && strcmp(value, "no");
}

static uint64_t size(const char *name, uint64_t otherwise)
{
	const char *value = text(name);
	char *end;
	double number;

	if (!value)
		return otherwise;
	number = strtod(value, &end);
	switch (*end) {
	case 'T':
	case 't':
		number *= 1024;
		__attribute__((fallthrough));
	case 'G':
	case 'g':
		number *= 1024;
		__attribute__((fallthrough));
	case 'M':
	case 'm':
		number *= 1024;
		__attribute__((fallthrough));
	case 'K':
	case 'k':
		number *= 1024;
	}
	return end == value || number < 0 || number > 0x1p62 ? otherwise : (uint64_t)number;
}

void config_read(void)
{
	const char *page = text("HUGEMAP_RUN_PAGE");

	shim_config = (struct config){
		.off = flag("HUGEMAP_RUN_OFF"),
		.verbose = flag("HUGEMAP_RUN_VERBOSE"),
		.summary = flag("HUGEMAP_RUN_SUMMARY"),
		.readonly_only = flag("HUGEMAP_RUN_READONLY_ONLY"),
		.cached = flag("HUGEMAP_RUN_CACHED"),
		.random = flag("HUGEMAP_RUN_RANDOM"),
		.user_mode = flag("HUGEMAP_RUN_USER_MODE"),
		.base_pages = page && !strcasecmp(page, "4K"),
		.min_size = size("HUGEMAP_RUN_MIN_SIZE", 16ull << 20),
		.pool_bytes = size("HUGEMAP_RUN_POOL", 0),
		.include = text("HUGEMAP_RUN_INCLUDE"),
		.exclude = text("HUGEMAP_RUN_EXCLUDE"),
		.heap = text("HUGEMAP_RUN_HEAP"),
	};
	/* At least a page: a mapping of nothing is an error to be told by mmap(). */
	if (shim_config.min_size < PAGE_BYTES)
		shim_config.min_size = PAGE_BYTES;
}

/* Does one of the globs match the path? A glob without a slash: its last part. */
static bool matches(const char *globs, const char *path)
{
	const char *base = strrchr(path, '/');
	char glob[PATH_MAX];

	base = base ? base + 1 : path;
	while (*globs) {
		size_t length = strcspn(globs, ":");

		if (length && length < sizeof(glob)) {
			memcpy(glob, globs, length);
			glob[length] = '\0';
			if (!fnmatch(glob, strchr(glob, '/') ? path : base, 0))
				return true;
		}
		globs += length + (globs[length] == ':');
	}
	return false;
}

bool config_wants(const char *path)
{
	if (shim_config.include && !matches(shim_config.include, path))
		return false;
	return !shim_config.exclude || !matches(shim_config.exclude, path);
}
