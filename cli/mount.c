// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * hugemap mount, and mount.hugemap, which mount(8) runs. Both use fsopen(2) and fsconfig(2): the
 * kernel parses the options, and returns a sentence with each error.
 */
#include "mount.h"
#include "cli.h"
#include "module.h"
#include "mount_check.h"
#include "mount_options.h"
#include "mount_persist.h"
#include "mountinfo.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
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
	{ "persist", NULL, 'P', "mount nothing; print the /etc/fstab line for every boot" },
	{ "unit", NULL, 'u', "with --persist: print a mount unit for systemd instead" },
	{ "fake", NULL, 'f', "check everything, mount nothing" },
	{ "verbose", NULL, 'v', "print more" },
	{},
};

static int mount_run(int argc, char **argv);

const struct cli_command mount_command = {
	.name = "mount",
	.synopsis = "[-o LIST] [--persist [--unit]] [-f] [-v] SOURCE DIR\n"
		    "       hugemap mount -o remount,LIST DIR",
	.summary = "Mount a directory or a block device through the kernel engine.",
	.options = options,
	.notes = "SOURCE is a directory of any file system, or a block device. hugemap(5) lists\n"
		 "the options, such as pool=SIZE and page=2M, 4K or auto. Without pool= a quarter\n"
		 "of the machine's memory is taken.\n",
	.letters = "ofv",
	.run = mount_run,
};

/**
 * struct request - a request to mount or remount
 * @command: the command in error messages
 * @source: the directory or device to mount
 * @dir: the mount point
 * @options: the options, parsed
 * @list: the argument of -o
 * @helper: called by mount(8): print nothing on success
 * @persist: print a line for /etc/fstab, mount nothing
 * @unit: print a unit instead of the line
 * @fake: check everything, mount nothing
 * @verbose: print messages of the kernel
 * @sloppy: ignore options that the kernel does not know
 */
struct request {
	const struct cli_command *command;
	const char *source;
	const char *dir;
	struct mount_options options;
	const char *list;
	bool helper;
	bool persist;
	bool unit;
	bool fake;
	bool verbose;
	bool sloppy;
};

/* --- messages of the kernel --- */

/**
 * struct log - messages of a file system context
 * @error: the last error, without "e hugemap: "; "" if there was none
 * @unknown: the kernel does not know an option
 */
struct log {
	char error[512];
	bool unknown;
};

static const char *mount_without_prefix(const char *text)
{
	static const char prefix[] = "hugemap: ";

	return strncmp(text, prefix, strlen(prefix)) ? text : text + strlen(prefix);
}

/* Each read returns one message: a letter for its level, a blank, the text. */
static void mount_read_log(const struct request *request, int fd, struct log *log)
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
		text = mount_without_prefix(line[1] == ' ' ? line + 2 : line);
		if (line[0] == 'e') {
			snprintf(log->error, sizeof(log->error), "%s", text);
			log->unknown |= !strncmp(text, "Unknown parameter", 17);
		} else if (line[0] == 'w' || request->verbose) {
			cli_progress_clear();
			fprintf(stderr, "%s\n", text);
		}
	}
}

static const char *mount_reason(int err, const struct log *log)
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

static int mount_set_option(const struct request *request, int fd, const char *key,
			    const char *value)
{
	unsigned int command = value ? FSCONFIG_SET_STRING : FSCONFIG_SET_FLAG;
	struct log log;
	int err;

	if (!fsconfig(fd, command, key, value, 0))
		return CLI_OK;
	err = errno;
	mount_read_log(request, fd, &log);
	if (log.unknown && request->sloppy)
		return CLI_OK;
	/* The kernel's sentence names the option, strerror() does not. */
	if (log.error[0])
		return cli_fail(request->command, "%s; man 5 hugemap tells which options there are",
				log.error);
	return cli_fail(request->command, "the option %s%s%s: %s", key, value ? "=" : "",
			value ? value : "", strerror(err));
}

static int mount_set_options(const struct request *request, int fd)
{
	const struct mount_options *opts = &request->options;
	size_t i;

	for (i = 0; i < opts->count; i++) {
		int status = mount_set_option(request, fd, opts->key[i], opts->value[i]);

		if (status != CLI_OK)
			return status;
	}
	return CLI_OK;
}

/* --- remount --- */

static int mount_remount(const struct request *request)
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
	status = mount_set_options(request, fd);
	cli_progress("hugemap mount: %s is being changed", dir);
	if (status == CLI_OK && fsconfig(fd, FSCONFIG_CMD_RECONFIGURE, NULL, NULL, 0) < 0) {
		err = errno;
		mount_read_log(request, fd, &log);
		status = cli_fail(request->command, "%s stays as it was: %s", dir,
				  mount_reason(err, &log));
	}
	cli_progress_clear();
	if (status == CLI_OK)
		mount_read_log(request, fd, &log); /* warnings */
	close(fd);
	/* ro is a flag of the file system and of the mount point, the others only of the latter. */
	if (status == CLI_OK && (attr.attr_set || attr.attr_clr) &&
	    mount_setattr(AT_FDCWD, dir, 0, &attr, sizeof(attr)) < 0)
		status = cli_fail(request->command, "%s: flags of the mount point: %s", dir,
				  strerror(errno));
	return status;
}

/* --- mount --- */

/* The flags nosuid, nodev and noexec of the mount that @source is on. A bind mount keeps them. */
static uint64_t mount_source_flags(const char *source)
{
	struct statvfs fs;
	struct stat st;

	if (stat(source, &st) || !S_ISDIR(st.st_mode) || statvfs(source, &fs))
		return 0;
	return (fs.f_flag & ST_NOSUID ? MOUNT_ATTR_NOSUID : 0) |
	       (fs.f_flag & ST_NODEV ? MOUNT_ATTR_NODEV : 0) |
	       (fs.f_flag & ST_NOEXEC ? MOUNT_ATTR_NOEXEC : 0);
}

static int mount_attach(const struct request *request, int fd)
{
	/* The options suid, dev and exec override the flags of the source. */
	uint64_t attr = request->options.attr_set |
			(mount_source_flags(request->source) & ~request->options.attr_clear);
	int point = fsmount(fd, FSMOUNT_CLOEXEC, (unsigned int)attr);
	struct log log;
	int err;

	if (point < 0) {
		err = errno;
		mount_read_log(request, fd, &log);
		return cli_fail(request->command, "%s cannot be mounted: %s", request->source,
				mount_reason(err, &log));
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

static int mount_create(const struct request *request, int fd, const char *source, uint64_t pool)
{
	char text[CLI_TEXT], size[32];
	struct log log;
	int err;

	if (mount_set_option(request, fd, "source", source) != CLI_OK)
		return CLI_FAILED;
	snprintf(size, sizeof(size), "%lluK", (unsigned long long)pool >> 10);
	if (!request->options.has_pool && mount_set_option(request, fd, "pool", size) != CLI_OK)
		return CLI_FAILED;
	if (pool)
		cli_progress("hugemap mount: a pool of %s is being taken",
			     cli_bytes(text, (double)pool));
	if (fsconfig(fd, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0) {
		err = errno;
		mount_read_log(request, fd, &log);
		cli_fail(request->command, "%s cannot be mounted: %s", source,
			 mount_reason(err, &log));
		if (err == EBUSY)
			mount_explain_device(source);
		return CLI_FAILED;
	}
	cli_progress_clear();
	mount_read_log(request, fd, &log); /* warnings */
	return mount_attach(request, fd);
}

static void mount_print_result(const struct request *request, const char *source, uint64_t pool)
{
	char text[CLI_TEXT];

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

/*
 * Open a file system context; returns a descriptor, or -1 after an error message. A user other than
 * root may open one in a new user name space and set options, which checks them, but cannot mount.
 * The kernel loads the module at the first fsopen(); such a user cannot run modprobe.
 */
static int mount_open_context(const struct request *request)
{
	const struct cli_command *command = request->command;
	int fd;

	if (geteuid()) {
		unshare(CLONE_NEWUSER | CLONE_NEWNS);
		close(fsopen("hugemap", FSOPEN_CLOEXEC));
	}
	if (mount_check_module(command, request->verbose && !request->persist) != CLI_OK)
		return -1;
	fd = fsopen("hugemap", FSOPEN_CLOEXEC);
	if (fd < 0 && errno == EPERM && geteuid())
		mount_check_root(command);
	else if (fd < 0)
		cli_fail(command, "the kernel does not take the mount: %s",
			 mount_reason(errno, &(struct log){}));
	return fd;
}

static int mount_new(const struct request *request)
{
	uint64_t pool = request->options.has_pool ? request->options.pool : mount_default_pool();
	const struct cli_command *command = request->command;
	char source[PATH_MAX];
	int fd, status;

	if (!realpath(request->source, source))
		return cli_fail(command, "%s: %s", request->source, strerror(errno));
	fd = mount_open_context(request);
	if (fd < 0)
		return CLI_FAILED;
	status = mount_set_options(request, fd);
	if (status == CLI_OK)
		status = mount_check_memory(command, pool, request->options.base_pages);
	if (status == CLI_OK && !request->fake)
		status = mount_create(request, fd, source, pool);
	close(fd);
	if (status == CLI_OK)
		mount_print_result(request, source, pool);
	return status;
}

static int mount_print_persist(const struct request *request)
{
	int fd = mount_open_context(request), status;
	struct module module;

	if (fd < 0)
		return CLI_FAILED;
	status = mount_set_options(request, fd);
	close(fd);
	if (status == CLI_OK)
		status = mount_persist(request->command, request->source, request->dir,
				       request->list, request->unit);
	module_find(&module);
	if (status == CLI_OK && !module.installed)
		fprintf(stderr,
			"The module is not installed for Linux %s, so that the mount will fail at "
			"boot: install hugemap-dkms, or run `make module-install`.\n",
			module.release);
	return status;
}

static int mount_carry_out(const struct request *request)
{
	const struct cli_command *command = request->command;

	if (!request->persist && mount_check_root(command) != CLI_OK)
		return CLI_FAILED;
	if (request->options.remount)
		return mount_remount(request);
	if (mount_check_source(command, request->source) != CLI_OK ||
	    mount_check_dir(command, request->dir) != CLI_OK)
		return CLI_FAILED;
	return request->persist ? mount_print_persist(request) : mount_new(request);
}

static void mount_check_persist(const struct request *request)
{
	if (request->unit && !request->persist)
		cli_usage(&mount_command, "--unit is for --persist");
	if (!request->persist)
		return;
	if (request->options.remount)
		cli_usage(&mount_command, "--persist is for a new mount, not for a remount");
	/* mount(8) and systemd ignore a line with noauto at boot. */
	if (mount_has_option(request->list, "noauto"))
		cli_usage(&mount_command,
			  "--persist is for a mount at every boot, and noauto prevents that: leave "
			  "one of them out");
	if (request->unit && strstr(request->list, "x-systemd."))
		cli_usage(&mount_command,
			  "x-systemd options work only in /etc/fstab: write them into the unit as "
			  "its own settings");
}

static int mount_run(int argc, char **argv)
{
	struct request request = { .command = &mount_command, .list = "" };
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
		if (key == 'u')
			request.unit = true;
		if (key != 'o')
			continue;
		request.list = optarg;
		wrong = mount_options_add(&request.options, optarg);
		if (wrong)
			cli_usage(&mount_command, "%s", wrong);
	}
	mount_check_persist(&request);
	if (request.options.remount) {
		/* A source before the directory is ignored, as by mount(8). */
		if (argc - optind < 1 || argc - optind > 2)
			cli_usage(&mount_command, "the directory to remount is missing");
		request.dir = argv[argc - 1];
	} else {
		if (argc - optind != 2)
			cli_usage(&mount_command, "the source or the directory is missing");
		request.source = argv[optind];
		request.dir = argv[optind + 1];
	}
	status = mount_carry_out(&request);
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

static int mount_helper_usage(void)
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
			return mount_helper_usage();
		}
	}
	if (argc - optind != 2)
		return mount_helper_usage();
	request.source = argv[optind];
	request.dir = argv[optind + 1];
	status = mount_carry_out(&request);
	mount_options_free(&request.options);
	return status == CLI_OK ? CLI_OK : HELPER_FAILED;
}
