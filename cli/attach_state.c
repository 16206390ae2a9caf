// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "attach_state.h"

const char *watched_pattern_name(enum hm_pattern pattern)
{
	static const char *const names[] = {
		[HM_PATTERN_UNKNOWN] = "not clear", [HM_PATTERN_STREAM] = "stream",
		[HM_PATTERN_STREAMS] = "streams",   [HM_PATTERN_BACKWARD] = "backward",
		[HM_PATTERN_STRIDED] = "strided",   [HM_PATTERN_CHUNKS] = "chunks",
		[HM_PATTERN_RANDOM] = "random",
	};

	return names[pattern];
}

enum hm_pattern watched_pattern(const struct watched *map)
{
	enum hm_pattern most = HM_PATTERN_UNKNOWN, pattern;

	for (pattern = HM_PATTERN_STREAM; pattern <= HM_PATTERN_RANDOM; pattern++)
		if (map->scans[pattern] > (most ? map->scans[most] : 0))
			most = pattern;
	return most;
}

uint64_t watched_resident(const struct watched *map, uint64_t column[PICTURE_COLUMNS])
{
	uint64_t pages = map->picture.pages, n = 0, page, word;

	for (word = 0; map->seen && word <= map->advisor.end / 64; word++) {
		unsigned long bits = map->seen[word];

		while (bits) {
			page = word * 64 + (uint64_t)__builtin_ctzl(bits) - map->advisor.first;
			if (page < pages)
				column[page * PICTURE_COLUMNS / pages]++;
			bits &= bits - 1;
			n++;
		}
	}
	return n;
}
