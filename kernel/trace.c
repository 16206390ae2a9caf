// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* The bodies of the tracepoints of trace.h. */
#define CREATE_TRACE_POINTS
#include "trace.h"
