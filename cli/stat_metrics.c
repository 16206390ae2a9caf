// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * hugemap stat: metrics for Prometheus. The format requires that all samples of a metric follow
 * each other, so the numbers of all processes and mounts are collected first.
 */
#include "stat_metrics.h"
#include "cli.h"
#include "mounts.h"
#include "process.h"
#include "tell.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

struct metrics_mount {
	char name[4096];
	struct mount_numbers numbers;
};

struct metrics {
	struct process *processes;
	size_t nprocesses, process_room;
	struct metrics_mount *mounts;
	size_t nmounts, mount_room;
	bool short_of_memory;
};

/* --- collecting --- */

static void metrics_add_process(const struct process *process, void *arg)
{
	struct metrics *metrics = arg;
	struct process *list = cli_grow(metrics->processes, metrics->nprocesses,
					&metrics->process_room, sizeof(*list));

	if (!list) {
		metrics->short_of_memory = true;
		return;
	}
	metrics->processes = list;
	list[metrics->nprocesses++] = *process;
}

static void metrics_add_mount(const struct mount *mount, void *arg)
{
	struct metrics *metrics = arg;
	struct metrics_mount *list =
		cli_grow(metrics->mounts, metrics->nmounts, &metrics->mount_room, sizeof(*list));

	if (!list) {
		metrics->short_of_memory = true;
		return;
	}
	metrics->mounts = list;
	list += metrics->nmounts;
	if (mount_read(mount, &list->numbers))
		return;
	if (mount->dir[0])
		snprintf(list->name, sizeof(list->name), "%s", mount->dir);
	else
		snprintf(list->name, sizeof(list->name), "%u:%u", major(mount->dev),
			 minor(mount->dev));
	metrics->nmounts++;
}

/* --- printing --- */

static void metrics_put_label(const char *name, const char *value)
{
	printf("%s=\"", name);
	for (; *value; value++) {
		if (*value == '\n') {
			fputs("\\n", stdout);
			continue;
		}
		if (*value == '"' || *value == '\\')
			putchar('\\');
		putchar(*value);
	}
	putchar('"');
}

/* @counter: the number only grows; else it is a current value. */
static void metrics_put_family(const char *name, bool counter, const char *help)
{
	printf("# TYPE hugemap_%s %s\n# HELP hugemap_%s %s\n", name, counter ? "counter" : "gauge",
	       name, help);
}

static void metrics_begin_sample(const char *name, bool counter, const struct process *process)
{
	printf("hugemap_%s%s{pid=\"%d\",", name, counter ? "_total" : "", process->pid);
	metrics_put_label("name", process->name);
}

static uint64_t metrics_faults(const struct steer_page *page)
{
	return page->minflt + page->majflt;
}

static uint64_t metrics_waits(const struct steer_page *page)
{
	return page->majflt;
}

static uint64_t metrics_read(const struct steer_page *page)
{
	return page->read_bytes;
}

static uint64_t metrics_scans(const struct steer_page *page)
{
	return page->looks;
}

static uint64_t metrics_scan_ns(const struct steer_page *page)
{
	return page->look_ns;
}

static uint64_t metrics_advice_ns(const struct steer_page *page)
{
	return page->act_ns;
}

static void metrics_print_processes(const struct metrics *metrics)
{
	static const struct {
		const char *name, *help;
		uint64_t (*value)(const struct steer_page *page);
		double unit;
	} families[] = {
		{ "process_faults", "Page faults of the process.", metrics_faults, 1 },
		{ "process_major_faults", "Page faults that waited for the device.", metrics_waits,
		  1 },
		{ "process_read_bytes", "Bytes that the process read from devices.", metrics_read,
		  1 },
		{ "process_used_bytes", "Bytes of steered files that became mapped.", tell_mapped,
		  1 },
		{ "process_scans", "Scans of page tables.", metrics_scans, 1 },
		{ "process_scan_seconds", "CPU time of the scans.", metrics_scan_ns, 1e-9 },
		{ "process_advice_seconds", "Time in calls that gave advice.", metrics_advice_ns,
		  1e-9 },
	};
	size_t i, p;

	for (i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
		metrics_put_family(families[i].name, true, families[i].help);
		for (p = 0; p < metrics->nprocesses; p++) {
			metrics_begin_sample(families[i].name, true, &metrics->processes[p]);
			printf("} %.17g\n", (double)families[i].value(&metrics->processes[p].page) *
						    families[i].unit);
		}
	}
}

/* The mappings of a process can have one file several times: the number tells them apart. */
static void metrics_begin_mapping(const char *name, bool counter, const struct process *process,
				  const struct steer_map *map)
{
	metrics_begin_sample(name, counter, process);
	printf(",mapping=\"%" PRIu64 "\",", map->id);
	metrics_put_label("file", map->path);
}

static void metrics_print_mappings(const struct metrics *metrics)
{
	static const struct {
		const char *name, *help;
		size_t field;
	} families[] = {
		{ "mapping_bytes", "Length of a steered mapping.",
		  offsetof(struct steer_map, bytes) },
		{ "mapping_huge_bytes", "Bytes of a mapping that are mapped by huge pages.",
		  offsetof(struct steer_map, huge) },
	};
	const struct steer_map *map;
	size_t i, p, act;

	for (i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
		metrics_put_family(families[i].name, false, families[i].help);
		for (p = 0; p < metrics->nprocesses; p++)
			for (map = metrics->processes[p].page.maps;
			     map < metrics->processes[p].page.maps + STEER_PAGE_MAPS; map++) {
				if (!map->id || map->ended)
					continue;
				metrics_begin_mapping(families[i].name, false,
						      &metrics->processes[p], map);
				printf(",pattern=\"%s\"} %" PRIu64 "\n",
				       steer_pattern_names[map->pattern],
				       *(const uint64_t *)((const char *)map + families[i].field));
			}
	}
	metrics_put_family("mapping_advice_bytes", true, "Bytes that got advice of a kind.");
	for (p = 0; p < metrics->nprocesses; p++)
		for (map = metrics->processes[p].page.maps;
		     map < metrics->processes[p].page.maps + STEER_PAGE_MAPS; map++)
			for (act = 0; map->id && !map->ended && act < STEER_ACTS; act++) {
				metrics_begin_mapping("mapping_advice_bytes", true,
						      &metrics->processes[p], map);
				printf(",advice=\"%s\"} %" PRIu64 "\n", steer_act_names[act],
				       map->amount[act]);
			}
}

static void metrics_put_mount(const char *name, const char *suffix,
			      const struct metrics_mount *mount)
{
	printf("hugemap_mount_%s%s{", name, suffix);
	metrics_put_label("mount", mount->name);
}

static void metrics_print_counts(const struct metrics *metrics)
{
	static const struct {
		const char *name, *help;
		bool counter;
	} families[MOUNT_COUNTS] = {
/* In the order of enum mount_count. */
#define HUGEMAP_GAUGE(id, name, help) { #name, help, false },
#define HUGEMAP_CORE(id, name, help) { #name, help, true },
#define HUGEMAP_MODULE(id, name, help) { #name, help, true },
#include "hugemap_counters.def"
	};
	char name[64];
	size_t i, m;

	for (i = 0; i < MOUNT_COUNTS; i++) {
		snprintf(name, sizeof(name), "mount_%s", families[i].name);
		metrics_put_family(name, families[i].counter, families[i].help);
		for (m = 0; m < metrics->nmounts; m++) {
			metrics_put_mount(families[i].name, families[i].counter ? "_total" : "",
					  &metrics->mounts[m]);
			printf("} %" PRIu64 "\n", metrics->mounts[m].numbers.count[i]);
		}
	}
	metrics_put_family("mount_pool_bytes", false, "Size of the pool.");
	for (m = 0; m < metrics->nmounts; m++) {
		metrics_put_mount("pool_bytes", "", &metrics->mounts[m]);
		printf("} %" PRIu64 "\n", metrics->mounts[m].numbers.pool_bytes);
	}
}

static void metrics_print_latencies(const struct metrics *metrics)
{
	static const char *const helps[MOUNT_HISTOGRAMS] = {
#define HUGEMAP_LATENCY(id, name, help) help,
#include "hugemap_counters.def"
	};
	char name[64];
	size_t i, m, q;

	for (i = 0; i < MOUNT_HISTOGRAMS; i++) {
		/* "fault_ns" is printed in seconds. */
		snprintf(name, sizeof(name), "%.*sseconds",
			 (int)strlen(mount_histogram_names[i]) - 2, mount_histogram_names[i]);
		printf("# TYPE hugemap_mount_%s summary\n# HELP hugemap_mount_%s %s\n", name, name,
		       helps[i]);
		for (m = 0; m < metrics->nmounts; m++) {
			const struct mount_latency *latency =
				&metrics->mounts[m].numbers.latency[i];
			const struct {
				const char *quantile;
				uint64_t ns;
			} quantiles[] = { { "0.5", latency->p50 },
					  { "0.9", latency->p90 },
					  { "0.99", latency->p99 },
					  { "0.999", latency->p999 },
					  { "1", latency->max } };

			for (q = 0; q < sizeof(quantiles) / sizeof(quantiles[0]); q++) {
				metrics_put_mount(name, "", &metrics->mounts[m]);
				printf(",quantile=\"%s\"} %.9g\n", quantiles[q].quantile,
				       (double)quantiles[q].ns * 1e-9);
			}
			metrics_put_mount(name, "_count", &metrics->mounts[m]);
			printf("} %" PRIu64 "\n", latency->count);
		}
	}
}

int stat_metrics_print(void)
{
	struct metrics metrics = {};

	process_each(metrics_add_process, &metrics);
	mount_each(metrics_add_mount, &metrics);
	if (!metrics.short_of_memory) {
		metrics_print_processes(&metrics);
		metrics_print_mappings(&metrics);
		metrics_print_counts(&metrics);
		metrics_print_latencies(&metrics);
		printf("# EOF\n");
	}
	free(metrics.processes);
	free(metrics.mounts);
	return metrics.short_of_memory ? -ENOMEM : 0;
}
