// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* hugemap umount: write all data, then unmount. If the mount is busy, list its users. */
#include "cli.h"
#include "mount_check.h"
#include "mountinfo.h"
#include "mounts.h"
#include "system.h"
#include "users.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#define USERS_MAX 10 /* processes that are listed */
#define POLL_SECONDS 0.2

static const struct cli_option options[] = {
	{ "lazy", NULL, 'l', "detach it now, unmount when nobody uses it any more" },
	{ "force", NULL, 'f', "even if data could not be written: that is lost" },
	{},
};

static int umount_run(int argc, char **argv);

const struct cli_command umount_command = {
	.name = "umount",
	.page = "mount",
	.synopsis = "[-l] [-f] DIR",
	.summary = "Unmount a mount of HugeMap, or report its users.",
	.options = options,
	.letters = "lf",
	.run = umount_run,
};

/* --- processes that use the mount --- */

static bool umount_is_on(const char *path, dev_t dev)
{
	struct statx stx;

	/* AT_STATX_DONT_SYNC: do not wait for a server. */
	return !statx(AT_FDCWD, path, AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT, STATX_TYPE, &stx) &&
	       makedev(stx.stx_dev_major, stx.stx_dev_minor) == dev;
}

struct umount_user {
	pid_t pid;
	char files[PATH_MAX]; /* name of an open file */
	unsigned int open;
	bool cwd, root, maps;
};

static void umount_inspect_files(struct umount_user *user, dev_t dev)
{
	char path[64 + NAME_MAX];
	struct dirent *entry;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", user->pid);
	dir = opendir(path);
	while (dir && (entry = readdir(dir))) {
		ssize_t n;

		snprintf(path, sizeof(path), "/proc/%d/fd/%s", user->pid, entry->d_name);
		if (entry->d_name[0] == '.' || !umount_is_on(path, dev))
			continue;
		n = readlink(path, user->files, sizeof(user->files) - 1);
		user->files[n > 0 ? n : 0] = '\0';
		user->open++;
	}
	if (dir)
		closedir(dir);
}

static bool umount_inspect(struct umount_user *user, dev_t dev, const struct users *users)
{
	char path[64];
	size_t i;

	umount_inspect_files(user, dev);
	snprintf(path, sizeof(path), "/proc/%d/cwd", user->pid);
	user->cwd = umount_is_on(path, dev);
	snprintf(path, sizeof(path), "/proc/%d/root", user->pid);
	user->root = umount_is_on(path, dev);
	for (i = 0; i < users->count; i++)
		user->maps |= users->list[i].pid == user->pid;
	return user->open || user->cwd || user->root || user->maps;
}

static void umount_print_user(const struct umount_user *user)
{
	char path[64], name[32] = "", more[32] = "";

	snprintf(path, sizeof(path), "/proc/%d/comm", user->pid);
	read_line(path, name, sizeof(name));
	if (user->open > 1)
		snprintf(more, sizeof(more), " and %u more", user->open - 1);
	fprintf(stderr, "  process %d (%s)%s%s%s%s%s%s\n", user->pid, name,
		user->open ? " has open " : "", user->open ? user->files : "", more,
		user->cwd ? "; it works in a directory there" : "",
		user->root ? "; its root is there" : "", user->maps ? "; it maps files there" : "");
}

static unsigned int umount_print_users(dev_t dev)
{
	DIR *dir = opendir("/proc");
	struct dirent *entry;
	unsigned int count = 0;
	struct users users;

	users_find(&dev, 1, &users);
	while (dir && (entry = readdir(dir))) {
		struct umount_user user = { .pid = (pid_t)atoi(entry->d_name) };

		if (!isdigit((unsigned char)entry->d_name[0]) ||
		    !umount_inspect(&user, dev, &users))
			continue;
		if (count++ < USERS_MAX)
			umount_print_user(&user);
	}
	if (dir)
		closedir(dir);
	users_free(&users);
	if (count > USERS_MAX)
		fprintf(stderr, "  and %u more processes\n", count - USERS_MAX);
	return count;
}

struct nested {
	int id;
	unsigned int count;
};

static bool umount_print_nested(const struct mount_point *point, void *arg)
{
	struct nested *nested = arg;

	if (point->parent == nested->id && point->id != nested->id) {
		fprintf(stderr, "  %s is mounted on it\n", point->dir);
		nested->count++;
	}
	return true;
}

static int umount_fail_busy(const struct mount_point *point)
{
	struct nested nested = { .id = point->id };

	cli_fail(&umount_command, "%s is in use:", point->dir);
	mount_points(umount_print_nested, &nested);
	if (!umount_print_users(point->dev) && !nested.count)
		fputs("  no process that can be seen from here; perhaps a loop device, swap, an "
		      "NFS export, or another mount name space\n",
		      stderr);
	fputs("Let them end, or detach it with: hugemap umount --lazy\n", stderr);
	return CLI_FAILED;
}

/* --- write-back --- */

/* Run syncfs() in a child, so that the parent can show progress; returns 0 or -errno. */
static int umount_write_back(const struct mount_point *point)
{
	struct mount_numbers numbers;
	struct mount *mount;
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		int fd = open(point->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		_exit(fd < 0 || syncfs(fd) < 0 ? errno & 255 : 0);
	}
	if (pid < 0)
		return -errno;
	mount = malloc(sizeof(*mount));
	while (waitpid(pid, &status, WNOHANG) == 0) {
		char text[CLI_TEXT];

		cli_sleep(POLL_SECONDS);
		if (mount && !mount_open(point->dir, mount) && !mount_read(mount, &numbers))
			cli_progress("hugemap umount: %s are still to be written",
				     cli_bytes(text, (double)numbers.count[MOUNT_DIRTY_BYTES]));
	}
	free(mount);
	cli_progress_clear();
	return WIFEXITED(status) ? -WEXITSTATUS(status) : -EINTR;
}

/* --- the command --- */

static int umount_find(const char *dir, struct mount_point *point)
{
	struct mount mount;

	if (mount_of_hugemap(dir, point))
		return CLI_OK;
	if (!point->dir[0])
		return cli_fail(&umount_command, "%s: %s", dir, strerror(errno));
	if (!mount_open(point->dir, &mount) && mount.dir[0])
		return cli_fail(&umount_command, "%s is not where it is mounted: that is %s",
				point->dir, mount.dir);
	return cli_fail(&umount_command,
			"%s is no mount of HugeMap; `hugemap stat` lists those that there are",
			point->dir);
}

static int umount_dir(const char *dir, bool lazy, bool force)
{
	struct mount_point point;
	int err;

	if (umount_find(dir, &point) != CLI_OK)
		return CLI_FAILED;
	err = umount_write_back(&point);
	if (err && !force)
		return cli_fail(&umount_command,
				"%s stays mounted, so that nothing is lost: what was stored could "
				"not be written below (%s). Make that possible and try again, or "
				"give it up with --force",
				point.dir, strerror(-err));
	if (!umount2(point.dir, UMOUNT_NOFOLLOW | (lazy ? MNT_DETACH : 0)))
		return CLI_OK;
	if (errno == EBUSY)
		return umount_fail_busy(&point);
	return cli_fail(&umount_command, "%s could not be unmounted: %s", point.dir,
			strerror(errno));
}

static int umount_run(int argc, char **argv)
{
	bool lazy = false, force = false;
	struct cli_parser parser;
	int key;

	cli_parse(&parser, &umount_command, argc, argv);
	while ((key = cli_next(&parser)) >= 0) {
		if (key == 'l')
			lazy = true;
		else
			force = true;
	}
	if (argc - optind != 1)
		cli_usage(&umount_command, "the directory is missing");
	if (mount_check_root(&umount_command) != CLI_OK)
		return CLI_FAILED;
	return umount_dir(argv[optind], lazy, force);
}
