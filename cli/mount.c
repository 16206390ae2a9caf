// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * hugemap mount, and mount.hugemap: the same under the name that mount(8) looks
 * for. It uses the calls of the kernel that hand back sentences, not just errno.
 */
#include "mount.h"
#include "mount_persist.h"
#include "mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <mntent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* Exit statuses of a helper of mount(8). */
enum {
	HELPER_USAGE = 1,
	HELPER_FAILED = 32,
};

static const struct cli_option options[] = {
	{ "options", "LIST", 'o', "options of the mount, with commas between them" },
	{ "persist", NULL, 'P', "at every boot, too: write the line of /etc/fstab" },
	{ "fake", NULL, 'f', "check everything, mount and write nothing" },
	{ "verbose", NULL, 'v', "say more" },
	{},
};

static int run_mount(int argc, char **argv);

const struct cli_command mount_command = {
	.name = "mount",
	.synopsis = "[-o LIST] [--persist] [-f] [-v] SOURCE DIR | -o remount,LIST DIR",
	.summary = "Mount a directory or a block device through HugeMap's kernel engine.",
	.options = options,
	.notes =
		"SOURCE is a directory of any file system, or a block device. Options, among them\n"
		"pool=SIZE and page=2M, 4K or auto, are told in hugemap(5). Without pool= a quarter of\n"
		"the machine's memory is taken. --persist shows the line before it writes it;\n"
		"`hugemap umount --forget` takes it away.\n",
	.letters = "ofv",
	.run = run_mount,
};

/**
 * struct request - a mount to be made
 * @command: whose name complaints carry
 * @helper: called by mount(8): quiet
 * @persist: at every boot, too
 * @sloppy: options that the kernel does not know are passed over
 * @list: what -o says, as it was typed; or NULL
 */
struct request {
	const struct cli_command *command;
	const char *source;
	const char *dir;
	struct mount_options options;
	const char *list;
	bool helper;
	bool persist;
	bool fake;
	bool verbose;
	bool sloppy;
};

/* --- what the kernel says --- */

/**
 * struct log - messages of a file system context
 * @error: the last error, without "e hugemap: "; ""
 * @unknown: an error said that an option is not known
 */
struct log {
	char error[512];
	bool unknown;
};

static const char *without_prefix(const char *text)
{
	static const char prefix[] = "hugemap: ";

	return strncmp(text, prefix, strlen(prefix)) ? text : text + strlen(prefix);
}

/* One message a read: a letter, a blank, the text. */
static void read_log(const struct request *request, int fd, struct log *log)
{
	char line[512];
	ssize_t n;

	*log = (struct log){};
	while ((n = read(fd, line, sizeof(line) - 1)) > 0 || (n < 0 && errno == EMSGSIZE)) {
		const char *text;

		if (n < 2)
			continue;
		line[n] = '\0';
		line[strcspn(line, "\n")] = '\0';
		text = without_prefix(line[1] == ' ' ? line + 2 : line);
		if (line[0] == 'e') {
			snprintf(log->error, sizeof(log->error), "%s", text);
			log->unknown |= !strncmp(text, "Unknown parameter", 17);
		} else if (line[0] == 'w' || request->verbose) {
			cli_progress_clear();
			fprintf(stderr, "%s\n", text);
		}
	}
}

static const char *why(int err, const struct log *log)
{
	if (log->error[0])
		return log->error;
	switch (err) {
	case EBUSY:
		return "it is in use";
	case ENOMEM:
		return "there is not enough free memory for the pool, in pieces as large as its "
		       "pages; ask for less with -o pool=SIZE";
	case ENOSYS:
		return "this kernel is too old: it lacks fsopen(2)";
	case EPERM:
		return "this is not permitted, not even to root; in a container that is for the "
		       "host to do";
	default:
		return strerror(err);
	}
}

/* --- options --- */

static int set_option(const struct request *request, int fd, const char *key, const char *value)
{
	unsigned int command = value ? FSCONFIG_SET_STRING : FSCONFIG_SET_FLAG;
	struct log log;
	int err;

	if (!fsconfig(fd, command, key, value, 0))
		return CLI_OK;
	err = errno;
	read_log(request, fd, &log);
	if (log.unknown && request->sloppy)
		return CLI_OK;
	/* The kernel's sentence names the option, strerror() does not. */
	if (log.error[0])
		return cli_fail(request->command, "%s; man 5 hugemap tells which options there are",
				log.error);
	return cli_fail(request->command, "the option %s%s%s: %s", key, value ? "=" : "",
			value ? value : "", strerror(err));
}

static int set_options(const struct request *request, int fd)
{
	const struct mount_options *opts = &request->options;
	size_t i;

	for (i = 0; i < opts->count; i++) {
		int status = set_option(request, fd, opts->key[i], opts->value[i]);

		if (status != CLI_OK)
			return status;
	}
	return CLI_OK;
}

/* --- remount --- */

static int remount(const struct request *request)
{
	struct mount_attr attr = {
		.attr_set = request->options.attr_set,
		.attr_clr = request->options.attr_clear,
	};
	struct mount_point point;
	const char *dir = point.dir;
	struct log log;
	int fd, status, err;

	if (!mount_of_hugemap(request->dir, &point)) {
		if (!dir[0])
			return cli_fail(request->command, "%s: %s", request->dir, strerror(errno));
		return cli_fail(request->command,
				"%s is no mount of HugeMap; `hugemap stat` lists those that there "
				"are",
				dir);
	}
	if (request->fake)
		return CLI_OK;
	fd = fspick(AT_FDCWD, dir, FSPICK_CLOEXEC | FSPICK_NO_AUTOMOUNT);
	if (fd < 0)
		return cli_fail(request->command, "%s: %s", dir, strerror(errno));
	status = set_options(request, fd);
	cli_progress("hugemap mount: %s is being changed", dir);
	if (status == CLI_OK && fsconfig(fd, FSCONFIG_CMD_RECONFIGURE, NULL, NULL, 0) < 0) {
		err = errno;
		read_log(request, fd, &log);
		status = cli_fail(request->command, "%s stays as it was: %s", dir, why(err, &log));
	}
	cli_progress_clear();
	if (status == CLI_OK)
		read_log(request, fd, &log); /* warnings */
	close(fd);
	/* Read-only is of the file system too; the others are of the mount point alone. */
	if (status == CLI_OK && (attr.attr_set || attr.attr_clr) &&
	    mount_setattr(AT_FDCWD, dir, 0, &attr, sizeof(attr)) < 0)
		status = cli_fail(request->command, "%s: flags of the mount point: %s", dir,
				  strerror(errno));
	return status;
}

/* --- mount --- */

/* What is not allowed where the directory lies is not here, as with a bind mount. */
static uint64_t forbidden_at(const char *source)
{
	struct statvfs fs;
	struct stat st;

	if (stat(source, &st) || !S_ISDIR(st.st_mode) || statvfs(source, &fs))
		return 0;
	return (fs.f_flag & ST_NOSUID ? MOUNT_ATTR_NOSUID : 0) |
	       (fs.f_flag & ST_NODEV ? MOUNT_ATTR_NODEV : 0) |
	       (fs.f_flag & ST_NOEXEC ? MOUNT_ATTR_NOEXEC : 0);
}

static int attach(const struct request *request, int fd)
{
	/* Unless it was asked for: -o suid, dev, exec. */
	uint64_t attr = request->options.attr_set |
			(forbidden_at(request->source) & ~request->options.attr_clear);
	int point = fsmount(fd, FSMOUNT_CLOEXEC, (unsigned int)attr);
	struct log log;
	int err;

	if (point < 0) {
		err = errno;
		read_log(request, fd, &log);
		return cli_fail(request->command, "%s cannot be mounted: %s", request->source,
				why(err, &log));
	}
	if (move_mount(point, "", AT_FDCWD, request->dir, MOVE_MOUNT_F_EMPTY_PATH) < 0) {
		err = errno;
		close(point);
		return cli_fail(request->command, "it cannot be mounted at %s: %s", request->dir,
				strerror(err));
	}
	close(point);
	return CLI_OK;
}

static int create(const struct request *request, int fd, const char *source, uint64_t pool)
{
	char text[CLI_TEXT], size[32];
	struct log log;
	int err;

	if (set_option(request, fd, "source", source) != CLI_OK)
		return CLI_FAILED;
	snprintf(size, sizeof(size), "%lluK", (unsigned long long)pool >> 10);
	if (!request->options.has_pool && set_option(request, fd, "pool", size) != CLI_OK)
		return CLI_FAILED;
	if (pool)
		cli_progress("hugemap mount: a pool of %s is being taken",
			     cli_bytes(text, (double)pool));
	if (fsconfig(fd, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0) {
		err = errno;
		read_log(request, fd, &log);
		cli_fail(request->command, "%s cannot be mounted: %s", source, why(err, &log));
		if (err == EBUSY)
			mount_explain_device(source);
		return CLI_FAILED;
	}
	cli_progress_clear();
	read_log(request, fd, &log); /* warnings */
	return attach(request, fd);
}

/* Where a mount is asked for at every boot, it may be there already. */
static bool is_there(const struct request *request)
{
	struct mount_point point;
	char source[PATH_MAX];

	return realpath(request->source, source) && mount_of_hugemap(request->dir, &point) &&
	       !strcmp(point.source, source);
}

static void tell(const struct request *request, const char *source, uint64_t pool, bool there)
{
	char text[CLI_TEXT];

	if (there) {
		printf("%s is mounted at %s already, and stays as it is.\n", source, request->dir);
		return;
	}
	if (!request->options.has_pool)
		printf("No pool was asked for: it is a quarter of this machine's memory, %s "
		       "(-o pool=SIZE changes that).\n",
		       cli_bytes(text, (double)pool));
	if (request->fake)
		printf("%s could be mounted at %s, as far as can be seen.\n", source, request->dir);
	else if (!request->helper || request->verbose)
		printf("%s is mounted at %s. Watch it with: hugemap stat %s\n", source,
		       request->dir, request->dir);
}

static int mount_now(const struct request *request, bool there)
{
	uint64_t pool = request->options.has_pool ? request->options.pool : mount_default_pool();
	const struct cli_command *command = request->command;
	char source[PATH_MAX];
	int fd, status;

	if (mount_check_module(command, request->verbose) != CLI_OK)
		return CLI_FAILED;
	if (!realpath(request->source, source))
		return cli_fail(command, "%s: %s", request->source, strerror(errno));
	fd = fsopen("hugemap", FSOPEN_CLOEXEC);
	if (fd < 0)
		return cli_fail(command, "the kernel does not take the mount: %s",
				why(errno, &(struct log){}));
	status = set_options(request, fd);
	if (status == CLI_OK && !there)
		status = mount_check_memory(command, pool, request->options.base_pages);
	if (status == CLI_OK && !there && !request->fake)
		status = create(request, fd, source, pool);
	close(fd);
	if (status == CLI_OK)
		tell(request, source, pool, there);
	return status;
}

/* mount(8) passes over a line that has it when it mounts all, and so does systemd. */
static bool is_noauto(const char *list)
{
	const struct mntent given = { .mnt_opts = (char *)(list ? list : "") };

	return hasmntopt(&given, "noauto");
}

/* Now and at every boot. */
static int mount_always(const struct request *request, bool there)
{
	const struct cli_command *command = request->command;
	struct persist persist;
	int status = persist_prepare(&persist, command, request->source, request->dir,
				     request->list, request->fake);

	if (status == CLI_OK)
		status = mount_now(request, there);
	if (status == CLI_OK) {
		status = persist_write(&persist, request->fake);
		if (status != CLI_OK && !request->fake)
			cli_fail(command,
				 "it is mounted until the next boot; the same command, once more, "
				 "writes the line");
	}
	persist_free(&persist);
	return status;
}

static int carry_out(const struct request *request)
{
	const struct cli_command *command = request->command;
	bool there;

	if (mount_check_root(command) != CLI_OK)
		return CLI_FAILED;
	if (request->options.remount)
		return remount(request);
	there = request->persist && is_there(request);
	if ((!there && mount_check_source(command, request->source) != CLI_OK) ||
	    mount_check_dir(command, request->dir) != CLI_OK)
		return CLI_FAILED;
	return request->persist ? mount_always(request, there) : mount_now(request, false);
}

static int run_mount(int argc, char **argv)
{
	struct request request = { .command = &mount_command };
	struct cli_parser parser;
	const char *wrong;
	int key, status;

	cli_parse(&parser, &mount_command, argc, argv);
	while ((key = cli_next(&parser)) >= 0) {
		if (key == 'f')
			request.fake = true;
		if (key == 'v')
			request.verbose = true;
		if (key == 'P')
			request.persist = true;
		if (key != 'o')
			continue;
		request.list = optarg;
		wrong = mount_options_add(&request.options, optarg);
		if (wrong)
			cli_usage(&mount_command, "%s", wrong);
	}
	if (request.options.remount && request.persist)
		cli_usage(&mount_command,
			  "--persist is for a new mount; with other options it changes the line, "
			  "and a remount does not");
	if (request.persist && is_noauto(request.list))
		cli_usage(&mount_command,
			  "--persist mounts at every boot, and noauto does not: leave one of them "
			  "out");
	if (request.options.remount) {
		/* mount(8) takes both as well; only the directory counts. */
		if (argc - optind < 1 || argc - optind > 2)
			cli_usage(&mount_command, "say which directory to remount");
		request.dir = argv[argc - 1];
	} else {
		if (argc - optind != 2)
			cli_usage(&mount_command, "say what to mount, and where");
		request.source = argv[optind];
		request.dir = argv[optind + 1];
	}
	status = carry_out(&request);
	mount_options_free(&request.options);
	return status;
}

/* --- mount.hugemap --- */

static const struct cli_option helper_options[] = { {} };

static const struct cli_command helper_command = {
	.name = "mount",
	.synopsis = "SOURCE DIR",
	.summary = "Called by mount(8).",
	.options = helper_options,
};

static int helper_usage(void)
{
	fputs("usage: mount.hugemap SOURCE DIR [-sfnv] [-o OPTIONS]\n"
	      "This is for mount(8) to call: mount -t hugemap -o OPTIONS SOURCE DIR\n",
	      stderr);
	return HELPER_USAGE;
}

int mount_helper(int argc, char **argv)
{
	struct request request = { .command = &helper_command, .helper = true };
	const char *wrong;
	int key, status;

	opterr = 0;
	while ((key = getopt(argc, argv, "sfnvN:o:t:")) >= 0) {
		switch (key) {
		case 's':
			request.sloppy = true;
			break;
		case 'f':
			request.fake = true;
			break;
		case 'v':
			request.verbose = true;
			break;
		case 'o':
			wrong = mount_options_add(&request.options, optarg);
			if (!wrong)
				break;
			cli_fail(&helper_command, "%s", wrong);
			return HELPER_USAGE;
		case 'n': /* there is no mtab any more */
		case 't': /* the type is known */
		case 'N': /* mount(8) has changed the name space already */
			break;
		default:
			return helper_usage();
		}
	}
	if (argc - optind != 2)
		return helper_usage();
	request.source = argv[optind];
	request.dir = argv[optind + 1];
	status = carry_out(&request);
	mount_options_free(&request.options);
	return status == CLI_OK ? CLI_OK : HELPER_FAILED;
}
