/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * hugemap doctor: a list of checks. Each tries something for real, says in a
 * line what it found, and, if something is less than it could be, names the
 * command that would change it.
 */
#ifndef CLI_DOCTOR_H
#define CLI_DOCTOR_H

#include <stdbool.h>
#include <jansson.h>

#include "system.h"

/**
 * enum verdict - the result of a check
 * @GOOD: as it should be
 * @WEAK: HugeMap works, but slower than it could
 * @BAD: programs cannot make pools
 */
enum verdict {
	GOOD,
	WEAK,
	BAD,
};

/**
 * struct finding - what a check found
 * @verdict: see enum verdict
 * @text: in a line
 * @command: what would improve it, as typed into a shell; "" = nothing known
 * @benefit: why one would type it
 * @details: a JSON object
 */
struct finding {
	enum verdict verdict;
	char text[256];
	char command[320];
	char benefit[160];
	json_t *details;
};

/* What all checks know. */
struct patient {
	const struct volume *volume; /* where files would be mapped */
	bool root;
	bool container;
};

void check_kernel(const struct patient *patient, struct finding *finding);
void check_kernel_engine(const struct patient *patient, struct finding *finding);
void check_steering(const struct patient *patient, struct finding *finding);
void check_huge_files(const struct patient *patient, struct finding *finding);
void check_userfaultfd(const struct patient *patient, struct finding *finding);
void check_huge_pages(const struct patient *patient, struct finding *finding);
void check_memory(const struct patient *patient, struct finding *finding);
void check_io_uring(const struct patient *patient, struct finding *finding);
void check_direct_io(const struct patient *patient, struct finding *finding);
void check_pool(const struct patient *patient, struct finding *finding);

void found(struct finding *finding, enum verdict verdict, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* The command, without "sudo": that is added where it is needed. */
void remedy(const struct patient *patient, struct finding *finding, const char *benefit,
	    const char *format, ...) __attribute__((format(printf, 4, 5)));

#endif /* CLI_DOCTOR_H */
