// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The functions of <string.h> that steer/, preload/ and the compiler use. The monitor thread must
 * not call the C library's: a sanitizer or another preloaded library may replace them with
 * functions that use thread-local data, which the monitor thread does not have. In steer/ they
 * have the names of names.h. preload/, which links with no C library, also compiles this file
 * with their own names.
 */
#include <string.h>

void *memcpy(void *to, const void *from, size_t n)
{
	char *t = to;
	const char *f = from;

	while (n--)
		*t++ = *f++;
	return to;
}

void *memmove(void *to, const void *from, size_t n)
{
	char *t = to;
	const char *f = from;

	if (t <= f)
		return memcpy(to, from, n);
	while (n--)
		t[n] = f[n];
	return to;
}

void *memset(void *to, int byte, size_t n)
{
	char *t = to;

	while (n--)
		*t++ = (char)byte;
	return to;
}

int strncmp(const char *a, const char *b, size_t n)
{
	for (; n && *a && *a == *b; n--)
		a++, b++;
	return n ? (unsigned char)*a - (unsigned char)*b : 0;
}

int strcmp(const char *a, const char *b)
{
	return strncmp(a, b, (size_t)-1);
}

int memcmp(const void *a, const void *b, size_t n)
{
	const unsigned char *x = a, *y = b;

	for (; n; n--, x++, y++)
		if (*x != *y)
			return *x - *y;
	return 0;
}

size_t strlen(const char *text)
{
	size_t n = 0;

	while (text[n])
		n++;
	return n;
}

char *strchr(const char *text, int byte)
{
	for (; *text != (char)byte; text++)
		if (!*text)
			return NULL;
	return (char *)text;
}

char *strrchr(const char *text, int byte)
{
	const char *last = NULL;

	for (; *text; text++)
		if (*text == (char)byte)
			last = text;
	return (char *)last;
}

char *strstr(const char *text, const char *part)
{
	size_t n = strlen(part);

	for (; strncmp(text, part, n); text++)
		if (!*text)
			return NULL;
	return (char *)text;
}
