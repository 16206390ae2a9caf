// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The settings that `hugemap run` passes in the environment: HUGEMAP_RUN_*. The command has
 * checked them; a value that is invalid here leaves the default. They are copied, because
 * programs overwrite their environment to change their title in ps.
 */
#include "settings.h"

#include <string.h>
#include <sys/mman.h>

#include "environment.h"
#include "globs.h"
#include "preload.h"
#include "steer.h"

#define SETTINGS_GLOBS 4096

struct settings settings;

static bool settings_flag(const char *value)
{
	return value && *value && !strchr("0nN", *value);
}

static uint64_t settings_size(const char *value)
{
	static const char units[] = "KMGT";
	const char *unit;
	uint64_t size = 0;

	if (!value)
		return STEER_LEAST_DEFAULT;
	while (*value >= '0' && *value <= '9')
		size = size * 10 + (uint64_t)(*value++ - '0');
	unit = *value ? strchr(units, *value & ~0x20) : NULL;
	size = unit ? size << 10 * (unit - units + 1) : size;
	return size ? size : STEER_LEAST_DEFAULT;
}

/*
 * Returns a copy, or NULL without a value. Most processes have none, and a static buffer would
 * cost each of them a page fault.
 */
static const char *settings_text(const char *value)
{
	size_t length = value ? strlen(value) : 0;
	long at;

	if (!length || length >= SETTINGS_GLOBS)
		return NULL;
	at = call(SYS_mmap, 0, SETTINGS_GLOBS, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		  -1, 0);
	return call_failed(at) ? NULL : memcpy((char *)at, value, length);
}

/* MPI starts many equal processes. The variable that an implementation sets distinguishes them. */
static void settings_read_rank(char *const *environment)
{
	static const char variables[][24] = { "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK",
					      "SLURM_PROCID" };
	const char *rank = NULL;
	size_t i;

	for (i = 0; !rank && i < sizeof(variables) / sizeof(variables[0]); i++)
		rank = environment_get(environment, variables[i]);
	if (rank && strlen(rank) < sizeof(settings.rank))
		memcpy(settings.rank, rank, strlen(rank));
}

bool settings_select_path(const char *path)
{
	return globs_select(settings.include, settings.exclude, path);
}

bool settings_select(int fd)
{
	char link[PRELOAD_FD_PATH], path[4096];
	long n;

	if (!__atomic_load_n(&settings.users, __ATOMIC_ACQUIRE))
		return false;
	if (!settings.include && !settings.exclude)
		return true;
	n = call(SYS_readlinkat, AT_FDCWD, (long)preload_fd_path(link, fd), (long)path,
		 sizeof(path) - 1, 0, 0);
	path[n < 0 ? 0 : n] = '\0';
	return settings_select_path(path);
}

void settings_read(char *const *environment)
{
	const char *tally;

	if (settings_flag(environment_get(environment, "HUGEMAP_RUN_OFF")))
		return;
	settings.least = settings_size(environment_get(environment, "HUGEMAP_RUN_MIN_SIZE"));
	settings.verbose = settings_flag(environment_get(environment, "HUGEMAP_RUN_VERBOSE"));
	settings.override_hints =
		settings_flag(environment_get(environment, "HUGEMAP_RUN_OVERRIDE_HINTS"));
	settings.summary = settings_flag(environment_get(environment, "HUGEMAP_RUN_SUMMARY"));
	settings.include = settings_text(environment_get(environment, "HUGEMAP_RUN_INCLUDE"));
	settings.exclude = settings_text(environment_get(environment, "HUGEMAP_RUN_EXCLUDE"));
	tally = environment_get(environment, TALLY_VARIABLE);
	if (settings.summary && tally && strlen(tally) < sizeof(settings.tally))
		memcpy(settings.tally, tally, strlen(tally));
	if (settings.summary || settings.verbose)
		settings_read_rank(environment);
	settings.users = 1;
	settings.on = true;
}
