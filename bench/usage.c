// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "usage.h"

#include <stdio.h>
#include <sys/resource.h>
#include <time.h>

uint64_t usage_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

void usage_read(struct usage_counts *usage)
{
	FILE *io = fopen("/proc/self/io", "re");
	unsigned long long value;
	struct rusage rusage;
	char line[128];

	getrusage(RUSAGE_SELF, &rusage);
	*usage = (struct usage_counts){
		.user_s = (double)rusage.ru_utime.tv_sec + (double)rusage.ru_utime.tv_usec / 1e6,
		.sys_s = (double)rusage.ru_stime.tv_sec + (double)rusage.ru_stime.tv_usec / 1e6,
		.faults = (uint64_t)rusage.ru_minflt + (uint64_t)rusage.ru_majflt,
		.major_faults = (uint64_t)rusage.ru_majflt,
	};
	while (io && fgets(line, sizeof(line), io)) {
		if (sscanf(line, "read_bytes: %llu", &value) == 1)
			usage->read_bytes = value;
		if (sscanf(line, "write_bytes: %llu", &value) == 1)
			usage->write_bytes = value;
	}
	if (io)
		fclose(io);
}

void usage_print(const struct usage_counts *before, const struct usage_counts *after)
{
	printf("\"user_s\": %.3f, \"sys_s\": %.3f, \"faults\": %llu, \"major_faults\": %llu, "
	       "\"read_bytes\": %llu, \"write_bytes\": %llu",
	       after->user_s - before->user_s, after->sys_s - before->sys_s,
	       (unsigned long long)(after->faults - before->faults),
	       (unsigned long long)(after->major_faults - before->major_faults),
	       (unsigned long long)(after->read_bytes - before->read_bytes),
	       (unsigned long long)(after->write_bytes - before->write_bytes));
}
