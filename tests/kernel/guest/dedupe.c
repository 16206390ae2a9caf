// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * FIDEDUPERANGE does not write to a lower file system that has become read-only since the
 * files were opened. (It needs only descriptors for reading.)
 *
 * vm: lower=none page=auto modules=xfs programs=mkfs.xfs timeout=120
 */
#include "mounts.h"

#include <linux/fs.h>
#include <sys/ioctl.h>

#define SAME (16 * SMALL)

/* Returns the status of the request to share the blocks of @from with @to. */
static int dedupe(int from, int to)
{
	char buf[sizeof(struct file_dedupe_range) + sizeof(struct file_dedupe_range_info)]
		__attribute__((aligned(8))) = { 0 };
	struct file_dedupe_range *range = (void *)buf;

	range->src_length = SAME;
	range->dest_count = 1;
	range->info[0].dest_fd = to;
	MUST(ioctl(from, FIDEDUPERANGE, range));
	return range->info[0].status;
}

BEHAVIOUR(dedupe_fails_with_erofs_on_a_read_only_lower_fs)
{
	const char *dev;
	int from, to, refused, done;

	make_mount_dirs();
	dev = require_device();
	make_file_system("mkfs.xfs -q -f %s", dev);
	MUST(mount(dev, source_dir, "xfs", 0, NULL));
	MUST(chdir(source_dir));
	close(make_file("from", 1, SAME));
	close(make_file("to", 1, SAME));
	sync();
	MUST(mount(source_dir, mount_point, "hugemap", 0, "pool=64M"));
	MUST(chdir(mount_point));
	from = open_file("from", O_RDONLY);
	to = open_file("to", O_RDONLY);
	MUST(mount(NULL, source_dir, NULL, MS_REMOUNT | MS_RDONLY, NULL));
	refused = dedupe(from, to);
	MUST(mount(NULL, source_dir, NULL, MS_REMOUNT, NULL));
	done = dedupe(from, to);
	close(from);
	close(to);
	MUST(chdir(work_dir));
	MUST(umount(mount_point));
	MUST(umount(source_dir));
	EXPECT(refused == -EROFS, "status %d while read-only, expected -EROFS", refused);
	EXPECT(done == FILE_DEDUPE_RANGE_SAME || done == -EOPNOTSUPP,
	       "status %d when writable again", done);
}

RUN_BEHAVIOURS
