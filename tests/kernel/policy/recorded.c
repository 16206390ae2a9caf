// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Traces of real programs. record.py records them and documents their format. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy.h"

#define MAX_PAGES (1u << 28)
#define MAX_TOUCHES (1ull << 30)

/* Touches that each copy makes in its turn. */
#define TURN 64u

struct reader {
	const u8 *at, *end;
};

/* False: the number is incomplete or too large. */
static bool number(struct reader *r, u64 *value)
{
	u32 shift;

	*value = 0;
	for (shift = 0; shift < 42 && r->at < r->end; shift += 7) {
		u8 byte = *r->at++;

		*value |= (u64)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return true;
	}
	return false;
}

static const char *parse_head(struct reader *r, u64 *pages, u64 *touches)
{
	const u8 *end = r->at;
	char line[64] = "";
	int length = 0;

	while (end < r->end && *end != '\n')
		end++;
	if (end == r->end || end - r->at >= (long)sizeof(line))
		return "it does not begin with a line of hugemap-trace";
	memcpy(line, r->at, (size_t)(end - r->at));
	if (sscanf(line, "hugemap-trace 1 %lu %lu%n", pages, touches, &length) != 2 ||
	    length != end - r->at)
		return "it does not begin with \"hugemap-trace 1 PAGES TOUCHES\"";
	if (!*pages || *pages > MAX_PAGES || !*touches || *touches > MAX_TOUCHES)
		return "it is too large, or empty";
	/* Skip everything up to an empty line. */
	for (r->at = end; r->at + 1 < r->end; r->at++) {
		if (r->at[0] == '\n' && r->at[1] == '\n') {
			r->at += 2;
			return NULL;
		}
	}
	return "it has no empty line";
}

/* Return: NULL, or the reason why it is no trace. The caller frees @trace in either case. */
const char *trace_parse(struct trace *trace, const u8 *data, size_t length)
{
	struct reader r = { data, data + length };
	u64 pages, touches, run, more, expected = 0;
	const char *why = parse_head(&r, &pages, &touches);

	if (why)
		return why;
	trace->pages = (u32)pages;
	while (trace->n < touches) {
		u64 page, d;

		more = 0;
		if (!number(&r, &run) || (run & 2 && !number(&r, &more)))
			return "it ends in the middle, or a number is too large";
		d = run >> 2;
		page = d & 1 ? expected - (d + 1) / 2 : expected + d / 2;
		/* A page before the first one has wrapped around, so one comparison suffices. */
		if (page >= pages || more >= pages - page)
			return "a page of it is behind the end of the file";
		if (more >= touches - trace->n)
			return "it has more touches than its first line states";
		expected = page + more + 1;
		while (page < expected)
			trace_add(trace, page++, run & 1);
	}
	return r.at == r.end ? NULL : "something follows its last touch";
}

/* Several users of the program, each with its own file and at another point of the trace. */
static struct trace copied(const struct trace *one, u32 copies)
{
	u32 pages = (one->pages + HM_BLOCK_PAGES - 1) / HM_BLOCK_PAGES * HM_BLOCK_PAGES, c;
	struct trace t = { .name = one->name, .pages = pages * copies, .recorded = true };
	u64 at, i;

	for (at = 0; at < one->n; at += TURN) {
		for (c = 0; c < copies; c++) {
			for (i = at; i < at + TURN && i < one->n; i++) {
				u32 access = one->access[(i + c * (one->n / copies)) % one->n];

				trace_add(&t, (u64)c * pages + (access >> 1), access & 1);
			}
		}
	}
	return t;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

struct trace trace_read(const char *path, u32 copies)
{
	struct trace one = { .name = base_name(path) }, t;
	FILE *file = fopen(path, "rb");
	const char *why = "it cannot be read";
	u8 *data = NULL;
	long length = 0;

	if (file && !fseek(file, 0, SEEK_END))
		length = ftell(file);
	if (length > 0) {
		rewind(file);
		data = malloc((size_t)length);
	}
	if (data && fread(data, 1, (size_t)length, file) == (size_t)length)
		why = trace_parse(&one, data, (size_t)length);
	if (why) {
		fprintf(stderr, "policy: %s: %s\n", path, why);
		exit(2);
	}
	fclose(file);
	free(data);
	t = copied(&one, copies);
	trace_free(&one);
	return t;
}
