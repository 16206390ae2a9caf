// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* The constructor, and the symbols that libhugemap looks up. */
#include "preload.h"

#include "next.h"
#include "report.h"
#include "settings.h"
#include "steer.h"

/* If libhugemap finds this symbol in its process, it starts no monitor thread of its own. */
PRELOAD_EXPORT extern const char hugemap_run_version[];
const char hugemap_run_version[] = HUGEMAP_VERSION_STRING;

/* For hugemap_stat() of libhugemap: the statistics; NULL if nothing was ever steered. */
PRELOAD_EXPORT const struct steer_page *hugemap_run_page(void);

const struct steer_page *hugemap_run_page(void)
{
	return steer_own_page();
}

/*
 * Mappings that the program makes before this runs are not reported. `environ` may not be set
 * yet.
 */
__attribute__((constructor)) static void start(int argc, char **argv, char **environment)
{
	struct steer_settings steer = {};

	/* Other C libraries do not pass the environment. */
	if (!next_is_glibc())
		return;
	settings_read(environment);
	if (!settings.on)
		return;
	steer.least = settings.least;
	steer.verbose = settings.verbose;
	steer.override_hints = settings.override_hints;
	steer.rank = settings.rank;
	steer_configure(&steer);
	if (settings.summary)
		report_open();
}
