// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "store.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void store_die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fputs("hugemap-ycsb: ", stderr);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
	_exit(1);
}

void *store_alloc(size_t bytes)
{
	void *at = calloc(1, bytes);

	if (!at)
		store_die("too little memory");
	return at;
}
