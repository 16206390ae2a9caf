// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * /sys/fs/hugemap/<major>:<minor>/ of each mount: one file for each setting, and stats/ with one
 * file for each counter. The directory's name is the mount's st_dev, so that a program finds it
 * from any file of the mount. hugemap(5) describes the files.
 *
 * settings[] lists the settings, include/hugemap_counters.def the counters. Each kind of value has
 * one function. hugemap_sysfs_remove() waits for all reads and writes of a mount's files.
 */
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/fs_context.h>
#include <linux/fs_parser.h>
#include <linux/kdev_t.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/numa.h>
#include <linux/sched/signal.h>
#include <linux/stddef.h>
#include <linux/string.h>
#include <linux/sysfs.h>

#include "namespace.h"

/**
 * struct hugemap_attr - a file
 * @attr: name and mode
 * @show: prints the content
 * @option: the mount option that a write sets; NULL: the file is read-only
 * @arg: argument of @show: the offset of an option, or a counter
 */
struct hugemap_attr {
	struct attribute attr;
	ssize_t (*show)(struct hugemap_mount *mount, const struct hugemap_attr *attr, char *buf);
	const char *option;
	size_t arg;
};

static struct kset *hugemap_kset;

/* --- settings ------------------------------------------------------------------ */

/* Each option is a single word, so a reader sees either the old or the new value. */
static ssize_t sysfs_show_u64(struct hugemap_mount *mount, const struct hugemap_attr *attr,
			      char *buf)
{
	return sysfs_emit(buf, "%llu\n", READ_ONCE(*(u64 *)((char *)&mount->opts + attr->arg)));
}

static ssize_t sysfs_show_u32(struct hugemap_mount *mount, const struct hugemap_attr *attr,
			      char *buf)
{
	return sysfs_emit(buf, "%u\n", READ_ONCE(*(u32 *)((char *)&mount->opts + attr->arg)));
}

static ssize_t sysfs_show_priority(struct hugemap_mount *mount, const struct hugemap_attr *attr,
				   char *buf)
{
	int priority = READ_ONCE(mount->opts.priority);

	return sysfs_emit(buf, "%s\n", priority < 0 ? "low" : priority > 0 ? "high" : "normal");
}

static ssize_t sysfs_show_node(struct hugemap_mount *mount, const struct hugemap_attr *attr,
			       char *buf)
{
	int node = READ_ONCE(mount->opts.node);

	if (node == NUMA_NO_NODE)
		return sysfs_emit(buf, "any\n");
	return sysfs_emit(buf, "%d\n", node);
}

static ssize_t sysfs_show_bool(struct hugemap_mount *mount, const struct hugemap_attr *attr,
			       char *buf)
{
	bool on = READ_ONCE(*(bool *)((char *)&mount->opts + attr->arg));

	return sysfs_emit(buf, "%s\n", on ? "on" : "off");
}

static ssize_t sysfs_show_floor(struct hugemap_mount *mount, const struct hugemap_attr *attr,
				char *buf)
{
	return sysfs_emit(buf, "%llu\n", hugemap_pool_floor(&mount->opts));
}

static ssize_t sysfs_show_page(struct hugemap_mount *mount, const struct hugemap_attr *attr,
			       char *buf)
{
	return sysfs_emit(buf, "%s\n", hugemap_page_name(READ_ONCE(mount->opts.page)));
}

/* SETTING(): a file that shows and sets a mount option. FIXED(): a file that shows one. */
#define SETTING(file, name_of_option, field, kind)              \
	{                                                       \
		.attr = { .name = #file, .mode = 0644 },        \
		.show = sysfs_show_##kind,                      \
		.option = #name_of_option,                      \
		.arg = offsetof(struct hugemap_options, field), \
	}
#define FIXED(file, field, kind)                                \
	{                                                       \
		.attr = { .name = #file, .mode = 0444 },        \
		.show = sysfs_show_##kind,                      \
		.arg = offsetof(struct hugemap_options, field), \
	}

static struct hugemap_attr settings[] = {
	FIXED(pool_bytes, pool, u64),
	FIXED(page, page, page),
	FIXED(node, node, node),
	SETTING(pool_min_bytes, pool_min, pool_min, floor),
	SETTING(dirty_ratio, dirty_ratio, dirty_ratio, u32),
	SETTING(evict_batch, evict_batch, evict_batch, u32),
	SETTING(readahead_kb, readahead, readahead_kb, u32),
	SETTING(priority, priority, priority, priority),
	SETTING(vfs_read_optimization, vfs_read_optimization, read_optimization, bool),
	SETTING(vfs_write_optimization, vfs_write_optimization, write_optimization, bool),
	SETTING(util_threshold, util_threshold, util_threshold, u32),
	SETTING(promote_interval_ms, promote_interval, promote_interval, u32),
	SETTING(promote_batch, promote_batch, promote_batch, u32),
};

/* --- statistics ------------------------------------------------------------------ */

static ssize_t sysfs_show_core(struct hugemap_mount *mount, const struct hugemap_attr *attr,
			       char *buf)
{
	return sysfs_emit(buf, "%llu\n", hm_cache_count(mount->cache, (enum hm_counter)attr->arg));
}

static ssize_t sysfs_show_engine(struct hugemap_mount *mount, const struct hugemap_attr *attr,
				 char *buf)
{
	return sysfs_emit(buf, "%llu\n", hugemap_counted(mount, (enum hugemap_counter)attr->arg));
}

enum {
#define HUGEMAP_GAUGE(id, name, help) NOW_##id,
#include "hugemap_counters.def"
};

static ssize_t sysfs_show_now(struct hugemap_mount *mount, const struct hugemap_attr *attr,
			      char *buf)
{
	u64 pool = (u64)hugemap_pool_slots(mount) << HM_BLOCK_SHIFT, value;
	u64 free = min_t(u64, hm_cache_free_pages(mount->cache) << HM_PAGE_SHIFT, pool);

	switch (attr->arg) {
	case NOW_MEMORY_BYTES:
		value = pool;
		break;
	case NOW_FREE_BYTES:
		value = free;
		break;
	case NOW_RESIDENT_BYTES:
		value = pool - free;
		break;
	case NOW_HUGE_BYTES:
		value = min_t(u64, hm_cache_huge_pages(mount->cache) << HM_PAGE_SHIFT, pool - free);
		break;
	case NOW_DIRTY_BYTES:
		value = hm_cache_dirty_pages(mount->cache) << HM_PAGE_SHIFT;
		break;
	default:
		value = hugemap_in_flight(mount);
		break;
	}
	return sysfs_emit(buf, "%llu\n", value);
}

static ssize_t sysfs_show_latency(struct hugemap_mount *mount, const struct hugemap_attr *attr,
				  char *buf)
{
	struct hm_hist *sum = kvzalloc(sizeof(*sum), GFP_KERNEL);
	ssize_t length;

	if (!sum)
		return -ENOMEM;
	hugemap_recorded(mount, (enum hugemap_histogram)attr->arg, sum);
	length = sysfs_emit(buf, "%llu %llu %llu %llu %llu %llu\n", hm_hist_count(sum),
			    hm_hist_percentile(sum, 50000), hm_hist_percentile(sum, 90000),
			    hm_hist_percentile(sum, 99000), hm_hist_percentile(sum, 99900),
			    hm_atomic_read(&sum->max));
	kvfree(sum);
	return length;
}

#define STAT(file, kind, what) \
	{ .attr = { .name = #file, .mode = 0444 }, .show = sysfs_show_##kind, .arg = what }

static struct hugemap_attr stats[] = {
#define HUGEMAP_GAUGE(id, name, help) STAT(name, now, NOW_##id),
#define HUGEMAP_CORE(id, name, help) STAT(name, core, HM_C_##id),
#define HUGEMAP_MODULE(id, name, help) STAT(name, engine, HUGEMAP_C_##id),
#define HUGEMAP_LATENCY(id, name, help) STAT(name, latency, HUGEMAP_H_##id),
#include "hugemap_counters.def"
};

/* --- files and directories --------------------------------------------------------- */

static ssize_t hugemap_attr_show(struct kobject *kobj, struct attribute *attr, char *buf)
{
	struct hugemap_attr *file = container_of(attr, struct hugemap_attr, attr);

	return file->show(container_of(kobj, struct hugemap_mount, kobj), file, buf);
}

/*
 * Change an option by the code of "mount -o remount", so that only one place checks values. A
 * write to sysfs cannot return messages, so they go to the kernel log.
 */
static int sysfs_change(struct hugemap_mount *mount, const char *option, char *text, size_t length)
{
	struct hugemap_options opts = mount->opts;
	struct fs_context fc = {
		.purpose = FS_CONTEXT_FOR_RECONFIGURE,
		.fs_type = mount->sb->s_type,
		.fs_private = &opts,
		.log.prefix = "hugemap",
	};
	struct fs_parameter param = {
		.key = option,
		.type = fs_value_is_string,
		.string = text,
		.size = length,
	};
	int err = hugemap_parse_param(&fc, &param);

	return err < 0 ? err : hugemap_data_reconfigure(mount, &opts, &fc);
}

static ssize_t hugemap_attr_store(struct kobject *kobj, struct attribute *attr, const char *buf,
				  size_t count)
{
	struct hugemap_mount *mount = container_of(kobj, struct hugemap_mount, kobj);
	struct hugemap_attr *file = container_of(attr, struct hugemap_attr, attr);
	char text[32];
	int err;

	if (!file->option)
		return -EPERM;
	if (count >= sizeof(text))
		return -EINVAL;
	memcpy(text, buf, count);
	text[count] = '\0';
	text[strcspn(text, "\n")] = '\0';
	/*
	 * An unmount may hold s_umount and wait for this write in hugemap_sysfs_remove(). So do
	 * not wait for the lock: restart the system call, which fails if the file is gone.
	 */
	if (!down_write_trylock(&mount->sb->s_umount)) {
		msleep(20);
		return restart_syscall();
	}
	err = sysfs_change(mount, file->option, text, strlen(text));
	up_write(&mount->sb->s_umount);
	return err ? err : (ssize_t)count;
}

static const struct sysfs_ops hugemap_sysfs_ops = {
	.show = hugemap_attr_show,
	.store = hugemap_attr_store,
};

static void hugemap_kobj_release(struct kobject *kobj)
{
	complete(&container_of(kobj, struct hugemap_mount, kobj)->kobj_gone);
}

/* hugemap_sysfs_init() fills these from the tables. */
static struct attribute *settings_attrs[ARRAY_SIZE(settings) + 1];
static struct attribute *stats_attrs[ARRAY_SIZE(stats) + 1];

static const struct attribute_group settings_group = {
	.attrs = settings_attrs,
};

static const struct attribute_group stats_group = {
	.name = "stats",
	.attrs = stats_attrs,
};

static const struct attribute_group *hugemap_groups[] = {
	&settings_group,
	&stats_group,
	NULL,
};

static struct kobj_type hugemap_ktype = {
	.release = hugemap_kobj_release,
	.sysfs_ops = &hugemap_sysfs_ops,
	.default_groups = hugemap_groups,
};

/**
 * hugemap_sysfs_add() - create the directory of a mount
 * @mount: hugemap_data_start() has succeeded; @sb is set
 *
 * Return: 0 or -errno.
 */
int hugemap_sysfs_add(struct hugemap_mount *mount)
{
	dev_t dev = mount->sb->s_dev;
	int err;

	init_completion(&mount->kobj_gone);
	mount->kobj.kset = hugemap_kset;
	err = kobject_init_and_add(&mount->kobj, &hugemap_ktype, NULL, "%u:%u", MAJOR(dev),
				   MINOR(dev));
	if (err) {
		kobject_put(&mount->kobj);
		wait_for_completion(&mount->kobj_gone);
		return err;
	}
	mount->kobj_added = true;
	return 0;
}

/**
 * hugemap_sysfs_remove() - remove the directory of a mount, if it has one
 * @mount: a mount, before hugemap_data_stop()
 *
 * After the return no task reads or writes the files.
 */
void hugemap_sysfs_remove(struct hugemap_mount *mount)
{
	if (!mount->kobj_added)
		return;
	mount->kobj_added = false;
	kobject_del(&mount->kobj);
	kobject_put(&mount->kobj);
	wait_for_completion(&mount->kobj_gone);
}

int __init hugemap_sysfs_init(void)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(settings); i++)
		settings_attrs[i] = &settings[i].attr;
	for (i = 0; i < ARRAY_SIZE(stats); i++)
		stats_attrs[i] = &stats[i].attr;
	hugemap_kset = kset_create_and_add("hugemap", NULL, fs_kobj);
	return hugemap_kset ? 0 : -ENOMEM;
}

void hugemap_sysfs_exit(void)
{
	kset_unregister(hugemap_kset);
}
