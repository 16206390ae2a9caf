// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* hugemap stat: the numbers of a process, as text and as JSON. */
#include "stat_process.h"
#include "cli.h"
#include "process.h"
#include "tell.h"

#include <time.h>
#include <jansson.h>

static void stat_put_line(const char *line, void *arg)
{
	puts(line);
}

void stat_process_print(const struct process *process)
{
	printf("%d (%s)\n", process->pid, process->name);
	tell_page(&process->page, false, stat_put_line, NULL);
	fflush(stdout);
}

static json_t *stat_map_json(const struct steer_map *map)
{
	json_t *advice = json_object();
	int i;

	for (i = 0; i < STEER_ACTS; i++)
		json_object_set_new(advice, steer_act_names[i],
				    json_pack("{s:I, s:I}", "calls", (json_int_t)map->count[i],
					      "bytes", (json_int_t)map->amount[i]));
	return json_pack("{s:s, s:o, s:o, s:I, s:I, s:I, s:I, s:o}", "pattern",
			 steer_pattern_names[map->pattern], "reason", cli_json_text(map->why),
			 "file", cli_json_text(map->path), "offset", (json_int_t)map->offset,
			 "bytes", (json_int_t)map->bytes, "touched_bytes", (json_int_t)map->touched,
			 "huge_bytes", (json_int_t)map->huge, "advice", advice);
}

static json_t *stat_steer_json(const struct steer_page *page)
{
	json_t *list = json_array();
	uint32_t i;

	for (i = 0; i < STEER_PAGE_MAPS; i++)
		if (page->maps[i].id && !page->maps[i].ended)
			json_array_append_new(list, stat_map_json(&page->maps[i]));
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "scans",
			 (json_int_t)page->looks, "scan_ns", (json_int_t)page->look_ns, "advice_ns",
			 (json_int_t)page->act_ns, "minor_faults", (json_int_t)page->minflt,
			 "major_faults", (json_int_t)page->majflt, "read_bytes",
			 (json_int_t)page->read_bytes, "mapped_bytes",
			 (json_int_t)tell_mapped(page), "mappings", list);
}

json_t *stat_process_json(const struct process *process)
{
	return json_pack("{s:i, s:o, s:I, s:o}", "pid", process->pid, "name",
			 cli_json_text(process->name), "time", (json_int_t)time(NULL), "steer",
			 stat_steer_json(&process->page));
}

void stat_process_list_title(void)
{
	printf("%8s  %-16s %10s %10s\n", "PID", "NAME", "MAPPED", "HUGE");
}

void stat_process_list_line(const struct process *process)
{
	uint64_t mapped = 0, huge = 0;
	char text[2][CLI_TEXT];
	unsigned int i;

	for (i = 0; i < STEER_PAGE_MAPS; i++) {
		const struct steer_map *map = &process->page.maps[i];

		if (!map->id || map->ended)
			continue;
		mapped += map->bytes;
		huge += map->huge;
	}
	printf("%8d  %-16s %10s %10s\n", process->pid, process->name,
	       cli_bytes(text[0], (double)mapped), cli_bytes(text[1], (double)huge));
}
