// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* hugemap umount: write all data first; if the mount is busy, list the processes that use it. */
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

#define MOST_TOLD 10 /* processes */
#define LOOK_EVERY 0.2 /* seconds */

static const struct cli_option options[] = {
	{ "lazy", NULL, 'l', "detach it now, unmount when nobody uses it any more" },
	{ "force", NULL, 'f', "even if data could not be written: that is lost" },
	{},
};

static int run_umount(int argc, char **argv);

const struct cli_command umount_command = {
	.name = "umount",
	.page = "mount",
	.synopsis = "[-l] [-f] DIR",
	.summary = "Unmount a mount of HugeMap, or say who uses it.",
	.options = options,
	.letters = "lf",
	.run = run_umount,
};

/* --- processes that use the mount --- */

static bool is_on(const char *path, dev_t dev)
{
	struct statx stx;

	/* DONT_SYNC: a network file system answers from its cache. */
	return !statx(AT_FDCWD, path, AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT, STATX_TYPE, &stx) &&
	       makedev(stx.stx_dev_major, stx.stx_dev_minor) == dev;
}

struct culprit {
	pid_t pid;
	char files[PATH_MAX]; /* a file that it has open */
	unsigned int open;
	bool cwd, root, maps;
};

static void look_at_files(struct culprit *culprit, dev_t dev)
{
	char path[64 + NAME_MAX];
	struct dirent *entry;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", culprit->pid);
	dir = opendir(path);
	while (dir && (entry = readdir(dir))) {
		ssize_t n;

		snprintf(path, sizeof(path), "/proc/%d/fd/%s", culprit->pid, entry->d_name);
		if (entry->d_name[0] == '.' || !is_on(path, dev))
			continue;
		n = readlink(path, culprit->files, sizeof(culprit->files) - 1);
		culprit->files[n > 0 ? n : 0] = '\0';
		culprit->open++;
	}
	if (dir)
		closedir(dir);
}

static bool look_at(struct culprit *culprit, dev_t dev, const struct users *users)
{
	char path[64];
	size_t i;

	look_at_files(culprit, dev);
	snprintf(path, sizeof(path), "/proc/%d/cwd", culprit->pid);
	culprit->cwd = is_on(path, dev);
	snprintf(path, sizeof(path), "/proc/%d/root", culprit->pid);
	culprit->root = is_on(path, dev);
	for (i = 0; i < users->count; i++)
		culprit->maps |= users->list[i].pid == culprit->pid;
	return culprit->open || culprit->cwd || culprit->root || culprit->maps;
}

static void tell(const struct culprit *culprit)
{
	char path[64], name[32] = "", more[32] = "";

	snprintf(path, sizeof(path), "/proc/%d/comm", culprit->pid);
	read_line(path, name, sizeof(name));
	if (culprit->open > 1)
		snprintf(more, sizeof(more), " and %u more", culprit->open - 1);
	fprintf(stderr, "  process %d (%s)%s%s%s%s%s%s\n", culprit->pid, name,
		culprit->open ? " has open " : "", culprit->open ? culprit->files : "", more,
		culprit->cwd ? "; it works in a directory there" : "",
		culprit->root ? "; its root is there" : "",
		culprit->maps ? "; it maps files there" : "");
}

static unsigned int tell_processes(dev_t dev)
{
	DIR *dir = opendir("/proc");
	struct dirent *entry;
	unsigned int count = 0;
	struct users users;

	users_find(&dev, 1, &users);
	while (dir && (entry = readdir(dir))) {
		struct culprit culprit = { .pid = (pid_t)atoi(entry->d_name) };

		if (!isdigit((unsigned char)entry->d_name[0]) || !look_at(&culprit, dev, &users))
			continue;
		if (count++ < MOST_TOLD)
			tell(&culprit);
	}
	if (dir)
		closedir(dir);
	users_free(&users);
	if (count > MOST_TOLD)
		fprintf(stderr, "  and %u more processes\n", count - MOST_TOLD);
	return count;
}

struct nested {
	int id;
	unsigned int count;
};

static bool tell_nested(const struct mount_point *point, void *arg)
{
	struct nested *nested = arg;

	if (point->parent == nested->id && point->id != nested->id) {
		fprintf(stderr, "  %s is mounted on it\n", point->dir);
		nested->count++;
	}
	return true;
}

static int explain_busy(const struct mount_point *point)
{
	struct nested nested = { .id = point->id };

	cli_fail(&umount_command, "%s is in use:", point->dir);
	mount_points(tell_nested, &nested);
	if (!tell_processes(point->dev) && !nested.count)
		fputs("  no process that can be seen from here; perhaps a loop device, swap, an "
		      "NFS export, or another mount name space\n",
		      stderr);
	fputs("Let them end, or detach it with: hugemap umount --lazy\n", stderr);
	return CLI_FAILED;
}

/* --- write-back --- */

/* Run syncfs() in a child, so that the parent can show progress; returns 0 or -errno. */
static int write_back(const struct mount_point *point)
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

		cli_sleep(LOOK_EVERY);
		if (mount && !mount_open(point->dir, mount) && !mount_read(mount, &numbers))
			cli_progress("hugemap umount: %s are still to be written",
				     cli_bytes(text, (double)numbers.count[MOUNT_DIRTY]));
	}
	free(mount);
	cli_progress_clear();
	return WIFEXITED(status) ? -WEXITSTATUS(status) : -EINTR;
}

/* --- the command --- */

static int find(const char *dir, struct mount_point *point)
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

static int unmount(const char *dir, bool lazy, bool force)
{
	struct mount_point point;
	int err;

	if (find(dir, &point) != CLI_OK)
		return CLI_FAILED;
	err = write_back(&point);
	if (err && !force)
		return cli_fail(&umount_command,
				"%s stays mounted, so that nothing is lost: what was stored could "
				"not be written below (%s). Make that possible and try again, or "
				"give it up with --force",
				point.dir, strerror(-err));
	if (!umount2(point.dir, UMOUNT_NOFOLLOW | (lazy ? MNT_DETACH : 0)))
		return CLI_OK;
	if (errno == EBUSY)
		return explain_busy(&point);
	return cli_fail(&umount_command, "%s could not be unmounted: %s", point.dir,
			strerror(errno));
}

static int run_umount(int argc, char **argv)
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
		cli_usage(&umount_command, "say which directory to unmount");
	if (mount_check_root(&umount_command) != CLI_OK)
		return CLI_FAILED;
	return unmount(argv[optind], lazy, force);
}
