/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What the parts of the policy share: thresholds, arithmetic of pages, and how they answer. */
#ifndef HM_STEER_PART_H
#define HM_STEER_PART_H

#include "policy.h"

#define REGION ((u64)REGION_PAGES)

/*
 * A fault maps the cached pages among the 16 around it. So a run of up to 16 pages proves nothing.
 */
#define AROUND 16u
/* If single pages are read, a run of this length makes it worthwhile to read its region at once. */
#define LONG_RUN 24u
/*
 * A stream of TRUSTED pages gets an area of 16 MB, a stream of PROVEN pages the rest of the
 * mapping.
 */
#define TRUSTED (2 * REGION)
#define PROVEN (8 * REGION)
/* Reading a region at once costs as much as reading this many of its pages one by one. */
#define REGION_COST 12u
/* A track that has not grown for this many looks is no evidence of the present accesses. */
#define RECENT 12u
#define STRIDE_SEEN 4

static inline u64 policy_least(u64 a, u64 b)
{
	return a < b ? a : b;
}

static inline u64 policy_most(u64 a, u64 b)
{
	return a > b ? a : b;
}

static inline u64 policy_region_up(u64 page)
{
	return (page + REGION - 1) / REGION * REGION;
}

static inline u64 policy_region_down(u64 page)
{
	return page / REGION * REGION;
}

/* If the window of the kernel is not known, assume a large one. */
static inline u64 policy_window(const struct hm_advisor *a)
{
	return a->facts.window ? a->facts.window : 4 * REGION;
}

static inline bool policy_by_pages(enum hm_mode mode)
{
	return mode == HM_MODE_NORMAL || mode == HM_MODE_RANDOM;
}

/* The pages of all mappings among which memory is divided. */
static inline u64 policy_pages(const struct hm_advisor *a)
{
	return policy_most(a->end - a->first, a->facts.shared.pages);
}

static inline bool policy_fits(const struct hm_advisor *a)
{
	return !a->facts.crowded && a->facts.memory && policy_pages(a) < a->facts.memory / 2;
}

/*
 * Add a piece of advice to the answers of the look. Returns NULL if the range is empty or there is
 * no room.
 */
static inline struct hm_advice *policy_answer(struct hm_advisor *a, enum hm_advice_kind kind,
					      u64 start, u64 end)
{
	struct hm_advice *advice;

	start = policy_most(start, a->first);
	end = policy_least(end, a->end);
	if (start >= end || a->count == HM_ADVICES)
		return NULL;
	advice = &a->advice[a->count++];
	*advice = (struct hm_advice){ .kind = kind, .start = start, .end = end, .step = 1 };
	return advice;
}

static inline void policy_say_mode(struct hm_advisor *a, u64 start, u64 end, enum hm_mode mode)
{
	struct hm_advice *advice = policy_answer(a, HM_ADVICE_MODE, start, end);

	if (advice)
		advice->mode = mode;
}

#endif /* HM_STEER_PART_H */
