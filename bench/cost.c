// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "cost.h"
#include "bench.h"

#include <linux/perf_event.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FAULTED (4 * MB)

#define MOST_INSTRUCTIONS 1.01
/* Times of the same program differ by more than that. */
#define MOST_TIME 1.03

bool cost_faults(void)
{
	char *at = mmap(NULL, FAULTED, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t sum;
	size_t i;

	if (at == MAP_FAILED)
		return false;
	for (i = 0; i < FAULTED; i += CONTENT_PAGE)
		at[i] = 1;
	sum = sum_words(at, FAULTED);
	__asm__ volatile("" : : "r"(sum) : "memory");
	return munmap(at, FAULTED) == 0;
}

int counter_open(void)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = PERF_TYPE_HARDWARE,
		.config = PERF_COUNT_HW_INSTRUCTIONS,
		.inherit = 1,
		.exclude_hv = 1,
	};
	int fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);

	if (fd >= 0)
		return fd;
	/* Without a right to it only what the program does itself is counted. */
	attr.exclude_kernel = 1;
	return (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

uint64_t counter_read(int fd)
{
	uint64_t count = 0;

	if (fd < 0 || read(fd, &count, sizeof(count)) != sizeof(count))
		return 0;
	return count;
}

/* --- beside plain mmap --- */

static double cpu_of(const struct result *result)
{
	return result->user_s + result->sys_s;
}

static double time_of(const struct result *result)
{
	return result->seconds;
}

static double faults_of(const struct result *result)
{
	return (double)result->kernel_faults;
}

static double instructions_of(const struct result *result)
{
	return (double)result->instructions;
}

static double times(const struct row *row, const struct row *plain,
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
		.time = times(row, plain, time_of),
		.cpu = times(row, plain, cpu_of),
		.faults = times(row, plain, faults_of),
		.instructions = times(row, plain, instructions_of),
	};
	return true;
}

double cost_most(const struct cost *cost)
{
	return cost->instructions > 0 ? MOST_INSTRUCTIONS : MOST_TIME;
}

bool cost_met(const struct cost *cost)
{
	return (cost->instructions > 0 ? cost->instructions : cost->time) <= cost_most(cost);
}

void cost_print(const struct bench *bench)
{
	const struct group *group;
	struct cost cost;

	for (group = bench->groups; group; group = group->next) {
		if (!cost_find(group, &cost))
			continue;
		printf("\nWho gains nothing pays, with %u %s: %.3f x the time, %.3f x the "
		       "processor's time,\n  %.3f x the faults, ",
		       group->threads, scenario_workers(group->scenario, group->threads), cost.time,
		       cost.cpu, cost.faults);
		if (cost.instructions > 0)
			printf("%.3f x the instructions", cost.instructions);
		else
			printf("and nobody counts instructions here");
		printf(" (wanted of %s: %.2f at most): %s\n",
		       cost.instructions > 0 ? "these" : "the time", cost_most(&cost),
		       cost_met(&cost) ? "yes" : "NO");
	}
	fflush(stdout);
}
