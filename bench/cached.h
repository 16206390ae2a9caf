/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* hugemap bench cached */
#ifndef BENCH_CACHED_H
#define BENCH_CACHED_H

#include "cli.h"

extern const struct cli_command cached_command;

#endif /* BENCH_CACHED_H */
