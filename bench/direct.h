/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* hugemap bench direct */
#ifndef BENCH_DIRECT_H
#define BENCH_DIRECT_H

#include "cli.h"

extern const struct cli_command direct_command;

#endif /* BENCH_DIRECT_H */
