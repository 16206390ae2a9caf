// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "mount_sample.h"

#include <jansson.h>

double sample_rate(const struct mount_sample *sample, enum mount_count count)
{
	uint64_t now = sample->now.count[count], before = sample->before.count[count];

	return sample->seconds > 0 && now > before ? (double)(now - before) / sample->seconds : 0;
}

double sample_percent(uint64_t part, uint64_t whole)
{
	return whole ? 100.0 * (double)part / (double)whole : 0;
}

static json_t *sample_latency_json(const struct mount_latency *latency)
{
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "count", (json_int_t)latency->count,
			 "p50", (json_int_t)latency->p50, "p90", (json_int_t)latency->p90, "p99",
			 (json_int_t)latency->p99, "p999", (json_int_t)latency->p999, "max",
			 (json_int_t)latency->max);
}

static void sample_add_integer(json_t *object, const char *name, uint64_t value)
{
	json_object_set_new(object, name, json_integer((json_int_t)value));
}

void sample_add_json(json_t *object, const struct mount_sample *sample)
{
	static const struct {
		const char *name;
		enum mount_count count;
	} rates[] = {
		{ "faults_per_s", MOUNT_FAULTS },
		{ "evictions_per_s", MOUNT_EVICTIONS },
		{ "read_bytes_per_s", MOUNT_READ_BYTES },
		{ "written_bytes_per_s", MOUNT_WRITTEN_BYTES },
	};
	static const struct {
		const char *name;
		enum mount_count part, whole;
	} shares[] = {
		{ "hits_percent", MOUNT_HITS, MOUNT_FAULTS },
		{ "prefetch_used_percent", MOUNT_AHEAD_USED, MOUNT_AHEAD },
		{ "huge_percent", MOUNT_HUGE_BYTES, MOUNT_RESIDENT_BYTES },
	};
	const struct mount_numbers *now = &sample->now;
	size_t i;

	sample_add_integer(object, "pool_bytes", now->pool_bytes);
	sample_add_integer(object, "mappings", now->mappings);
	sample_add_integer(object, "mapped_bytes", now->mapped_bytes);
	sample_add_integer(object, "huge_pages", now->huge_pages);
	sample_add_integer(object, "base_pages", now->base_pages);
	for (i = 0; i < MOUNT_COUNTS; i++)
		sample_add_integer(object, mount_count_names[i], now->count[i]);
	for (i = 0; i < sizeof(rates) / sizeof(rates[0]); i++)
		json_object_set_new(object, rates[i].name,
				    json_real(sample_rate(sample, rates[i].count)));
	for (i = 0; i < sizeof(shares) / sizeof(shares[0]); i++)
		json_object_set_new(object, shares[i].name,
				    json_real(sample_percent(now->count[shares[i].part],
							     now->count[shares[i].whole])));
	for (i = 0; i < MOUNT_HISTOGRAMS; i++)
		json_object_set_new(object, mount_histogram_names[i],
				    sample_latency_json(&now->latency[i]));
}
