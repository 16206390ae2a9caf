// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The text of the statistics. The program shares that memory and may have written anything to
 * it, so texts are cut to their size and indices are checked.
 */
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "tell.h"

#define TEXT 24
#define LINE 512

static const char *tell_bytes(char text[TEXT], uint64_t value)
{
	static const char units[][3] = { "B", "kB", "MB", "GB", "TB" };
	double number = (double)value;
	size_t unit = 0;

	while (number >= 1000 && unit < 4) {
		number /= 1024;
		unit++;
	}
	snprintf(text, TEXT, number < 10 && unit ? "%.1f %s" : "%.0f %s", number, units[unit]);
	return text;
}

static const char *tell_duration(char text[TEXT], uint64_t ns)
{
	if (ns < 1000000)
		snprintf(text, TEXT, "%.0f us", (double)ns / 1e3);
	else if (ns < 1000000000)
		snprintf(text, TEXT, "%.0f ms", (double)ns / 1e6);
	else
		snprintf(text, TEXT, "%.1f s", (double)ns / 1e9);
	return text;
}

uint64_t tell_mapped(const struct steer_page *page)
{
	uint64_t sum = 0;
	unsigned int i;

	for (i = 0; i < STEER_PAGE_MAPS; i++)
		if (page->maps[i].id)
			sum += page->maps[i].touched;
	return sum;
}

static size_t tell_add(char line[LINE], size_t at, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static size_t tell_add(char line[LINE], size_t at, const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(line + at, LINE - at, format, args);
	va_end(args);
	return n < 0 ? at : at + (size_t)n < LINE ? at + (size_t)n : LINE - 1;
}

/* "advised: random 512 MB in 3" */
static void tell_acts(char line[LINE], const struct steer_map *map)
{
	char text[TEXT];
	size_t at = tell_add(line, 0, "      advised: ");
	const size_t start = at;
	int i;

	for (i = 0; i < STEER_ACTS; i++)
		if (map->count[i])
			at = tell_add(line, at, "%s%s %s in %llu", at == start ? "" : ", ",
				      steer_act_names[i], tell_bytes(text, map->amount[i]),
				      (unsigned long long)map->count[i]);
	if (at == start)
		at = tell_add(line, at, "nothing");
	if (map->why[0])
		tell_add(line, at, "; %.*s", (int)sizeof(map->why), map->why);
}

static void tell_map(const struct steer_map *map, char line[LINE])
{
	const char *pattern = map->pattern < STEER_PATTERNS ? steer_pattern_names[map->pattern] :
							      "unknown";
	char a[TEXT], b[TEXT], c[TEXT];
	size_t at = tell_add(line, 0, "    %-8s %8s, ", pattern, tell_bytes(a, map->bytes));

	if ((map->pattern == STEER_HINTED || map->ended == STEER_NOT_STEERED) && !map->touched)
		at = tell_add(line, at, "not scanned");
	else
		at = tell_add(line, at, "%8s touched", tell_bytes(b, map->touched));
	if (map->huge)
		at = tell_add(line, at, ", %s in huge pages", tell_bytes(c, map->huge));
	else if (map->huge_works == 2)
		at = tell_add(line, at, ", no huge pages here");
	tell_add(line, at, "  %.*s%s", (int)sizeof(map->path), map->path,
		 map->ended == 1 ? " (ended)" : "");
}

/*
 * Returns whether tell_mapped() counts the pages of all mappings. Mappings with hints of the
 * program are scanned once a second, and a filter of system calls may refuse scans.
 */
static bool tell_scans_all(const struct steer_page *page)
{
	unsigned int i;

	for (i = 0; i < STEER_PAGE_MAPS; i++)
		if (page->maps[i].id && page->maps[i].pattern == STEER_HINTED)
			return false;
	return !page->missed && !page->refused;
}

void tell_page(const struct steer_page *page, bool ended, void (*put)(const char *line, void *arg),
	       void *arg)
{
	uint64_t mapped = tell_mapped(page);
	char line[LINE], a[TEXT], b[TEXT], c[TEXT];
	unsigned int i;
	size_t at;

	at = tell_add(line, 0, "  steered     %llu scan%s took %s of CPU time, advice took %s%s",
		      (unsigned long long)page->looks, page->looks == 1 ? "" : "s",
		      tell_duration(a, page->look_ns), tell_duration(b, page->act_ns),
		      page->running ? "" : "; not watched now");
	put(line, arg);
	tell_add(line, 0, "  faults      %llu, of them %llu that waited for the device",
		 (unsigned long long)(page->minflt + page->majflt),
		 (unsigned long long)page->majflt);
	put(line, arg);
	if (page->refused)
		put("  limited     a filter of system calls refuses scans or advice", arg);
	at = tell_add(line, 0, "  read        %s by the process, %s mapped",
		      tell_bytes(a, page->read_bytes), tell_bytes(b, mapped));
	if (page->read_bytes > mapped && tell_scans_all(page))
		tell_add(line, at, ": %s not used", tell_bytes(c, page->read_bytes - mapped));
	put(line, arg);
	put("  mappings", arg);
	for (i = 0; i < STEER_PAGE_MAPS; i++) {
		const struct steer_map *map = &page->maps[i];

		if (!map->id || (map->ended && !ended))
			continue;
		tell_map(map, line);
		put(line, arg);
		tell_acts(line, map);
		put(line, arg);
	}
	if (page->missed) {
		tell_add(line, 0, "    and %u more", page->missed);
		put(line, arg);
	}
}
