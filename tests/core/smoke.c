// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* The first steps of the core: one fill, one store, one write-back. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "cache.h"

static void test_fill_store_write(void **state)
{
	struct hm_options opts;
	struct hm_cache *cache;
	struct hm_store *store;
	struct hm_unit unit;
	struct hm_run run;
	enum hm_outcome out;
	void *mem;
	u64 pos = 0;

	hm_options_init(&opts);
	opts.pool_frames = 16;
	opts.cpus = 2;
	assert_null(hm_options_check(&opts));
	mem = aligned_alloc(64, (hm_cache_bytes(&opts) + 63) & ~63ul);
	memset(mem, 0, hm_cache_bytes(&opts));
	cache = hm_cache_init(mem, &opts);
	store = hm_store_init(cache, calloc(1, hm_store_bytes()), 64ull << HM_BLOCK_SHIFT);
	assert_non_null(store);

	while ((out = hm_fault(store, 5, HM_ACCESS_WRITE, &unit)) == HM_NO_NODE)
		assert_true(hm_store_add_node(
			store, 5, unit.err, calloc(1, hm_node_bytes(unit.err)), NULL));
	assert_int_equal(out, HM_FILL);
	assert_int_equal(unit.pgoff, 0);
	assert_int_equal(unit.npages, HM_BLOCK_PAGES);
	assert_false(hm_fill_done(&unit, 0, HM_FILL_DIRTY));
	assert_int_equal(hm_cache_dirty_pages(cache), HM_BLOCK_PAGES);
	assert_int_equal(hm_writeback(store, &pos, 512, 512, true, &run), HM_WB_RUN);
	assert_int_equal(run.npages, HM_BLOCK_PAGES);
	hm_writeback_done(store, run.pgoff, run.npages, 0);
	assert_int_equal(hm_cache_dirty_pages(cache), 0);
	pos = 0;
	assert_int_equal(hm_invalidate(store, &pos, 512, false, &unit), HM_INV_UNIT);
	assert_false(hm_evict_done(&unit, HM_EVICTED));
	assert_int_equal(hm_cache_free_pages(cache), 16 * HM_BLOCK_PAGES);
	hm_store_destroy(store);
	free(store);
	free(mem);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fill_store_write),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
