// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* The configurations of a scenario: the engines and settings that the benchmark compares. */
#include "bench.h"
#include "limit.h"

#include <string.h>

const struct engine *const engine_list[] = {
	&engine_steer, &engine_kernel, &engine_linux_mmap, &engine_linux_rw, &engine_device,
};

const unsigned int nengines = sizeof(engine_list) / sizeof(engine_list[0]);

const char *const advice_names[ADVICES] = {
	[ADVICE_DEFAULT] = "default",
	[ADVICE_SEQUENTIAL] = "sequential",
	[ADVICE_RANDOM] = "random",
	[ADVICE_HUGEPAGE] = "hugepage",
	[ADVICE_HUGEPAGE_RANDOM] = "hugepage+random",
	[ADVICE_POPULATE] = "populate",
};

#define BIT(n) (1u << (n))

struct plan {
	const struct bench *bench;
	struct config *configs;
	unsigned int n;
};

static void plan_add(struct plan *plan, const struct config *config)
{
	const struct settings *settings = &plan->bench->settings;
	unsigned int i;

	for (i = 0; i < nengines; i++)
		if (!strcmp(engine_list[i]->name, config->engine->name) &&
		    settings->engines & BIT(i) && plan->n < MAX_CONFIGS)
			plan->configs[plan->n++] = *config;
}

static void plan_add_kernel(struct plan *plan, const struct scenario *scenario)
{
	struct config config = { .engine = &engine_kernel };
	unsigned int pages = plan->bench->settings.pages;

	if (!pages)
		pages = BIT(HUGEMAP_PAGE_AUTO) | BIT(HUGEMAP_PAGE_2M) |
			(scenario->base_pages ? BIT(HUGEMAP_PAGE_4K) : 0);
	for (config.page = 0; config.page < HUGEMAP_PAGES; config.page++)
		if (pages & BIT(config.page))
			plan_add(plan, &config);
}

/* There is nothing to read ahead in a new file, or in a file that is in memory. */
static void plan_add_stock(struct plan *plan, const struct scenario *scenario,
			   const struct engine *engine)
{
	struct config config = { .engine = engine, .read_ahead_kb = STOCK_READ_AHEAD_KB };

	if (limits_try_stock(plan->bench->limits) && !scenario->fresh && !scenario->in_memory)
		plan_add(plan, &config);
}

static void plan_add_linux(struct plan *plan, const struct scenario *scenario)
{
	struct config config = { .engine = &engine_linux_mmap };
	unsigned int advice, useful = scenario->advices | BIT(ADVICE_DEFAULT);

	for (advice = 0; advice < ADVICES; advice++) {
		config.advice = advice;
		if (useful & BIT(advice))
			plan_add(plan, &config);
	}
	plan_add_stock(plan, scenario, &engine_linux_mmap);
	if (!scenario->in_memory)
		plan_add(plan, &(struct config){ .engine = &engine_linux_rw });
}

unsigned int plan_configs(const struct bench *bench, const struct scenario *scenario,
			  struct config configs[MAX_CONFIGS])
{
	struct plan plan = { .bench = bench, .configs = configs };

	plan_add(&plan, &(struct config){ .engine = &engine_steer });
	if (scenario->cost) {
		plan_add(&plan, &(struct config){ .engine = &engine_linux_mmap });
		return plan.n;
	}
	plan_add_stock(&plan, scenario, &engine_steer);
	if (!bench->kernel_reason)
		plan_add_kernel(&plan, scenario);
	plan_add_linux(&plan, scenario);
	if (scenario->in_memory)
		plan_add(&plan, &(struct config){ .engine = &engine_memory });
	else
		plan_add(&plan, &(struct config){ .engine = &engine_device, .depth = 1 });
	return plan.n;
}

const char *config_title(const struct config *config, const struct scenario *scenario, char *text,
			 size_t size)
{
	static const char *const advices[ADVICES] = {
		[ADVICE_DEFAULT] = "default",
		[ADVICE_SEQUENTIAL] = "MADV_SEQUENTIAL",
		[ADVICE_RANDOM] = "MADV_RANDOM",
		[ADVICE_HUGEPAGE] = "MADV_HUGEPAGE",
		[ADVICE_HUGEPAGE_RANDOM] = "HUGEPAGE and RANDOM",
		[ADVICE_POPULATE] = "MADV_POPULATE",
	};

	if (config->engine == &engine_steer && config->read_ahead_kb)
		snprintf(text, size, "HugeMap, read-ahead %u KB", config->read_ahead_kb);
	else if (config->engine == &engine_steer)
		snprintf(text, size, "HugeMap");
	else if (config->engine == &engine_kernel)
		snprintf(text, size, "HugeMap kernel, page=%s", hugemap_page_names[config->page]);
	else if (config->engine == &engine_linux_mmap && config->read_ahead_kb)
		snprintf(text, size, "Linux mmap, read-ahead %u KB", config->read_ahead_kb);
	else if (config->engine == &engine_linux_mmap)
		snprintf(text, size, "Linux mmap, %s", advices[config->advice]);
	else if (config->engine == &engine_linux_rw)
		snprintf(text, size, "Linux %s",
			 !scenario->writes ? "read()" :
			 scenario->latency ? "read() and write()" :
					     "write()");
	else if (config->engine == &engine_memory)
		snprintf(text, size, "anonymous memory, 2 MB pages");
	else
		snprintf(text, size, "device: O_DIRECT, depth %u", config->depth);
	return text;
}

double bench_run_seconds(const struct bench *bench)
{
	return bench->settings.quick ? 1.5 : 5;
}
