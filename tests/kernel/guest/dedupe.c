// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Who removes duplicates has the files open for reading only: what has become read-only
 * below since is not written.
 *
 * vm: lower=none page=auto modules=xfs programs=mkfs.xfs timeout=120
 */
#include "common.h"
#include "mounts.h"

#include <linux/fs.h>
#include <sys/ioctl.h>

#define SAME (16 * SMALL)

/* What became of the request to have the blocks of @from at @to. */
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

BEHAVIOUR(read_only_below)
{
	const char *dev = getenv("DEV");
	char command[1400];
	int from, to, refused, done;

	make_mount_dirs();
	if (!dev)
		skip("DEV is not set");
	snprintf(command, sizeof(command), "mkfs.xfs -q -f %s >/dev/null 2>&1", dev);
	if (system(command))
		skip("mkfs.xfs does not work");
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
	EXPECT(refused == -EROFS, "on what is read-only: %d, expected EROFS", refused);
	EXPECT(done == FILE_DEDUPE_RANGE_SAME || done == -EOPNOTSUPP, "afterwards: %d", done);
}

RUN_BEHAVIOURS
