/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* hugemap bench ycsb */
#ifndef BENCH_YCSB_H
#define BENCH_YCSB_H

#include "cli.h"

extern const struct cli_command ycsb_command;

#endif /* BENCH_YCSB_H */
