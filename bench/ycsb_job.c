// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "ycsb_job.h"

#include <stdio.h>

#define FORMAT                                                                           \
	"store=%u,workload=%u,threads=%u,seed=%u,uniform=%u,pread=%u,random=%u,warm=%u," \
	"settle=%u,records=%llu,operations=%llu,value=%llu,buffer=%llu,milliseconds=%llu"
#define FIELDS 14

void ycsb_job_print(const struct ycsb_job *job, char text[YCSB_JOB_TEXT])
{
	snprintf(text, YCSB_JOB_TEXT, FORMAT, job->store, job->workload, job->threads, job->seed,
		 job->uniform, job->pread, job->random, job->warm, job->settle, job->records,
		 job->operations, job->value, job->buffer, job->milliseconds);
}

bool ycsb_job_parse(const char *text, struct ycsb_job *job)
{
	return sscanf(text, FORMAT, &job->store, &job->workload, &job->threads, &job->seed,
		      &job->uniform, &job->pread, &job->random, &job->warm, &job->settle,
		      &job->records, &job->operations, &job->value, &job->buffer,
		      &job->milliseconds) == FIELDS &&
	       job->store < YCSB_STORES && job->workload <= YCSB_CHECK && job->threads &&
	       job->value >= YCSB_VALUE_MIN && job->value <= YCSB_VALUE_MAX &&
	       job->value % 8 == 0 && job->records >= 2ull * job->threads &&
	       job->records % job->threads == 0;
}
