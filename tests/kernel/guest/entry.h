/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * For tests of names and inodes: a name must exist here exactly if it exists in the lower
 * file system, and both inodes must have the same attributes.
 */
#ifndef TESTS_KERNEL_ENTRY_H
#define TESTS_KERNEL_ENTRY_H

#include "common.h"

#include <sys/xattr.h>

static inline void touch_file(const char *name)
{
	close(open_file(name, O_RDWR | O_CREAT));
}

/* Fails if the two file systems differ. */
static inline bool exists_in_both(const char *name)
{
	struct stat st, lower;
	bool here = !lstat(name, &st), there;

	/* The lower file gets its full length by write-back. */
	if (here && S_ISREG(st.st_mode)) {
		int fd = open(name, O_RDONLY);

		if (fd >= 0)
			MUST(fsync(fd));
		if (fd >= 0)
			close(fd);
	}
	there = !lstat(lower_path(name), &lower);

	EXPECT(here == there, "%s is %s here but %s in the lower fs", name,
	       here ? "found" : "missing", there ? "found" : "missing");
	if (here)
		EXPECT(st.st_mode == lower.st_mode && st.st_nlink == lower.st_nlink &&
			       st.st_uid == lower.st_uid && st.st_gid == lower.st_gid &&
			       st.st_size == lower.st_size && st.st_rdev == lower.st_rdev,
		       "%s: mode %o links %lu uid %u gid %u size %lld here, "
		       "%o %lu %u %u %lld in the lower fs",
		       name, st.st_mode, (unsigned long)st.st_nlink, st.st_uid, st.st_gid,
		       (long long)st.st_size, lower.st_mode, (unsigned long)lower.st_nlink,
		       lower.st_uid, lower.st_gid, (long long)lower.st_size);
	return here;
}

static inline void expect_exists(const char *name)
{
	EXPECT(exists_in_both(name), "%s is missing", name);
}

static inline void expect_missing(const char *name)
{
	EXPECT(!exists_in_both(name), "%s exists", name);
}

/* VFS_CAP_REVISION_2, effective: CAP_NET_RAW. */
static const uint32_t net_raw_caps[5] = { 0x02000001, 1u << 13, 0, 0, 0 };

static inline void give_capability(const char *name)
{
	if (setxattr(name, "security.capability", net_raw_caps, sizeof(net_raw_caps), 0)) {
		EXPECT(errno == EOPNOTSUPP, "setxattr: %s", strerror(errno));
		skip("no extended attributes here");
	}
}

#endif /* TESTS_KERNEL_ENTRY_H */
