// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "content.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define BLOCK_PAGES (CONTENT_BLOCK / CONTENT_PAGE)

/* The finalizer of splitmix64. */
static uint64_t content_mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15ull;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

uint64_t content_stamp(uint64_t page, uint32_t generation)
{
	return content_mix(page << 24 ^ generation);
}

/* Allocate a table that children do not inherit, so that it does not count as their memory. */
static void *content_private_table(size_t bytes)
{
	void *table = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (table == MAP_FAILED)
		return NULL;
	madvise(table, bytes, MADV_DONTFORK);
	return table;
}

struct content *content_create(uint64_t bytes, bool foreign)
{
	struct content *content = calloc(1, sizeof(*content));
	size_t i;

	if (!content)
		return NULL;
	content->pages = bytes / CONTENT_PAGE;
	content->block = malloc(CONTENT_BLOCK);
	if (foreign)
		content->sums = content_private_table(content->pages * sizeof(*content->sums));
	else
		content->generations =
			content_private_table(content->pages * sizeof(*content->generations));
	if (!content->block || (!content->sums && !content->generations)) {
		content_destroy(content);
		return NULL;
	}
	for (i = 0; i < CONTENT_BLOCK / 8; i++)
		content->block[i] = content_mix(~i);
	for (i = 0; i < BLOCK_PAGES; i++)
		content->rest_sums[i] =
			sum_words(&content->block[i * CONTENT_WORDS], CONTENT_PAGE) -
			content->block[i * CONTENT_WORDS];
	return content;
}

void content_destroy(struct content *content)
{
	if (!content)
		return;
	if (content->sums)
		munmap(content->sums, content->pages * sizeof(*content->sums));
	if (content->generations)
		munmap(content->generations, content->pages * sizeof(*content->generations));
	free(content->block);
	free(content);
}

void content_restamp(void *buffer, uint64_t offset, size_t length, uint32_t generation)
{
	uint64_t page = offset / CONTENT_PAGE;
	size_t at;

	for (at = 0; at < length; at += CONTENT_PAGE)
		*(uint64_t *)((char *)buffer + at) = content_stamp(page++, generation);
}

void content_fill(const struct content *content, void *buffer, uint64_t offset, size_t length,
		  uint32_t generation)
{
	size_t at;

	for (at = 0; at < length; at += CONTENT_BLOCK)
		memcpy((char *)buffer + at, content->block, CONTENT_BLOCK);
	content_restamp(buffer, offset, length, generation);
}

uint64_t content_page_sum(const struct content *content, uint64_t page)
{
	if (content->sums)
		return content->sums[page];
	return content->rest_sums[page % BLOCK_PAGES] +
	       content_stamp(page, content->generations[page]);
}

uint64_t content_word(const struct content *content, uint64_t index)
{
	uint64_t page = index / CONTENT_WORDS;

	if (index % CONTENT_WORDS)
		return content->block[index % (CONTENT_BLOCK / 8)];
	return content_stamp(page, content->generations[page]);
}

void content_written(struct content *content, uint64_t offset, size_t length, uint32_t generation)
{
	uint64_t page = offset / CONTENT_PAGE;
	uint64_t end = (offset + length) / CONTENT_PAGE;

	for (; page < end; page++)
		content->generations[page] = generation;
}

static bool content_is_zero(const uint64_t *words)
{
	return !words[0] && !memcmp(words, words + 1, CONTENT_PAGE - 8);
}

bool content_matches(const struct content *content, const void *buffer, uint64_t offset,
		     size_t length, uint64_t *wrong)
{
	size_t at;

	for (at = 0; at < length; at += CONTENT_PAGE) {
		const uint64_t *words = (const uint64_t *)((const char *)buffer + at);
		uint64_t page = (offset + at) / CONTENT_PAGE;
		const uint64_t *want = &content->block[page % BLOCK_PAGES * CONTENT_WORDS];

		*wrong = offset + at;
		if (content->generations[page] == CONTENT_HOLE) {
			if (!content_is_zero(words))
				return false;
			continue;
		}
		if (words[0] != content_stamp(page, content->generations[page]) ||
		    memcmp(words + 1, want + 1, CONTENT_PAGE - 8))
			return false;
	}
	return true;
}

uint64_t sum_words(const void *data, size_t length)
{
	const uint64_t *words = data;
	uint64_t a = 0, b = 0, c = 0, d = 0;
	size_t i, n = length / 8;

	/* Four sums, so that one addition need not wait for the other. */
	for (i = 0; i + 4 <= n; i += 4) {
		a += words[i];
		b += words[i + 1];
		c += words[i + 2];
		d += words[i + 3];
	}
	return a + b + c + d;
}
