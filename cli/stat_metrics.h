/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* hugemap stat: all processes and mounts in the format of OpenMetrics, which Prometheus reads. */
#ifndef CLI_STAT_METRICS_H
#define CLI_STAT_METRICS_H

/* Print all metrics; 0 or -ENOMEM. */
int stat_metrics_print(void);

#endif /* CLI_STAT_METRICS_H */
