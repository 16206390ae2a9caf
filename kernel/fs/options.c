// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Mount options. The message for a refused option names the accepted values; `mount` and `hugemap
 * mount` print it.
 */
#include <linux/fs_context.h>
#include <linux/fs_parser.h>
#include <linux/kernel.h>
#include <linux/mm.h>
#include <linux/nodemask.h>
#include <linux/numa.h>
#include <linux/seq_file.h>

#include "namespace.h"

#define POOL_DEFAULT_PERCENT 25
#define POOL_MIN_DEFAULT_PERCENT 50
#define POOL_MAX_PERCENT 90
#define UTIL_DEFAULT_PERCENT 90
#define PROMOTE_INTERVAL_DEFAULT_MS 1000
#define PROMOTE_INTERVAL_MIN_MS 10
#define PROMOTE_INTERVAL_MAX_MS 3600000
/* 512 MB per second: a tenth of the time of a CPU that copies 5 GB per second. */
#define PROMOTE_BATCH_DEFAULT 256
#define PROMOTE_BATCH_MAX 65536
#define READAHEAD_DEFAULT_KB 32768
#define READAHEAD_MAX_KB (1u << 20)

enum {
	OPT_POOL,
	OPT_POOL_MIN,
	OPT_PAGE,
	OPT_DIRTY_RATIO,
	OPT_EVICT_BATCH,
	OPT_READAHEAD,
	OPT_PRIORITY,
	OPT_NODE,
	OPT_READ_OPTIMIZATION,
	OPT_WRITE_OPTIMIZATION,
	OPT_UTIL_THRESHOLD,
	OPT_PROMOTE_INTERVAL,
	OPT_PROMOTE_BATCH,
};

/* All are strings, so that this file prints the messages for wrong values. */
static const struct fs_parameter_spec parameters[] = {
	fsparam_string("pool", OPT_POOL),
	fsparam_string("pool_min", OPT_POOL_MIN),
	fsparam_string("page", OPT_PAGE),
	fsparam_string("dirty_ratio", OPT_DIRTY_RATIO),
	fsparam_string("evict_batch", OPT_EVICT_BATCH),
	fsparam_string("readahead", OPT_READAHEAD),
	fsparam_string("priority", OPT_PRIORITY),
	fsparam_string("node", OPT_NODE),
	fsparam_string("vfs_read_optimization", OPT_READ_OPTIMIZATION),
	fsparam_string("vfs_write_optimization", OPT_WRITE_OPTIMIZATION),
	fsparam_string("util_threshold", OPT_UTIL_THRESHOLD),
	fsparam_string("promote_interval", OPT_PROMOTE_INTERVAL),
	fsparam_string("promote_batch", OPT_PROMOTE_BATCH),
	{}
};

static u64 options_percent_of_ram(u32 percent)
{
	return div_u64((u64)totalram_pages() * percent, 100) << PAGE_SHIFT;
}

void hugemap_options_init(struct hugemap_options *opts)
{
	*opts = (struct hugemap_options){
		.pool = max(round_up(options_percent_of_ram(POOL_DEFAULT_PERCENT), HM_BLOCK_SIZE),
			    HUGEMAP_POOL_MIN),
		.pool_min_percent = POOL_MIN_DEFAULT_PERCENT,
		.page = HUGEMAP_PAGE_AUTO,
		.dirty_ratio = 75,
		.evict_batch = 16,
		.readahead_kb = READAHEAD_DEFAULT_KB,
		.priority = 0,
		.node = NUMA_NO_NODE,
		.read_optimization = true,
		.write_optimization = true,
		.util_threshold = UTIL_DEFAULT_PERCENT,
		.promote_interval = PROMOTE_INTERVAL_DEFAULT_MS,
		.promote_batch = PROMOTE_BATCH_DEFAULT,
	};
}

/* Parse "64M", "2G" or "12345" bytes. *rest is the text after the size. */
static bool options_parse_size(const char *text, u64 *size, const char **rest)
{
	char *end;

	if (*text < '0' || *text > '9')
		return false;
	*size = memparse(text, &end);
	*rest = end;
	return true;
}

static int options_parse_pool(struct fs_context *fc, const char *text, u64 *pool)
{
	const char *rest;
	u64 size;

	if (!options_parse_size(text, &size, &rest))
		return invalfc(fc, "pool=%s is no size: say, for example, pool=4G or pool=25%%",
			       text);
	if (!strcmp(rest, "%") && size <= 100)
		size = options_percent_of_ram(size);
	else if (*rest)
		return invalfc(fc, "pool=%s is no size: say, for example, pool=4G or pool=25%%",
			       text);
	if (size > options_percent_of_ram(POOL_MAX_PERCENT))
		return invalfc(
			fc,
			"pool=%s is too much: this machine has %llu MB of memory, and a pool may have %llu MB (%d%%) of it",
			text, options_percent_of_ram(100) >> 20,
			options_percent_of_ram(POOL_MAX_PERCENT) >> 20, POOL_MAX_PERCENT);
	size = round_up(size, HM_BLOCK_SIZE);
	if (size < HUGEMAP_POOL_MIN)
		return invalfc(fc, "pool=%s is too little: a pool has at least %llu MB", text,
			       HUGEMAP_POOL_MIN >> 20);
	*pool = size;
	return 0;
}

/* A percentage is one of the pool. A size above that of the pool means all of it. */
static int options_parse_pool_min(struct fs_context *fc, const char *text,
				  struct hugemap_options *opts)
{
	const char *rest;
	u64 size;

	if (options_parse_size(text, &size, &rest)) {
		if (!strcmp(rest, "%") && size && size <= 100) {
			opts->pool_min_percent = size;
			return 0;
		}
		if (!*rest) {
			opts->pool_min = size;
			opts->pool_min_percent = 0;
			return 0;
		}
	}
	return invalfc(
		fc,
		"pool_min=%s is no size: say, for example, pool_min=1G, or pool_min=50%% for half of the pool",
		text);
}

static int options_parse_readahead(struct fs_context *fc, const char *text, u32 *kb)
{
	const char *rest;
	u64 size;

	if (!options_parse_size(text, &size, &rest) || *rest)
		return invalfc(
			fc,
			"readahead=%s is no size: say KiB, or, for example, readahead=32M; 0 for none",
			text);
	/* A bare number is in KiB, as in read_ahead_kb. */
	if (rest[-1] < '0' || rest[-1] > '9')
		size >>= 10;
	if (size > READAHEAD_MAX_KB)
		return invalfc(fc, "readahead=%s is too much: at most %uM", text,
			       READAHEAD_MAX_KB >> 10);
	*kb = size;
	return 0;
}

static int options_parse_number(struct fs_context *fc, const struct fs_parameter *param, u32 min,
				u32 max, u32 *number)
{
	u32 value;

	if (kstrtou32(param->string, 10, &value) || value < min || value > max)
		return invalfc(fc, "%s=%s is out of range: it is from %u to %u", param->key,
			       param->string, min, max);
	*number = value;
	return 0;
}

static int options_parse_word(struct fs_context *fc, const struct fs_parameter *param,
			      const struct constant_table *words, const char *choices, int *value)
{
	for (; words->name; words++) {
		if (strcasecmp(words->name, param->string))
			continue;
		*value = words->value;
		return 0;
	}
	return invalfc(fc, "%s=%s is not known: it is %s", param->key, param->string, choices);
}

static const struct constant_table page_words[] = {
	{ "2M", HUGEMAP_PAGE_2M }, { "4K", HUGEMAP_PAGE_4K }, { "auto", HUGEMAP_PAGE_AUTO }, {}
};

const char *hugemap_page_name(enum hugemap_page page)
{
	return page_words[page].name;
}

static const struct constant_table priority_words[] = {
	{ "low", -1 }, { "normal", 0 }, { "high", 1 }, {}
};

static const struct constant_table switch_words[] = { { "off", 0 }, { "on", 1 }, {} };

static int options_parse_node(struct fs_context *fc, const char *text, int *node)
{
	u32 value;

	if (!strcmp(text, "any")) {
		*node = NUMA_NO_NODE;
		return 0;
	}
	if (kstrtou32(text, 10, &value) || value >= MAX_NUMNODES || !node_state(value, N_MEMORY))
		return invalfc(
			fc,
			"node=%s has no memory: see /sys/devices/system/node/has_memory, or say node=any",
			text);
	*node = value;
	return 0;
}

static int options_parse_option(struct fs_context *fc, struct fs_parameter *param, int opt,
				struct hugemap_options *opts)
{
	int value = 0, err;

	switch (opt) {
	case OPT_POOL:
		return options_parse_pool(fc, param->string, &opts->pool);
	case OPT_POOL_MIN:
		return options_parse_pool_min(fc, param->string, opts);
	case OPT_PAGE:
		err = options_parse_word(fc, param, page_words, "2M, 4K or auto", &value);
		if (!err)
			opts->page = value;
		return err;
	case OPT_DIRTY_RATIO:
		return options_parse_number(fc, param, 1, 95, &opts->dirty_ratio);
	case OPT_EVICT_BATCH:
		return options_parse_number(fc, param, 1, 64, &opts->evict_batch);
	case OPT_UTIL_THRESHOLD:
		return options_parse_number(fc, param, 0, 100, &opts->util_threshold);
	case OPT_PROMOTE_INTERVAL:
		return options_parse_number(fc, param, PROMOTE_INTERVAL_MIN_MS,
					    PROMOTE_INTERVAL_MAX_MS, &opts->promote_interval);
	case OPT_PROMOTE_BATCH:
		return options_parse_number(fc, param, 1, PROMOTE_BATCH_MAX, &opts->promote_batch);
	case OPT_READAHEAD:
		return options_parse_readahead(fc, param->string, &opts->readahead_kb);
	case OPT_PRIORITY:
		return options_parse_word(fc, param, priority_words, "low, normal or high",
					  &opts->priority);
	case OPT_NODE:
		return options_parse_node(fc, param->string, &opts->node);
	case OPT_READ_OPTIMIZATION:
		err = options_parse_word(fc, param, switch_words, "on or off", &value);
		if (!err)
			opts->read_optimization = value;
		return err;
	case OPT_WRITE_OPTIMIZATION:
		err = options_parse_word(fc, param, switch_words, "on or off", &value);
		if (!err)
			opts->write_optimization = value;
		return err;
	default:
		return opt;
	}
}

int hugemap_parse_param(struct fs_context *fc, struct fs_parameter *param)
{
	struct hugemap_options *opts = fc->fs_private;
	struct fs_parse_result result;
	int opt = fs_parse(fc, parameters, param, &result);
	int err = options_parse_option(fc, param, opt, opts);

	if (!err)
		opts->given |= BIT(opt);
	return err;
}

void hugemap_options_update(struct hugemap_options *opts, const struct hugemap_options *now)
{
	u32 given = opts->given;

	/* Since @opts was copied, sysfs or another remount may have changed the options. */
	if (!(given & BIT(OPT_POOL)))
		opts->pool = now->pool;
	if (!(given & BIT(OPT_POOL_MIN))) {
		opts->pool_min = now->pool_min;
		opts->pool_min_percent = now->pool_min_percent;
	}
	if (!(given & BIT(OPT_DIRTY_RATIO)))
		opts->dirty_ratio = now->dirty_ratio;
	if (!(given & BIT(OPT_EVICT_BATCH)))
		opts->evict_batch = now->evict_batch;
	if (!(given & BIT(OPT_READAHEAD)))
		opts->readahead_kb = now->readahead_kb;
	if (!(given & BIT(OPT_PRIORITY)))
		opts->priority = now->priority;
	if (!(given & BIT(OPT_NODE)))
		opts->node = now->node;
	if (!(given & BIT(OPT_READ_OPTIMIZATION)))
		opts->read_optimization = now->read_optimization;
	if (!(given & BIT(OPT_WRITE_OPTIMIZATION)))
		opts->write_optimization = now->write_optimization;
	if (!(given & BIT(OPT_UTIL_THRESHOLD)))
		opts->util_threshold = now->util_threshold;
	if (!(given & BIT(OPT_PROMOTE_INTERVAL)))
		opts->promote_interval = now->promote_interval;
	if (!(given & BIT(OPT_PROMOTE_BATCH)))
		opts->promote_batch = now->promote_batch;
}

int hugemap_show_options(struct seq_file *seq, struct dentry *root)
{
	const struct hugemap_options *opts = &hugemap_mount(root->d_sb)->opts;

	if (opts->pool_min_percent)
		seq_printf(seq, ",pool_min=%u%%", opts->pool_min_percent);
	else
		seq_printf(seq, ",pool_min=%lluK", opts->pool_min >> 10);
	seq_printf(seq, ",pool=%lluM,page=%s,dirty_ratio=%u,evict_batch=%u,readahead=%uK",
		   opts->pool >> 20, hugemap_page_name(opts->page), opts->dirty_ratio,
		   opts->evict_batch, opts->readahead_kb);
	if (opts->priority)
		seq_printf(seq, ",priority=%s", opts->priority < 0 ? "low" : "high");
	if (opts->node != NUMA_NO_NODE)
		seq_printf(seq, ",node=%d", opts->node);
	if (!opts->read_optimization)
		seq_puts(seq, ",vfs_read_optimization=off");
	if (!opts->write_optimization)
		seq_puts(seq, ",vfs_write_optimization=off");
	if (opts->util_threshold != UTIL_DEFAULT_PERCENT)
		seq_printf(seq, ",util_threshold=%u", opts->util_threshold);
	if (opts->promote_interval != PROMOTE_INTERVAL_DEFAULT_MS)
		seq_printf(seq, ",promote_interval=%u", opts->promote_interval);
	if (opts->promote_batch != PROMOTE_BATCH_DEFAULT)
		seq_printf(seq, ",promote_batch=%u", opts->promote_batch);
	return 0;
}
