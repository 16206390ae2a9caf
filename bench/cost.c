// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "cost.h"
#include "bench.h"

#define INSTRUCTIONS_MAX 1.01
/* Times of the same program differ by more than 1 %. */
#define TIME_MAX 1.03

static double cost_cpu(const struct result *result)
{
	return result->user_s + result->sys_s;
}

static double cost_time(const struct result *result)
{
	return result->seconds;
}

static double cost_faults_of(const struct result *result)
{
	return (double)result->faults;
}

static double cost_instructions(const struct result *result)
{
	return (double)result->instructions;
}

static double cost_ratio(const struct row *row, const struct row *plain,
			 double (*of)(const struct result *result))
{
	double ratios[MAX_RUNS];
	unsigned int i, n = 0;

	for (i = 0; i < row->nresults && i < plain->nresults; i++)
		if (of(&row->results[i]) > 0 && of(&plain->results[i]) > 0)
			ratios[n++] = of(&row->results[i]) / of(&plain->results[i]);
	return median(ratios, n);
}

bool cost_find(const struct group *group, struct cost *cost)
{
	const struct row *row = group_of_engine(group, engine_steer.name);
	const struct row *plain = group_default_linux(group);

	if (!group->scenario->cost || !row || !plain)
		return false;
	*cost = (struct cost){
		.time = cost_ratio(row, plain, cost_time),
		.cpu = cost_ratio(row, plain, cost_cpu),
		.faults = cost_ratio(row, plain, cost_faults_of),
		.instructions = cost_ratio(row, plain, cost_instructions),
	};
	return true;
}

double cost_max(const struct cost *cost)
{
	return cost->instructions > 0 ? INSTRUCTIONS_MAX : TIME_MAX;
}

bool cost_met(const struct cost *cost)
{
	return (cost->instructions > 0 ? cost->instructions : cost->time) <= cost_max(cost);
}

void cost_print(const struct bench *bench)
{
	const struct group *group;
	struct cost cost;

	for (group = bench->groups; group; group = group->next) {
		if (!cost_find(group, &cost))
			continue;
		printf("\nA program that gains nothing pays, with %u %s: %.3f x the time, %.3f x "
		       "the CPU\n  time, %.3f x the faults, ",
		       group->threads, scenario_workers(group->scenario, group->threads), cost.time,
		       cost.cpu, cost.faults);
		if (cost.instructions > 0)
			printf("%.3f x the instructions", cost.instructions);
		else
			printf("and instructions cannot be counted here");
		printf(" (wanted of %s: %.2f at most): %s\n",
		       cost.instructions > 0 ? "these" : "the time", cost_max(&cost),
		       cost_met(&cost) ? "yes" : "NO");
	}
	fflush(stdout);
}
