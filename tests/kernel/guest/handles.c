// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * A file handle, as NFS servers use it, finds its file after renames and after the kernel has
 * dropped its dentries and inodes. It finds nothing outside of the mounted directory.
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
	EXPECT(!name_to_handle_at(AT_FDCWD, name, &handle->fh, &id, 0), "name_to_handle_at(%s): %s",
	       name, strerror(errno));
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

/*
 * Twice: the dentries here hold references to those of the lower file system, which the
 * kernel may scan first.
 */
static void drop_names(void)
{
	drop_caches("2");
	drop_caches("2");
}

static void expect_handle(const char *how, struct handle *handle, uint64_t seed, size_t len)
{
	int fd = open_handle(handle, O_RDWR);

	EXPECT(fd >= 0, "%s: open by handle: %s", how, strerror(errno));
	read_pattern(how, fd, seed, 0, len);
	close(fd);
}

BEHAVIOUR(handle_finds_a_file_after_renames_and_dropped_caches)
{
	struct handle handle, linked;
	int fd, cached;

	MUST(mkdir("d", 0755));
	MUST(mkdir("d/e", 0755));
	close(make_file("d/e/f", 1, HUGE + 100));
	get_handle("d/e/f", &handle);
	expect_handle("cached inode", &handle, 1, HUGE + 100);
	drop_names();
	expect_handle("inode that is not cached", &handle, 1, HUGE + 100);
	MUST(rename("d/e", "moved"));
	MUST(rename("moved/f", "g"));
	drop_names();
	expect_handle("renamed file", &handle, 1, HUGE + 100);
	/* It is the same inode, with the same pages. */
	cached = open_file("g", O_RDWR);
	fd = open_handle(&handle, O_RDWR);
	EXPECT(fd >= 0, "open by handle: %s", strerror(errno));
	write_pattern(fd, 2, 0, 1000);
	read_pattern("read by the name", cached, 2, 0, 1000);
	close(fd);
	MUST(link("g", "d/h"));
	get_handle("d/h", &linked);
	MUST(unlink("g"));
	drop_names();
	expect_handle("file with a second name, open by a removed name", &linked, 2, 1000);
	close(cached);
	/* The handle contains the parent of an existing name, not of the name removed last. */
	MUST(link("d/h", "i"));
	cached = open_file("i", O_RDWR);
	MUST(unlink("i"));
	get_handle("d/h", &linked);
	close(cached);
	drop_names();
	expect_handle("file whose other name was removed", &linked, 2, 1000);
	MUST(unlink("d/h"));
	EXPECT_ERRNO(open_handle(&linked, O_RDONLY), ESTALE);
	EXPECT_ERRNO(open_handle(&handle, O_RDONLY), ESTALE);
}

BEHAVIOUR(handle_finds_a_directory_and_the_root)
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
	drop_names();
	fd = open_handle(&handle, O_RDONLY | O_DIRECTORY);
	EXPECT(fd >= 0, "open of a directory by handle: %s", strerror(errno));
	fd = openat(fd, "f", O_RDONLY);
	EXPECT(fd >= 0, "open of a file in it: %s", strerror(errno));
	read_pattern("read of a file in it", fd, 1, 0, 10);
	dir = fdopendir(open_handle(&handle, O_RDONLY | O_DIRECTORY));
	EXPECT(dir, "fdopendir: %s", strerror(errno));
	while ((entry = readdir(dir)))
		found = found || !strcmp(entry->d_name, "f");
	EXPECT(found, "readdir does not find the file");
	get_handle(mnt_dir, &handle);
	EXPECT(open_handle(&handle, O_RDONLY | O_DIRECTORY) >= 0, "open of the root by handle: %s",
	       strerror(errno));
}

/* The lower file system contains more than the mounted directory. */
BEHAVIOUR(handle_of_a_file_outside_of_the_mount_is_stale)
{
	struct handle handle;
	char name[700];
	int fd;

	if (!on_hugemap())
		skip("without hugemap, nothing is outside");
	snprintf(name, sizeof(name), "%s/../outside-%d", lower_dir, (int)getpid());
	fd = make_file(name, 1, 100);
	get_handle(name, &handle);
	EXPECT_ERRNO(open_handle(&handle, O_RDONLY), ESTALE);
	drop_names();
	EXPECT_ERRNO(open_handle(&handle, O_RDONLY), ESTALE);
	close(fd);
	MUST(unlink(name));
}

/* A process that does not use the mount links the file by a handle of the lower fs. */
BEHAVIOUR(o_tmpfile_that_gets_a_name_in_the_lower_fs_keeps_its_data)
{
	int fd = open(".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0644), mount, other, id;
	struct handle handle = { .fh.handle_bytes = MAX_HANDLE_SZ };

	EXPECT(fd >= 0, "open(O_TMPFILE): %s", strerror(errno));
	write_pattern(fd, 1, 0, 3 * SMALL + 100);
	EXPECT(!name_to_handle_at(fd, "", &handle.fh, &id, AT_EMPTY_PATH), "name_to_handle_at: %s",
	       strerror(errno));
	mount = open_file(lower_dir, O_RDONLY | O_DIRECTORY);
	other = open_by_handle_at(mount, &handle.fh, O_RDONLY | O_CLOEXEC);
	if (other < 0)
		skip("the lower fs finds no file without a name: %s", strerror(errno));
	MUST(linkat(other, "", AT_FDCWD, lower_path("named"), AT_EMPTY_PATH));
	close(fd);
	/* A deferred worker may write it back and still hold a reference to the inode. */
	sync();
	read_pattern("lower file, written before it had a name", other, 1, 0, 3 * SMALL + 100);
	fd = open_file("named", O_RDWR);
	read_pattern("read by the new name", fd, 1, 0, 3 * SMALL + 100);
	close(fd);
	close(other);
	close(mount);
}

/* The root of the lower file system is mounted, which has no name there. */
BEHAVIOUR(handle_finds_the_root_of_a_mounted_file_system)
{
	char tmpfs_root[600], mounted_at[600];
	struct handle handle;
	int fd, error;

	if (!on_hugemap())
		skip("this needs a mount of hugemap");
	snprintf(tmpfs_root, sizeof(tmpfs_root), "%s/whole", getenv("SCRATCH"));
	snprintf(mounted_at, sizeof(mounted_at), "%s/over", getenv("SCRATCH"));
	MUST(mkdir(tmpfs_root, 0755));
	MUST(mkdir(mounted_at, 0755));
	MUST(mount("tmpfs", tmpfs_root, "tmpfs", 0, NULL));
	MUST(mount(tmpfs_root, mounted_at, "hugemap", 0, "pool=16M"));
	get_handle(mounted_at, &handle);
	fd = open_handle_in(mounted_at, &handle, O_RDONLY | O_DIRECTORY);
	error = errno;
	close(fd);
	MUST(umount(mounted_at));
	MUST(umount(tmpfs_root));
	EXPECT(fd >= 0, "open of the root by handle: %s", strerror(error));
}

RUN_BEHAVIOURS
