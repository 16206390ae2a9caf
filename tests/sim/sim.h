/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What a simulator is to main.c. */
#ifndef SIM_SIM_H
#define SIM_SIM_H

#include "port.h"

/* Told of a seed with --verbose. */
struct sim_count {
	const char *what;
	const u64 *value;
};

/**
 * struct sim_program - a simulator
 * @name: of the program
 * @what: it runs, in words
 * @run: from a new world on, for so many steps, with power cuts
 * @counts: what it has done; ends with zeros
 * @has_rules: it knows --break-rules: see sim_break_rules
 * @apart: each seed in a process of its own, all with the same addresses
 */
struct sim_program {
	const char *name, *what;
	void (*run)(u64 steps);
	const struct sim_count *counts;
	bool has_rules, apart;
};

struct hm_cache;

/* books.c: nothing is under way, and nobody goes on meanwhile. */
void books_check(struct hm_cache *cache, bool beyond);

extern const struct sim_program sim_program;
extern bool sim_break_rules; /* some programs do what they should not */

#endif /* SIM_SIM_H */
