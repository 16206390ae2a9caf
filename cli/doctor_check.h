/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* hugemap doctor: the checks. Each one tries something and reports the result. */
#ifndef CLI_DOCTOR_CHECK_H
#define CLI_DOCTOR_CHECK_H

#include <stdbool.h>
#include <jansson.h>

#include "system.h"

#define PAGE_BYTES 4096u

/**
 * enum verdict - the result of a check
 * @GOOD: it works
 * @WEAK: HugeMap works, but slower than it could
 * @BAD: mappings cannot be steered
 */
enum verdict {
	GOOD,
	WEAK,
	BAD,
};

/**
 * struct finding - the result of a check
 * @verdict: see enum verdict
 * @text: the result in a line
 * @details: a JSON object, for --json
 */
struct finding {
	enum verdict verdict;
	char text[256];
	json_t *details;
};

/**
 * struct machine - the input of all checks
 * @volume: the file system of --dir
 * @container: this runs in a container
 */
struct machine {
	const struct volume *volume;
	bool container;
};

void check_kernel(const struct machine *machine, struct finding *finding);
void check_steering(const struct machine *machine, struct finding *finding);
void check_huge_files(const struct machine *machine, struct finding *finding);
void check_read_ahead(const struct machine *machine, struct finding *finding);
void check_memory(const struct machine *machine, struct finding *finding);
void check_kernel_engine(const struct machine *machine, struct finding *finding);
void check_direct_io(const struct machine *machine, struct finding *finding);

/* Fill in the verdict and the text of a finding. */
void doctor_result(struct finding *finding, enum verdict verdict, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif /* CLI_DOCTOR_CHECK_H */
