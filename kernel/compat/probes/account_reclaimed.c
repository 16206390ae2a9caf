// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* mm_account_reclaimed_pages() counts reclaimed pages, since 6.4. */
#include <linux/swap.h>

void probe(unsigned long pages);
void probe(unsigned long pages)
{
	mm_account_reclaimed_pages(pages);
}
