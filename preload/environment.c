// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "environment.h"

#include <string.h>

#define VARIABLE "LD_PRELOAD"
#define LIBRARY "/libhugemap-run.so"

const char *environment_get(char *const *environment, const char *name)
{
	size_t n = strlen(name);

	for (; environment && *environment; environment++)
		if (!strncmp(*environment, name, n) && (*environment)[n] == '=')
			return *environment + n + 1;
	return NULL;
}

static bool environment_separates(char c)
{
	return c == ':' || c == ' ';
}

/* The end of the entry of LD_PRELOAD at @at, or of the separators at @at. */
static const char *environment_end(const char *at)
{
	bool separators = environment_separates(*at);

	while (*at && environment_separates(*at) == separators)
		at++;
	return at;
}

static bool environment_is_own(const char *entry, const char *end)
{
	const size_t n = sizeof(LIBRARY) - 1;

	return end >= entry + n && !memcmp(end - n, LIBRARY, n);
}

bool environment_loads(char *const *environment)
{
	const char *value = environment_get(environment, VARIABLE), *end;

	for (; value && *value; value = end) {
		end = environment_end(value);
		if (environment_is_own(value, end))
			return true;
	}
	return false;
}

bool environment_loads_others(char *const *environment)
{
	const char *value = environment_get(environment, VARIABLE), *end;

	for (; *value; value = end) {
		end = environment_end(value);
		if (!environment_separates(*value) && !environment_is_own(value, end))
			return true;
	}
	return false;
}

/*
 * Copies all entries of @value except this library's. @to may be @value. Returns whether
 * entries are left.
 */
static bool environment_copy(const char *value, char *to)
{
	const char *at, *end, *begin = to;

	for (at = value; *at; at = end) {
		end = environment_end(at);
		if (environment_is_own(at, end))
			to -= to > begin;
		else
			to = (char *)memmove(to, at, (size_t)(end - at)) + (end - at);
	}
	*to = '\0';
	return to > begin;
}

size_t environment_room(char *const *environment)
{
	size_t n = 1;

	while (environment[n - 1])
		n++;
	return n * sizeof(char *) + sizeof(VARIABLE "=") +
	       strlen(environment_get(environment, VARIABLE));
}

char **environment_without(char *const *environment, void *room)
{
	const char *value = environment_get(environment, VARIABLE);
	char **copy = room, **to = copy, *text;
	size_t n = 0;

	while (environment[n])
		n++;
	text = (char *)(copy + n + 1);
	memcpy(text, VARIABLE "=", sizeof(VARIABLE "="));
	for (; *environment; environment++)
		if (*environment + sizeof(VARIABLE "=") - 1 != value)
			*to++ = *environment;
		else if (environment_copy(value, text + sizeof(VARIABLE "=") - 1))
			*to++ = text;
	*to = NULL;
	return copy;
}

void environment_cut(char **environment)
{
	char *value = (char *)environment_get(environment, VARIABLE);

	if (environment_copy(value, value))
		return;
	while (*environment + sizeof(VARIABLE "=") - 1 != value)
		environment++;
	do
		environment[0] = environment[1];
	while (*environment++);
}
