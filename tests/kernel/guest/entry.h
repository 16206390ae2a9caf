/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * For programs about what a name stands for: make one, and see that what it says of
 * itself here is what it says below.
 */
#ifndef TESTS_KERNEL_ENTRY_H
#define TESTS_KERNEL_ENTRY_H

#include "common.h"

static inline void touch_file(const char *name)
{
	close(open_file(name, O_RDWR | O_CREAT));
}

static inline bool exists(const char *name)
{
	struct stat st, lower;
	bool here = !lstat(name, &st), there;

	/* A file is as long below as here when it has been written back. */
	if (here && S_ISREG(st.st_mode)) {
		int fd = open(name, O_RDONLY);

		if (fd >= 0)
			MUST(fsync(fd));
		if (fd >= 0)
			close(fd);
	}
	there = !lstat(lower_path(name), &lower);

	EXPECT(here == there, "%s is %s here but %s below", name, here ? "found" : "missing",
	       there ? "found" : "missing");
	if (here)
		EXPECT(st.st_mode == lower.st_mode && st.st_nlink == lower.st_nlink &&
			       st.st_uid == lower.st_uid && st.st_gid == lower.st_gid &&
			       st.st_size == lower.st_size && st.st_rdev == lower.st_rdev,
		       "%s: mode %o links %lu uid %u gid %u size %lld here, "
		       "%o %lu %u %u %lld below",
		       name, st.st_mode, (unsigned long)st.st_nlink, st.st_uid, st.st_gid,
		       (long long)st.st_size, lower.st_mode, (unsigned long)lower.st_nlink,
		       lower.st_uid, lower.st_gid, (long long)lower.st_size);
	return here;
}

static inline void expect_exists(const char *name, bool wanted)
{
	EXPECT(exists(name) == wanted, "%s %s", name, wanted ? "is missing" : "is still there");
}

#endif /* TESTS_KERNEL_ENTRY_H */
