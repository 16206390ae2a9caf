/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Bitmaps with a bit for each base page of a block. */
#ifndef HM_BITS_H
#define HM_BITS_H

#include "types.h"

static inline bool hm_bit_test(const unsigned long *map, u32 nr)
{
	return hm_bits_read(map, nr / HM_BITS_PER_LONG) >> (nr % HM_BITS_PER_LONG) & 1;
}

static inline void hm_bit_set_to(unsigned long *map, u32 nr, bool value)
{
	if (value)
		hm_bit_set(map, nr);
	else
		hm_bit_clear(map, nr);
}

/* Count the bits that are set. Plain C: a port need not provide a popcount instruction. */
static inline u32 hm_weight(u64 bits)
{
	bits -= bits >> 1 & 0x5555555555555555ull;
	bits = (bits & 0x3333333333333333ull) + (bits >> 2 & 0x3333333333333333ull);
	bits = (bits + (bits >> 4)) & 0x0f0f0f0f0f0f0f0full;
	return (u32)(bits * 0x0101010101010101ull >> 56);
}

/* Count the base pages of a block whose bit is set. */
static inline u32 hm_bits_count(const unsigned long *map)
{
	u32 i, n = 0;

	for (i = 0; i < HM_BITMAP_LONGS(HM_BLOCK_PAGES); i++) {
		unsigned long bits = hm_bits_read(map, i);

		/*
		 * Tests use blocks with fewer pages than a long has bits, and memset() of the map
		 * also sets the bits beyond the block: ignore those.
		 */
		if (HM_BLOCK_PAGES % HM_BITS_PER_LONG)
			bits &= (1ul << HM_BLOCK_PAGES % HM_BITS_PER_LONG) - 1;
		n += hm_weight(bits);
	}
	return n;
}

#endif /* HM_BITS_H */
