// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* hugemap doctor: a check says what it found, and what would improve it. */
#include "doctor.h"

#include <stdarg.h>
#include <stdio.h>

void found(struct finding *finding, enum verdict verdict, const char *format, ...)
{
	va_list args;

	finding->verdict = verdict;
	va_start(args, format);
	vsnprintf(finding->text, sizeof(finding->text), format, args);
	va_end(args);
}

void remedy(const struct patient *patient, struct finding *finding, const char *benefit,
	    const char *format, ...)
{
	bool sudo = !patient->root && !patient->container;
	size_t used = 0;
	va_list args;

	if (sudo)
		used = (size_t)snprintf(finding->command, sizeof(finding->command), "sudo ");
	va_start(args, format);
	vsnprintf(finding->command + used, sizeof(finding->command) - used, format, args);
	va_end(args);
	snprintf(finding->benefit, sizeof(finding->benefit), "%s", benefit);
}
