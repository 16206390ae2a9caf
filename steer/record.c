// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "record.h"

#include "call.h"
#include "say.h"
#include "uapi.h"

#include <string.h>

bool record_verbose;
const char *record_rank = "";
struct steer_page *record_page;

void record_missed(void)
{
	if (record_page)
		record_page->missed++;
}

static struct steer_map *record_free_entry(void)
{
	struct steer_map *found = NULL, *at;

	for (at = record_page->maps; at < record_page->maps + STEER_PAGE_MAPS; at++) {
		if (!at->id)
			return at;
		/*
		 * An ended mapping keeps its entry until no free one is left. Then the oldest one
		 * is reused.
		 */
		if (at->ended && (!found || at->id < found->id))
			found = at;
	}
	return found;
}

struct steer_map *record_begin(const struct steer_map *content)
{
	static u64 last_id;
	struct steer_map *told = record_page ? record_free_entry() : NULL;

	if (!told) {
		record_missed();
		return NULL;
	}
	*told = *content;
	__atomic_store_n(&told->id, ++last_id, __ATOMIC_RELEASE);
	return told;
}

void record_end(struct steer_map *told)
{
	if (told && !told->ended)
		told->ended = 1;
}

void record_count(struct steer_map *told, enum steer_act act, u64 bytes)
{
	if (!told)
		return;
	told->count[act]++;
	told->amount[act] += bytes;
}

void record_pattern(struct steer_map *told, enum steer_pattern pattern)
{
	if (told && told->pattern != STEER_HINTED)
		told->pattern = pattern;
}

/*
 * The program may close or reuse its descriptor 2 at any time. So copy it for each line, and close
 * the copy after the line.
 */
static void record_write_error(const struct say *say)
{
	long pid = call(SYS_getpid, 0, 0, 0, 0, 0, 0);
	long process = call(SYS_pidfd_open, pid, 0, 0, 0, 0, 0), fd;

	if (process < 0)
		return;
	fd = call(SYS_pidfd_getfd, process, 2, 0, 0, 0, 0);
	if (fd >= 0) {
		call(SYS_write, fd, (long)say->text, (long)say->length, 0, 0, 0);
		call(SYS_close, fd, 0, 0, 0, 0, 0);
	}
	call(SYS_close, process, 0, 0, 0, 0, 0);
}

/* "hugemap run: PID: SUBJECT: WHAT" */
static void record_print(const char *subject, const char *what)
{
	struct say say;
	char line[400];

	say_into(&say, line, sizeof(line));
	say_begin(&say, (uint64_t)call(SYS_getpid, 0, 0, 0, 0, 0, 0), record_rank);
	say_text(&say, subject);
	say_text(&say, ": ");
	say_text(&say, what);
	say_text(&say, "\n");
	record_write_error(&say);
}

void record_result(long result)
{
	if ((result != -EPERM && result != -EACCES) || !record_page || record_page->refused)
		return;
	if (record_verbose)
		record_print("steering", "a filter of system calls refuses scans or advice");
	/* Once this is visible, the program may end at any time: print the line before. */
	record_page->refused = 1;
}

void record_why(struct steer_map *told, const char *what, const char *why)
{
	struct say say;

	if (!told)
		return;
	say_into(&say, told->why, sizeof(told->why));
	say_text(&say, what);
	say_text(&say, ": ");
	say_text(&say, why);
	if (record_verbose)
		record_print(told->path[0] ? told->path : "a mapping", told->why);
}

void record_not_steered(struct steer_map *told, const char *why)
{
	record_why(told, "not steered", why);
	if (told)
		told->ended = STEER_NOT_STEERED;
}
