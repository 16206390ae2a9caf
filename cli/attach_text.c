// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* hugemap attach: lines of text, for the screen and for the summary. */
#include "attach_print.h"
#include "attach_state.h"
#include "cli.h"
#include "lines.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

struct report {
	const struct attach *attach;
	const struct text_settings *settings;
	struct lines *lines;
};

/* Add sentences, broken into lines of 80 columns or less. */
static void text_add_sentences(struct report *report, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void text_add_sentences(struct report *report, const char *format, ...)
{
	unsigned int width = report->lines->width;
	char text[LINE_BYTES], *from = text, *at, *space;
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	width = width > 80 ? 80 : width < 24 ? 24 : width;
	while (*from) {
		space = NULL;
		for (at = from; *at && at < from + width - 2; at++)
			if (*at == ' ')
				space = at;
		if (*at && space) {
			*space = '\0';
			at = space + 1;
		}
		lines_add(report->lines, LINE_USER, "  %.*s", (int)(at - from), from);
		from = at;
	}
}

/* --- the process --- */

static double text_rate(uint64_t now, uint64_t before, double seconds)
{
	return seconds > 0 ? (double)(now - before) / seconds : 0;
}

static void text_add_process(struct report *report)
{
	const struct attach *attach = report->attach;
	const struct usage *now = &attach->now;
	const struct usage *from = report->settings->final ? &attach->begin : &attach->recent;
	double seconds = now->at - from->at;
	char text[2][CLI_TEXT];

	lines_add(report->lines, LINE_TITLE, "hugemap attach: %s (%d), watched for %.1f s, %s",
		  attach->name, attach->pid, now->at,
		  attach->advising	  ? "advising" :
		  attach->settings.advise ? "watching for a second before advice" :
					    "without advice");
	lines_add(report->lines, LINE_SUM,
		  "  %.0f page faults/s, of which %.0f/s waited for a device; %s/s read",
		  text_rate(now->minor + now->major, from->minor + from->major, seconds),
		  text_rate(now->major, from->major, seconds),
		  cli_bytes(text[0], text_rate(now->read_bytes, from->read_bytes, seconds)));
	lines_add(report->lines, LINE_SUM,
		  "  %s/s of files mapped by page faults; scans took %.1f %% of a processor",
		  cli_bytes(text[1],
			    text_rate(now->touched, from->touched, seconds) * (double)PAGE_BYTES),
		  now->at > 0 ? (double)attach->watch_ns / now->at / 1e7 : 0.0);
}

/* --- a mapping --- */

static void text_add_picture(struct report *report, const struct watched *map,
			     const uint64_t column[PICTURE_COLUMNS])
{
	bool unicode = report->settings->unicode;
	const struct picture *picture = &map->picture;
	char cells[PICTURE_TEXT], text[2][CLI_TEXT];
	unsigned int row;

	if (map->touched) {
		for (row = 0; row < picture->rows; row++) {
			picture_row(picture, row, unicode, cells);
			lines_add(report->lines, LINE_USER, "  %6.*f s |%s|",
				  picture->row_seconds < 1 ? 2 : 0, row * picture->row_seconds,
				  cells);
		}
	}
	if (!map->ended) {
		picture_strip(column, picture->pages, unicode, cells);
		lines_add(report->lines, LINE_USER, "    mapped |%s|", cells);
	}
	lines_add(report->lines, LINE_NOTE, "  left to right: the file, %s a cell; downward: time",
		  cli_bytes(text[0], (double)watched_bytes(map) / PICTURE_COLUMNS));
	lines_add(report->lines, LINE_NOTE, "  %s", picture_legend(unicode, 0));
	if (map->touched)
		lines_add(report->lines, LINE_NOTE, "  %s", picture_legend(unicode, 1));
}

/* The current pattern; in the summary, the pattern of most scans. */
static enum hm_pattern text_pattern(const struct report *report, const struct watched *map)
{
	if (!map->touched)
		return HM_PATTERN_UNKNOWN;
	return report->settings->final ? watched_pattern(map) : map->advisor.pattern;
}

static const struct usage *text_since(const struct report *report)
{
	const struct attach *attach = report->attach;

	if (!report->settings->final)
		return &attach->recent;
	return attach->first.at < 0 ? &attach->begin : &attach->first;
}

/*
 * Was the data in the page cache when the process accessed it, so that advice can save no wait?
 * Linux reads streams ahead, so the process may read from the device without a wait. If this
 * command has read ahead, the waits that it saved are not known.
 */
static bool text_is_cached(const struct report *report, const struct watched *map)
{
	const struct usage *from = text_since(report), *now = &report->attach->now;
	enum hm_pattern pattern = text_pattern(report, map);
	bool ahead = pattern == HM_PATTERN_STREAM || pattern == HM_PATTERN_STREAMS;

	return map->touched && !map->ahead_calls && !usage_waits(from, now) &&
	       (ahead || !usage_reads(from, now));
}

static void text_add_pattern(struct report *report, const struct watched *map)
{
	struct hm_advisor used = { .pattern = text_pattern(report, map) };
	char text[CLI_TEXT];

	if (text_is_cached(report, map) &&
	    (used.pattern == HM_PATTERN_CHUNKS || used.pattern == HM_PATTERN_RANDOM))
		text_add_sentences(
			report,
			"cached: its data was in memory, and Linux maps up to 16 of its pages at a "
			"fault, so the pattern is not visible; page faults mapped %s.",
			cli_bytes(text, (double)map->touched * PAGE_BYTES));
	else if (map->touched)
		text_add_sentences(report, "%s: %s; page faults mapped %s.",
				   watched_pattern_name(used.pattern), hm_advisor_why(&used),
				   cli_bytes(text, (double)map->touched * PAGE_BYTES));
	else if (map->ended)
		text_add_sentences(report, "Not used while it was watched.");
	else
		text_add_sentences(
			report,
			"quiet: page faults mapped nothing. The program does not use it, or all "
			"that it uses is mapped.");
}

/* Which advice helps, and which command can give it. */
static void text_add_help(struct report *report, const struct watched *map)
{
	const struct usage *from = text_since(report), *now = &report->attach->now;
	bool advise = report->attach->settings.advise;
	const char *done = advise ? "done here" : "`hugemap attach`";

	if (text_is_cached(report, map)) {
		text_add_sentences(report, "%s only %.1f faults a second waited for a device.",
				   usage_reads(from, now) ?
					   "Little to gain: Linux reads it ahead, and" :
					   "Nothing to gain:",
				   text_rate(now->major, from->major, now->at - from->at));
		return;
	}
	switch (text_pattern(report, map)) {
	case HM_PATTERN_STREAM:
	case HM_PATTERN_STREAMS:
	case HM_PATTERN_BACKWARD:
		if (map->in_huge) {
			text_add_sentences(
				report,
				"Left to Linux: it reads most of the mapping in huge pages, and "
				"reading ahead from outside would use pages of 4 KB.");
			break;
		}
		text_add_sentences(
			report,
			"Helps: reading ahead (%s); 2 MB pages where the file system has them "
			"(`hugemap run`, when the program is started).",
			done);
		break;
	case HM_PATTERN_STRIDED:
		text_add_sentences(
			report, "Helps: reading the next ones ahead, each by itself (%s).", done);
		break;
	case HM_PATTERN_CHUNKS:
		text_add_sentences(
			report, "Helps: 2 MB at the first touch (MADV_HUGEPAGE and MADV_RANDOM). "
				"That is advice from within: `hugemap run`.");
		break;
	case HM_PATTERN_RANDOM:
		if (map->read_ahead_kb)
			text_add_sentences(
				report,
				"Helps: reading single pages (MADV_RANDOM); now a fault that waits "
				"reads up to %llu KB (read_ahead_kb). That is advice from within: "
				"`hugemap run`.",
				map->read_ahead_kb);
		else
			text_add_sentences(
				report, "Helps: reading single pages (MADV_RANDOM). That is advice "
					"from within: `hugemap run`.");
		break;
	default:
		break;
	}
}

static void text_add_done(struct report *report, const struct watched *map)
{
	char text[CLI_TEXT];

	if (map->ahead_calls)
		text_add_sentences(report, "Done: read %s ahead (MADV_WILLNEED, %llu times).",
				   cli_bytes(text, (double)map->ahead_bytes),
				   (unsigned long long)map->ahead_calls);
	else if (report->attach->advising && map->touched)
		text_add_sentences(report, "Done: nothing.");
}

static void text_add_hint_cost(struct report *report, const struct watched *map)
{
	char cost[128];
	const char *name = watched_hint_cost(report->attach, map, cost, sizeof(cost));

	if (name)
		text_add_sentences(report,
				   "%s costs time: %s. `hugemap run --override-hints` replaces it.",
				   name, cost);
}

static void text_add_map(struct report *report, const struct watched *map, bool picture)
{
	uint64_t column[PICTURE_COLUMNS], pages = watched_resident(map, column);
	char text[3][CLI_TEXT], hints[64], from[48] = "";

	lines_add(report->lines, LINE_USER, "%s", "");
	lines_add(report->lines, LINE_ROW, "%s", map->area.path);
	if (map->area.offset)
		snprintf(from, sizeof(from), " from byte %llu on",
			 (unsigned long long)map->area.offset);
	if (map->ended)
		text_add_sentences(report, "%s; not mapped any more",
				   cli_bytes(text[0], watched_bytes(map)));
	else
		text_add_sentences(report, "%s%s, %s; %s mapped now, %s of it in huge pages",
				   cli_bytes(text[0], (double)watched_bytes(map)), from,
				   !map->area.writable ? "only read" :
				   map->area.shared    ? "writable" :
							 "private and writable",
				   cli_bytes(text[1], (double)pages * PAGE_BYTES),
				   cli_bytes(text[2], (double)map->huge));
	if (map->area.hints)
		text_add_sentences(report, "The program gives advice here itself (%s): left alone.",
				   hints_text(map->area.hints, hints));
	text_add_pattern(report, map);
	text_add_hint_cost(report, map);
	if (!map->area.hints)
		text_add_help(report, map);
	if (report->attach->settings.advise)
		text_add_done(report, map);
	if (picture)
		text_add_picture(report, map, column);
}

/* --- gain --- */

static double text_per_gb(uint64_t faults, uint64_t pages)
{
	return pages ? (double)faults / ((double)pages * PAGE_BYTES / (1 << 30)) : 0;
}

static void text_add_gain(struct report *report)
{
	const struct usage *first = &report->attach->first, *advised = &report->attach->advised;
	const struct usage *now = &report->attach->now;
	uint64_t before = advised->touched - first->touched;
	uint64_t since = now->touched - advised->touched;
	char text[2][CLI_TEXT];

	if (!report->attach->advising)
		return;
	if (first->at < 0 || first->at >= advised->at || before < REGION_PAGES ||
	    since < REGION_PAGES) {
		text_add_sentences(
			report,
			"The gain is not known: page faults mapped too little before or after "
			"advice began.");
		return;
	}
	text_add_sentences(
		report,
		"Before advice: page faults mapped %s/s; %.0f faults per GB waited for a device.",
		cli_bytes(text[0], (double)before * PAGE_BYTES / (advised->at - first->at)),
		text_per_gb(advised->major - first->major, before));
	text_add_sentences(report, "Since then: %s/s; %.0f faults per GB waited.",
			   cli_bytes(text[1], (double)since * PAGE_BYTES / (now->at - advised->at)),
			   text_per_gb(now->major - advised->major, since));
}

/* --- the text --- */

static int text_compare_use(const void *a, const void *b)
{
	const struct watched *x = *(struct watched *const *)a, *y = *(struct watched *const *)b;

	if (x->touched != y->touched)
		return x->touched < y->touched ? 1 : -1;
	if (x->ended != y->ended)
		return x->ended ? 1 : -1;
	return watched_bytes(x) < watched_bytes(y) ? 1 :
	       watched_bytes(x) > watched_bytes(y) ? -1 :
						     0;
}

void text_build(const struct attach *attach, const struct text_settings *settings,
		struct lines *lines)
{
	struct report report = { .attach = attach, .settings = settings, .lines = lines };
	const struct watched *maps[ATTACH_MAPS];
	char min_size[CLI_TEXT];
	size_t i;

	lines->width = settings->width;
	memcpy(maps, attach->maps, attach->count * sizeof(*maps));
	qsort(maps, attach->count, sizeof(*maps), text_compare_use);
	text_add_process(&report);
	for (i = 0; i < attach->count && i < settings->maps; i++)
		text_add_map(&report, maps[i], i < settings->pictures);
	lines_add(report.lines, LINE_USER, "%s", "");
	if (!attach->count)
		text_add_sentences(&report, "It has no file mapping of %s or more%s.",
				   cli_bytes(min_size, (double)attach->settings.min_size),
				   settings->final ? "" : " yet");
	if (i < attach->count)
		text_add_sentences(&report, "And %zu more, which were used less.",
				   attach->count - i);
	if (attach->missed)
		text_add_sentences(&report, "There was no room to watch %u more.", attach->missed);
	if (attach->steered)
		text_add_sentences(
			&report,
			"It runs under `hugemap run`, which does all of this from within: "
			"see `hugemap stat %d`.",
			attach->pid);
	if (settings->final)
		text_add_gain(&report);
}
