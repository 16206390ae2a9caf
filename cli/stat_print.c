// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* The numbers of a process, for people and for programs. */
#include "stat.h"
#include "cli.h"
#include "tell.h"

#include <errno.h>
#include <inttypes.h>
#include <time.h>
#include <jansson.h>

void stat_view_of_pool(const struct pool_file *pool, double seconds, struct stat_view *view)
{
	double told = (double)hm_atomic_read(&pool->now.updated_ms) / 1e3;

	*view = (struct stat_view){
		.engine = pool->now.engine,
		.io = pool->now.io,
		.seconds = seconds,
		.age = cli_now() - told,
		.mappings = stats_get(&pool->now, STATS_MAPPINGS),
		.io_depth = stats_get(&pool->now, STATS_IO_DEPTH),
	};
	stats_fill(&pool->now, &view->now);
	stats_fill(&pool->before, &view->before);
}

double stat_rate(const struct stat_view *view, uint64_t now, uint64_t before)
{
	return view->seconds > 0 && now > before ? (double)(now - before) / view->seconds : 0;
}

double stat_percent(uint64_t part, uint64_t whole)
{
	return whole ? 100.0 * (double)part / (double)whole : 0;
}

static void print_latency(const char *name, const struct hugemap_latency *latency)
{
	char text[5][CLI_TEXT];

	if (!latency->count) {
		printf("    %-8s %10s\n", name, "none yet");
		return;
	}
	printf("    %-8s %10" PRIu64 " %9s %9s %9s %9s %9s\n", name, latency->count,
	       cli_time(text[0], (double)latency->p50), cli_time(text[1], (double)latency->p90),
	       cli_time(text[2], (double)latency->p99), cli_time(text[3], (double)latency->p999),
	       cli_time(text[4], (double)latency->max));
}

void stat_view_print(const struct stat_view *view)
{
	const struct hugemap_stat *now = &view->now;
	char a[CLI_TEXT], b[CLI_TEXT], c[CLI_TEXT], d[CLI_TEXT];

	printf("  %s engine%s%s", view->engine, view->io[0] ? ", " : "", view->io);
	if (view->age > 2)
		printf(", idle for %.0f s", view->age);
	printf("\n  memory      pool %s, free %s, resident %s, dirty %s\n",
	       cli_bytes(a, (double)now->pool_bytes), cli_bytes(b, (double)now->free_bytes),
	       cli_bytes(c, (double)now->resident_bytes), cli_bytes(d, (double)now->dirty_bytes));
	printf("  mapped      %s in %" PRIu64 " mapping%s; %" PRIu64 " huge pages, %" PRIu64
	       " base pages\n",
	       cli_bytes(a, (double)now->mapped_bytes), view->mappings,
	       view->mappings == 1 ? "" : "s", now->huge_pages, now->base_pages);
	printf("  faults      %" PRIu64 " (%.0f/s), %.1f %% hits; %" PRIu64 " read, %" PRIu64
	       " zeroed, %" PRIu64 " first stores\n",
	       now->faults, STAT_RATE(view, faults), stat_percent(now->hits, now->faults),
	       now->fills, now->zeros, now->write_faults);
	printf("  prefetch    %" PRIu64 " ahead, %.1f %% used, %" PRIu64 " evicted unused\n",
	       now->ahead, stat_percent(now->ahead_used, now->ahead), now->ahead_wasted);
	printf("  eviction    %" PRIu64 " (%.0f/s), %" PRIu64 " came back in time\n",
	       now->evictions, STAT_RATE(view, evictions), now->rescued);
	printf("  I/O         read %s (%s/s), written %s (%s/s), %" PRIu64 " in flight\n",
	       cli_bytes(a, (double)now->read_bytes), cli_bytes(b, STAT_RATE(view, read_bytes)),
	       cli_bytes(c, (double)now->written_bytes),
	       cli_bytes(d, STAT_RATE(view, written_bytes)), view->io_depth);
	printf("  errors      %" PRIu64 " reading, %" PRIu64 " writing\n", now->read_errors,
	       now->write_errors);
	printf("  latency          count       p50       p90       p99     p99.9       max\n");
	print_latency("fault", &now->fault_ns);
	print_latency("read", &now->read_ns);
	print_latency("write", &now->write_ns);
}

static void put_line(const char *line, void *arg)
{
	puts(line);
}

void stat_print(const struct target *target)
{
	struct stat_view view;
	unsigned int i;

	if (!target->npools)
		printf("%d (%s)\n", target->pid, target->name);

	for (i = 0; i < target->npools; i++) {
		printf("%d (%s)", target->pid, target->name);
		if (target->npools > 1)
			printf(", pool %u of %u", i + 1, target->npools);
		putchar('\n');
		stat_view_of_pool(&target->pools[i], target->seconds, &view);
		stat_view_print(&view);
	}
	if (target->steer_fd >= 0)
		tell_page(&target->steer, false, put_line, NULL);
	fflush(stdout);
}

static json_t *latency_json(const struct hugemap_latency *latency)
{
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "count", (json_int_t)latency->count,
			 "p50", (json_int_t)latency->p50, "p90", (json_int_t)latency->p90, "p99",
			 (json_int_t)latency->p99, "p999", (json_int_t)latency->p999, "max",
			 (json_int_t)latency->max);
}

json_t *stat_view_json(const struct stat_view *view)
{
	const struct hugemap_stat *now = &view->now;
	const struct {
		const char *name;
		uint64_t value;
	} counts[] = {
		{ "pool_bytes", now->pool_bytes },
		{ "free_bytes", now->free_bytes },
		{ "mapped_bytes", now->mapped_bytes },
		{ "mappings", view->mappings },
		{ "resident_bytes", now->resident_bytes },
		{ "dirty_bytes", now->dirty_bytes },
		{ "huge_pages", now->huge_pages },
		{ "base_pages", now->base_pages },
		{ "faults", now->faults },
		{ "hits", now->hits },
		{ "fills", now->fills },
		{ "zeros", now->zeros },
		{ "write_faults", now->write_faults },
		{ "ahead", now->ahead },
		{ "ahead_used", now->ahead_used },
		{ "ahead_wasted", now->ahead_wasted },
		{ "evictions", now->evictions },
		{ "rescued", now->rescued },
		{ "read_bytes", now->read_bytes },
		{ "written_bytes", now->written_bytes },
		{ "read_errors", now->read_errors },
		{ "write_errors", now->write_errors },
		{ "io_in_flight", view->io_depth },
	};
	json_t *pool = json_pack("{s:s, s:s, s:f}", "engine", view->engine, "io", view->io,
				 "updated_s_ago", view->age);
	size_t i;

	for (i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
		json_object_set_new(pool, counts[i].name,
				    json_integer((json_int_t)counts[i].value));
	for (i = 0; view->count && i < MOUNT_COUNTS; i++)
		json_object_set_new(pool, mount_count_names[i],
				    json_integer((json_int_t)view->count[i]));
	if (view->count)
		json_object_set_new(
			pool, "huge_percent",
			json_real(stat_percent(view->count[MOUNT_HUGE], now->resident_bytes)));
	json_object_set_new(pool, "faults_per_s", json_real(STAT_RATE(view, faults)));
	json_object_set_new(pool, "evictions_per_s", json_real(STAT_RATE(view, evictions)));
	json_object_set_new(pool, "read_bytes_per_s", json_real(STAT_RATE(view, read_bytes)));
	json_object_set_new(pool, "written_bytes_per_s", json_real(STAT_RATE(view, written_bytes)));
	json_object_set_new(pool, "hits_percent", json_real(stat_percent(now->hits, now->faults)));
	json_object_set_new(pool, "prefetch_used_percent",
			    json_real(stat_percent(now->ahead_used, now->ahead)));
	json_object_set_new(pool, "fault_ns", latency_json(&now->fault_ns));
	json_object_set_new(pool, "read_ns", latency_json(&now->read_ns));
	json_object_set_new(pool, "write_ns", latency_json(&now->write_ns));
	return pool;
}

static json_t *steer_map_json(const struct steer_map *map)
{
	json_t *advice = json_object();
	int i;

	for (i = 0; i < STEER_ACTS; i++)
		json_object_set_new(advice, steer_act_names[i],
				    json_pack("{s:I, s:I}", "calls", (json_int_t)map->count[i],
					      "bytes", (json_int_t)map->amount[i]));
	return json_pack("{s:s, s:s, s:o, s:I, s:I, s:I, s:I, s:o}", "pattern",
			 steer_pattern_names[map->pattern], "reason", map->why, "file",
			 cli_json_text(map->path), "offset", (json_int_t)map->offset, "bytes",
			 (json_int_t)map->bytes, "touched_bytes", (json_int_t)map->touched,
			 "huge_bytes", (json_int_t)map->huge, "advice", advice);
}

static json_t *steer_json(const struct steer_page *page)
{
	json_t *list = json_array();
	uint32_t i;

	for (i = 0; i < STEER_PAGE_MAPS; i++)
		if (page->maps[i].id && !page->maps[i].ended)
			json_array_append_new(list, steer_map_json(&page->maps[i]));
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "looks",
			 (json_int_t)page->looks, "look_ns", (json_int_t)page->look_ns, "advice_ns",
			 (json_int_t)page->act_ns, "minor_faults", (json_int_t)page->minflt,
			 "major_faults", (json_int_t)page->majflt, "read_bytes",
			 (json_int_t)page->read_bytes, "mapped_bytes",
			 (json_int_t)tell_mapped(page), "mappings", list);
}

json_t *stat_json(const struct target *target)
{
	json_t *pools = json_array(), *json;
	struct stat_view view;
	unsigned int i;

	for (i = 0; i < target->npools; i++) {
		stat_view_of_pool(&target->pools[i], target->seconds, &view);
		json_array_append_new(pools, stat_view_json(&view));
	}
	json = json_pack("{s:i, s:s, s:I, s:f, s:o}", "pid", target->pid, "name", target->name,
			 "time", (json_int_t)time(NULL), "seconds", target->seconds, "pools",
			 pools);
	if (target->steer_fd >= 0)
		json_object_set_new(json, "steer", steer_json(&target->steer));
	return json;
}

void stat_list_title(void)
{
	printf("%8s  %-16s %10s %10s %10s %10s\n", "PID", "NAME", "POOL", "MAPPED", "RESIDENT",
	       "DIRTY");
}

/* Steered: the page cache is Linux's, so there is no pool, and nothing is dirty here. */
static void list_steered(const struct target *target)
{
	uint64_t mapped = 0;
	char text[CLI_TEXT];
	unsigned int i;

	for (i = 0; i < STEER_PAGE_MAPS; i++)
		if (target->steer.maps[i].id && !target->steer.maps[i].ended)
			mapped += target->steer.maps[i].bytes;
	printf("%8d  %-16s %10s %10s %10s %10s\n", target->pid, target->name, "steered",
	       cli_bytes(text, (double)mapped), "-", "-");
}

void stat_list_print(const struct target *target)
{
	char text[4][CLI_TEXT];
	unsigned int i;

	if (target->steer_fd >= 0)
		list_steered(target);

	for (i = 0; i < target->npools; i++) {
		struct hugemap_stat stat;

		stats_fill(&target->pools[i].now, &stat);
		printf("%8d  %-16s %10s %10s %10s %10s\n", target->pid, target->name,
		       cli_bytes(text[0], (double)stat.pool_bytes),
		       cli_bytes(text[1], (double)stat.mapped_bytes),
		       cli_bytes(text[2], (double)stat.resident_bytes),
		       cli_bytes(text[3], (double)stat.dirty_bytes));
	}
}

void stat_wait(double seconds)
{
	struct timespec ts = {
		.tv_sec = (time_t)seconds,
		.tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9),
	};

	while (nanosleep(&ts, &ts) < 0 && errno == EINTR)
		;
}

void stat_put_json(json_t *object, bool line)
{
	if (line) {
		json_dumpf(object, stdout, JSON_COMPACT | JSON_REAL_PRECISION(6));
		putchar('\n');
		fflush(stdout);
	} else {
		cli_write_json(stdout, object);
	}
	json_decref(object);
}
