// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* shrinker_alloc() allocates a shrinker with private_data, since 6.7. */
#include <linux/shrinker.h>

void probe(void *data);
void probe(void *data)
{
	struct shrinker *shrinker = shrinker_alloc(0, "probe");

	shrinker->private_data = data;
	shrinker_register(shrinker);
	shrinker_free(shrinker);
}
