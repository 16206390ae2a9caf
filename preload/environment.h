/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The environment of this program. */
#ifndef PRELOAD_ENVIRONMENT_H
#define PRELOAD_ENVIRONMENT_H

#include <stddef.h>

/* The value of the variable @name, or NULL. @environment may be NULL. */
const char *environment_get(char *const *environment, const char *name);

#endif /* PRELOAD_ENVIRONMENT_H */
