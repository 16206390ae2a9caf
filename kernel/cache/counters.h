/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The counters of a cache; hm_cache_count() reads them. */
#ifndef HM_COUNTERS_H
#define HM_COUNTERS_H

/* include/hugemap_counters.def describes each counter. */
enum hm_counter {
#define HUGEMAP_CORE(id, name, help) HM_C_##id,
#define HUGEMAP_CORE_ONLY(id, help) HM_C_##id,
#include "hugemap_counters.def"
	HM_COUNTERS,
};

#endif /* HM_COUNTERS_H */
