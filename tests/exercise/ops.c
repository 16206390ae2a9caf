// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Choice of the next operation and of its range in the file.
 */
#include "ops.h"

#include <stdio.h>
#include <string.h>

/* Prefer offsets near the border of a block, near the end of the file, and of whole pages. */
uint64_t pick_offset(struct worker *w, uint64_t limit)
{
	uint64_t kind = random_below(w, 100), off;

	if (kind < 30) {
		off = BLOCK * random_below(w, limit / BLOCK + 1);
		off += random_below(w, 4 * PAGE);
		off = off > 2 * PAGE ? off - 2 * PAGE : off;
	} else if (kind < 45) {
		off = w->model->size + random_below(w, 2 * PAGE);
		off = off > 2 * PAGE ? off - 2 * PAGE : off;
	} else if (kind < 60) {
		off = PAGE * random_below(w, limit / PAGE + 1);
	} else {
		off = random_below(w, limit);
	}
	return off < limit ? off : limit - 1;
}

uint64_t pick_length(struct worker *w)
{
	uint64_t kind = random_below(w, 200);

	if (kind < 40)
		return 1 + random_below(w, 16);
	if (kind < 100)
		return 1 + random_below(w, PAGE);
	if (kind < 120)
		return PAGE * (1 + random_below(w, 8));
	if (kind < 180)
		return 1 + random_below(w, 64 << 10);
	if (kind < 197)
		return 1 + random_below(w, 256 << 10);
	if (kind < 198)
		return BLOCK;
	return 1 + random_below(w, LARGEST);
}

/*
 * Pick a range to read or, if @change, to write. It lies within the largest size of the file;
 * if several threads write, within one page that this worker owns.
 */
bool pick_range(struct worker *w, bool change, uint64_t *off, uint64_t *len)
{
	*off = pick_offset(w, w->opts->size);
	*len = pick_length(w);
	if (w->opts->threads > 1 && change) {
		uint64_t page = round_down(*off, PAGE * w->opts->threads) + PAGE * w->thread;

		*off = page + *off % PAGE;
		if (*off >= w->model->size)
			return false;
		if (*len > PAGE - *off % PAGE)
			*len = PAGE - *off % PAGE;
		if (*len > w->model->size - *off)
			*len = w->model->size - *off;
		return true;
	}
	if (*len > w->opts->size - *off)
		*len = w->opts->size - *off;
	return true;
}

#define RARELY 20

void list_operations(void)
{
	unsigned int i;

	for (i = 0; i < noperations; i++)
		printf("%-14s %u\n", operations[i].name, operations[i].often);
}

static bool is_listed(const char *names, const char *name)
{
	size_t n = strlen(name);
	const char *at;

	for (at = names; at; at = strchr(at, ',')) {
		at += *at == ',';
		if (!strncmp(at, name, n) && (at[n] == ',' || !at[n]))
			return true;
	}
	return false;
}

/* Reject a misspelt name, which would silently leave out no operation. */
bool are_operations(const char *names)
{
	unsigned int i, known = 0, given = 1;
	const char *at;

	for (at = names; *at; at++)
		given += *at == ',';
	for (i = 0; i < noperations; i++)
		known += is_listed(names, operations[i].name);
	return known == given;
}

void operate(struct worker *w)
{
	const struct operation *op = operations;
	unsigned int i, sum = 0;
	uint64_t pick;

	for (i = 0; i < noperations; i++)
		sum += op[i].often;
	for (pick = random_below(w, sum); pick >= op->often; op++)
		pick -= op->often;
	if (is_listed(w->opts->without, op->name))
		return;
	if (!is_listed(w->opts->rarely, op->name) || !random_below(w, RARELY))
		op->run(w);
	after_operation(w);
}
