// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "environment.h"

#include <string.h>

const char *environment_get(char *const *environment, const char *name)
{
	size_t n = strlen(name);

	for (; environment && *environment; environment++)
		if (!strncmp(*environment, name, n) && (*environment)[n] == '=')
			return *environment + n + 1;
	return NULL;
}
