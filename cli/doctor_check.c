// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "doctor_check.h"

#include <stdarg.h>

void doctor_result(struct finding *finding, enum verdict verdict, const char *format, ...)
{
	va_list args;

	finding->verdict = verdict;
	va_start(args, format);
	vsnprintf(finding->text, sizeof(finding->text), format, args);
	va_end(args);
}
