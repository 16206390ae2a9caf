/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The content of the files. It makes every byte checkable that an engine reads or writes. Page n
 * consists of page (n mod 256) of a block of random words, except for its first word, the *stamp*,
 * which contains the number of the page and its generation: how often the page was written.
 */
#ifndef BENCH_CONTENT_H
#define BENCH_CONTENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CONTENT_PAGE 4096u
#define CONTENT_BLOCK (1u << 20)
#define CONTENT_WORDS (CONTENT_PAGE / 8)
/* The generation of a page that was never written. */
#define CONTENT_HOLE UINT32_MAX

/**
 * struct content - the content of a file
 * @block: the random words
 * @rest_sums: the sum of each page of @block without its stamp
 * @pages: number of pages of the file
 * @generations: of each page; NULL for a file of the user's
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

/* Describe a file of @bytes whose pages are all of generation 0. NULL = memory is short. */
struct content *content_create(uint64_t bytes, bool foreign);
void content_destroy(struct content *content);

uint64_t content_stamp(uint64_t page, uint32_t generation);

/* Fill a buffer of whole blocks with the content of the file at an offset. */
void content_fill(const struct content *content, void *buffer, uint64_t offset, size_t length,
		  uint32_t generation);
/* Change only the stamps of a buffer that content_fill() has filled. */
void content_restamp(void *buffer, uint64_t offset, size_t length, uint32_t generation);

uint64_t content_page_sum(const struct content *content, uint64_t page);
uint64_t content_word(const struct content *content, uint64_t index);
void content_written(struct content *content, uint64_t offset, size_t length, uint32_t generation);
/* Does a buffer of whole pages have the content of the file at an offset? */
bool content_matches(const struct content *content, const void *buffer, uint64_t offset,
		     size_t length, uint64_t *wrong);

/* The sum of all 64-bit words. Readers compute it from the data that they read. */
uint64_t sum_words(const void *data, size_t length);

#endif /* BENCH_CONTENT_H */
