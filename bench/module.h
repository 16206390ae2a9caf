/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
#ifndef BENCH_MODULE_H
#define BENCH_MODULE_H

#include <stdbool.h>

/* modprobe NAME OPTION; @option: NULL = none. What it complains of is told by nobody. */
bool module_load(const char *name, const char *option);

#endif /* BENCH_MODULE_H */
