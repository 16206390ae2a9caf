/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The environment of this program and of those that it starts. */
#ifndef PRELOAD_ENVIRONMENT_H
#define PRELOAD_ENVIRONMENT_H

#include <stdbool.h>
#include <stddef.h>

/* The value of the variable @name, or NULL. @environment may be NULL. */
const char *environment_get(char *const *environment, const char *name);
/* Returns whether LD_PRELOAD names this library. The functions below require that. */
bool environment_loads(char *const *environment);
/* Returns whether LD_PRELOAD names other libraries, too. */
bool environment_loads_others(char *const *environment);
/* The number of bytes that environment_without() needs. */
size_t environment_room(char *const *environment);
/* A copy of @environment in @room, in which LD_PRELOAD does not name this library. */
char **environment_without(char *const *environment, void *room);
/*
 * Remove this library from LD_PRELOAD in place. A thread that reads the environment at the same
 * time may miss a variable.
 */
void environment_cut(char **environment);

#endif /* PRELOAD_ENVIRONMENT_H */
