/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* hugemap bench graph */
#ifndef BENCH_GRAPH_H
#define BENCH_GRAPH_H

#include "cli.h"

extern const struct cli_command graph_command;

#endif /* BENCH_GRAPH_H */
