// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "globs.h"

#include <fnmatch.h>
#include <string.h>

#define GLOBS_LENGTH 4096

static bool globs_match(const char *globs, const char *path)
{
	const char *base = strrchr(path, '/');
	char glob[GLOBS_LENGTH];

	base = base ? base + 1 : path;
	while (*globs) {
		const char *end = strchr(globs, ':');
		size_t length = end ? (size_t)(end - globs) : strlen(globs);

		if (length && length < sizeof(glob)) {
			memcpy(glob, globs, length);
			glob[length] = '\0';
			if (!fnmatch(glob, strchr(glob, '/') ? path : base, 0))
				return true;
		}
		globs += length + !!end;
	}
	return false;
}

bool globs_select(const char *include, const char *exclude, const char *path)
{
	return (!include || !*include || globs_match(include, path)) &&
	       !(exclude && globs_match(exclude, path));
}
