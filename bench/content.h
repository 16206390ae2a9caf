/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The content of the files, so that every byte that an engine shows or writes
 * can be checked. A page is page (n mod 256) of a block of random words, but
 * for its first word, the *stamp*, which holds the page and its generation: how
 * often it was written.
 */
#ifndef BENCH_CONTENT_H
#define BENCH_CONTENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CONTENT_PAGE 4096u
#define CONTENT_BLOCK (1u << 20)
#define CONTENT_WORDS (CONTENT_PAGE / 8)
/* As a generation: nothing was ever written there. */
#define CONTENT_HOLE UINT32_MAX

/**
 * struct content - of a file
 * @block: the random words
 * @rest_sums: the sum of each page of @block but for its stamp
 * @pages: in the file
 * @generations: of each page; NULL in a file of the user's
 * @sums: of each page of a file of the user's; else NULL
 * @known: the file on disk has the content that this structure describes
 */
struct content {
	uint64_t *block;
	uint64_t rest_sums[CONTENT_BLOCK / CONTENT_PAGE];
	uint64_t pages;
	uint32_t *generations;
	uint64_t *sums;
	bool known;
};

/* Describe a file of @bytes, all in generation 0; NULL = no memory. */
struct content *content_create(uint64_t bytes, bool foreign);
void content_destroy(struct content *content);

uint64_t content_stamp(uint64_t page, uint32_t generation);

/* Make a buffer, a whole number of blocks, into what the file has at an offset. */
void content_fill(const struct content *content, void *buffer, uint64_t offset, size_t length,
		  uint32_t generation);
/* The same, when the buffer was filled before: only the stamps change. */
void content_restamp(void *buffer, uint64_t offset, size_t length, uint32_t generation);

uint64_t content_page_sum(const struct content *content, uint64_t page);
uint64_t content_word(const struct content *content, uint64_t index);
void content_written(struct content *content, uint64_t offset, size_t length, uint32_t generation);
/* Is this what the file should have at an offset? length: whole pages */
bool content_matches(const struct content *content, const void *buffer, uint64_t offset,
		     size_t length, uint64_t *wrong);

/* The sum of all 64-bit words: what a reader does with its data. */
uint64_t sum_words(const void *data, size_t length);

#endif /* BENCH_CONTENT_H */
