// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * File handles, by which NFS servers and backup programs find files again: whatever the
 * file is called by now, and whether or not anybody remembers it.
 *
 * vm: page=auto lower=ext4,xfs timeout=120
 */
#include "common.h"

#include <dirent.h>

struct handle {
	struct file_handle fh;
	unsigned char bytes[MAX_HANDLE_SZ];
};

static void get_handle(const char *name, struct handle *handle)
{
	int id;

	memset(handle, 0, sizeof(*handle));
	handle->fh.handle_bytes = MAX_HANDLE_SZ;
	EXPECT(!name_to_handle_at(AT_FDCWD, name, &handle->fh, &id, 0), "handle of %s: %s", name,
	       strerror(errno));
}

static int open_handle_in(const char *dir, struct handle *handle, int flags)
{
	int mount = open_file(dir, O_RDONLY | O_DIRECTORY), fd, error;

	fd = open_by_handle_at(mount, &handle->fh, flags | O_CLOEXEC);
	error = errno;
	close(mount);
	errno = error;
	return fd;
}

static int open_handle(struct handle *handle, int flags)
{
	return open_handle_in(mnt_dir, handle, flags);
}

/* Those below are held by those above, and may be looked at first. */
static void forget_names(void)
{
	int fd = open_file("/proc/sys/vm/drop_caches", O_WRONLY), i;

	for (i = 0; i < 2; i++)
		EXPECT(write(fd, "2", 1) == 1, "drop_caches: %s", strerror(errno));
	close(fd);
}

static void expect_handle(const char *how, struct handle *handle, uint64_t seed, size_t len)
{
	int fd = open_handle(handle, O_RDWR);

	EXPECT(fd >= 0, "%s: open by its handle: %s", how, strerror(errno));
	read_pattern(how, fd, seed, 0, len);
	close(fd);
}

BEHAVIOUR(files)
{
	struct handle handle, linked;
	int fd, cached;

	MUST(mkdir("d", 0755));
	MUST(mkdir("d/e", 0755));
	close(make_file("d/e/f", 1, HUGE + 100));
	get_handle("d/e/f", &handle);
	expect_handle("a file that is known", &handle, 1, HUGE + 100);
	forget_names();
	expect_handle("a file that is not", &handle, 1, HUGE + 100);
	MUST(rename("d/e", "moved"));
	MUST(rename("moved/f", "g"));
	forget_names();
	expect_handle("a file that was renamed", &handle, 1, HUGE + 100);
	/* It is the same file: one cache. */
	cached = open_file("g", O_RDWR);
	fd = open_handle(&handle, O_RDWR);
	EXPECT(fd >= 0, "open by handle: %s", strerror(errno));
	write_pattern(fd, 2, 0, 1000);
	read_pattern("read by its name", cached, 2, 0, 1000);
	close(fd);
	MUST(link("g", "d/h"));
	get_handle("d/h", &linked);
	MUST(unlink("g"));
	forget_names();
	expect_handle("a file that has another name, open by one that is gone", &linked, 2, 1000);
	close(cached);
	/* Of the name that there is, not of one that was looked up last, in another directory. */
	MUST(link("d/h", "i"));
	cached = open_file("i", O_RDWR);
	MUST(unlink("i"));
	get_handle("d/h", &linked);
	close(cached);
	forget_names();
	expect_handle("a file that has another name", &linked, 2, 1000);
	MUST(unlink("d/h"));
	EXPECT_ERRNO(open_handle(&linked, O_RDONLY), ESTALE);
	EXPECT_ERRNO(open_handle(&handle, O_RDONLY), ESTALE);
}

BEHAVIOUR(directories)
{
	struct dirent *entry;
	struct handle handle;
	bool found = false;
	DIR *dir;
	int fd;

	MUST(mkdir("d", 0755));
	close(make_file("d/f", 1, 10));
	get_handle("d", &handle);
	MUST(rename("d", "e"));
	forget_names();
	fd = open_handle(&handle, O_RDONLY | O_DIRECTORY);
	EXPECT(fd >= 0, "a directory by its handle: %s", strerror(errno));
	fd = openat(fd, "f", O_RDONLY);
	EXPECT(fd >= 0, "a file in it: %s", strerror(errno));
	read_pattern("read of a file in it", fd, 1, 0, 10);
	dir = fdopendir(open_handle(&handle, O_RDONLY | O_DIRECTORY));
	EXPECT(dir, "fdopendir: %s", strerror(errno));
	while ((entry = readdir(dir)))
		found = found || !strcmp(entry->d_name, "f");
	EXPECT(found, "its file is not in it");
	get_handle(mnt_dir, &handle);
	EXPECT(open_handle(&handle, O_RDONLY | O_DIRECTORY) >= 0, "the root: %s", strerror(errno));
}

/* What lies beside the directory that is mounted is no business of the mount's. */
BEHAVIOUR(outside)
{
	struct handle handle;
	char name[700];
	int fd;

	if (!on_hugemap())
		skip("all of it is inside here");
	snprintf(name, sizeof(name), "%s/../outside-%d", lower_dir, (int)getpid());
	fd = make_file(name, 1, 100);
	get_handle(name, &handle);
	EXPECT_ERRNO(open_handle(&handle, O_RDONLY), ESTALE);
	forget_names();
	EXPECT_ERRNO(open_handle(&handle, O_RDONLY), ESTALE);
	close(fd);
	MUST(unlink(name));
}

/* Another one has given a file its name, who knows nothing of this mount: it is kept. */
BEHAVIOUR(named_below)
{
	int fd = open(".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0644), mount, other, id;
	struct handle handle = { .fh.handle_bytes = MAX_HANDLE_SZ };

	EXPECT(fd >= 0, "open(O_TMPFILE): %s", strerror(errno));
	write_pattern(fd, 1, 0, 3 * SMALL + 100);
	EXPECT(!name_to_handle_at(fd, "", &handle.fh, &id, AT_EMPTY_PATH), "its handle: %s",
	       strerror(errno));
	mount = open_file(lower_dir, O_RDONLY | O_DIRECTORY);
	other = open_by_handle_at(mount, &handle.fh, O_RDONLY | O_CLOEXEC);
	if (other < 0)
		skip("what lies below finds no file without a name: %s", strerror(errno));
	MUST(linkat(other, "", AT_FDCWD, lower_path("named"), AT_EMPTY_PATH));
	close(fd);
	/* Somebody may write it behind the program, and have it still. */
	sync();
	read_pattern("what was written before it had a name", other, 1, 0, 3 * SMALL + 100);
	fd = open_file("named", O_RDWR);
	read_pattern("found by that name", fd, 1, 0, 3 * SMALL + 100);
	close(fd);
	close(other);
	close(mount);
}

/* It has no name below. */
BEHAVIOUR(root_of_a_file_system)
{
	char whole[600], over[600];
	struct handle handle;
	int fd, error;

	if (!on_hugemap())
		skip("nothing is mounted over anything");
	snprintf(whole, sizeof(whole), "%s/whole", getenv("SCRATCH"));
	snprintf(over, sizeof(over), "%s/over", getenv("SCRATCH"));
	MUST(mkdir(whole, 0755));
	MUST(mkdir(over, 0755));
	MUST(mount("tmpfs", whole, "tmpfs", 0, NULL));
	MUST(mount(whole, over, "hugemap", 0, "pool=16M"));
	get_handle(over, &handle);
	fd = open_handle_in(over, &handle, O_RDONLY | O_DIRECTORY);
	error = errno;
	close(fd);
	MUST(umount(over));
	MUST(umount(whole));
	EXPECT(fd >= 0, "the root of a file system by its handle: %s", strerror(error));
}

RUN_BEHAVIOURS
