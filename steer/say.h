/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Convert words and numbers to and from text, without stdio, whose locks belong to the program. */
#ifndef HM_STEER_SAY_H
#define HM_STEER_SAY_H

#include <stddef.h>
#include <stdint.h>

struct say {
	char *text;
	size_t length, size;
};

static inline void say_into(struct say *say, char *text, size_t size)
{
	*say = (struct say){ .text = text, .size = size };
	text[0] = '\0';
}

static inline void say_text(struct say *say, const char *text)
{
	while (*text && say->length + 1 < say->size)
		say->text[say->length++] = *text++;
	say->text[say->length] = '\0';
}

static inline void say_number(struct say *say, uint64_t number)
{
	char digits[24];
	size_t n = sizeof(digits) - 1;

	digits[n] = '\0';
	do
		digits[--n] = (char)('0' + number % 10);
	while (number /= 10);
	say_text(say, digits + n);
}

/* Begin a line for the user: "hugemap run: PID: "; @rank: of a process of MPI, "" = none. */
static inline void say_begin(struct say *say, uint64_t pid, const char *rank)
{
	say_text(say, "hugemap run: ");
	say_number(say, pid);
	say_text(say, *rank ? ": rank " : "");
	say_text(say, rank);
	say_text(say, ": ");
}

static inline uint64_t say_parse(const char *text)
{
	uint64_t number = 0;

	while (*text >= '0' && *text <= '9')
		number = number * 10 + (uint64_t)(*text++ - '0');
	return number;
}

#endif /* HM_STEER_SAY_H */
