// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* A mount at every boot; see mount_persist.h. */
#include "mount_persist.h"
#include "fstab.h"
#include "mount.h"
#include "mounts.h"

#include <dirent.h>
#include <errno.h>
#include <mntent.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A machine that cannot mount it shall start all the same, and be mended over the network. */
#define NOFAIL "nofail"
/* What is mounted below must be there first, and go last. */
#define AFTER "x-systemd.requires-mounts-for"

/* Names of a device, the best first; see rank_of(). */
enum {
	RANK_HARDWARE,
	RANK_UUID,
	RANK_NAME,
	RANK_NONE, /* not to be used */
};

/* --- names --- */

/* Absolute, without "." and needless slashes; symbolic links and ".." stay. */
static bool make_absolute(const char *path, char out[PATH_MAX])
{
	size_t length = 0;

	out[0] = '\0';
	if (*path != '/') {
		if (!getcwd(out, PATH_MAX))
			return false;
		length = strlen(out);
	}
	while (*path) {
		size_t part = strcspn(path, "/");

		if (part && !(part == 1 && *path == '.')) {
			if (length + part + 2 > PATH_MAX) {
				errno = ENAMETOOLONG;
				return false;
			}
			if (!length || out[length - 1] != '/')
				out[length++] = '/';
			memcpy(out + length, path, part);
			length += part;
			out[length] = '\0';
		}
		path += part;
		path += strspn(path, "/");
	}
	if (!length)
		strcpy(out, "/");
	return true;
}

static bool is_link(const char *path)
{
	struct stat st;

	return !lstat(path, &st) && S_ISLNK(st.st_mode);
}

/*
 * How well does a name in /dev/disk/by-id stay with a device? What the hardware says of
 * itself does best. Names of arrays and mappings are kept on the disks below them, out of
 * reach of whoever writes to the device; people change what they are called, but not
 * their UUID. The others are made of what is on the device itself: it is written over.
 */
static unsigned int rank_of(const char *name)
{
	static const struct {
		const char *start;
		unsigned int rank;
	} others[] = {
		{ "md-uuid-", RANK_UUID }, { "dm-uuid-", RANK_UUID }, { "md-name-", RANK_NAME },
		{ "dm-name-", RANK_NAME }, { "lvm-pv-", RANK_NONE },  { "edd-", RANK_NONE },
	};
	size_t i;

	for (i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (!strncmp(name, others[i].start, strlen(others[i].start)))
			return others[i].rank;
	return RANK_HARDWARE;
}

/* The best name of a device in a directory of links that udev keeps, and its rank. */
static unsigned int find_link(const char *links, dev_t dev, char out[PATH_MAX])
{
	unsigned int best = RANK_NONE;
	DIR *dir = opendir(links);
	struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		unsigned int rank = rank_of(entry->d_name);
		char path[PATH_MAX];
		struct stat st;

		snprintf(path, sizeof(path), "%s/%s", links, entry->d_name);
		if (rank == RANK_NONE || rank > best || stat(path, &st) < 0 ||
		    !S_ISBLK(st.st_mode) || st.st_rdev != dev ||
		    /* Always the same one, in whatever order they come. */
		    (rank == best && strcmp(path, out) >= 0))
			continue;
		memcpy(out, path, sizeof(path));
		best = rank;
	}
	if (dir)
		closedir(dir);
	return best;
}

bool persist_find_name(const char *links, dev_t dev, char out[PATH_MAX])
{
	char id[PATH_MAX], path[PATH_MAX], name[PATH_MAX];
	unsigned int rank;

	snprintf(path, sizeof(path), "%s/by-id", links);
	rank = find_link(path, dev, id);
	snprintf(path, sizeof(path), "%s/by-path", links);
	if (rank != RANK_HARDWARE && find_link(path, dev, name) != RANK_NONE)
		memcpy(out, name, sizeof(name));
	else if (rank != RANK_NONE)
		memcpy(out, id, sizeof(id));
	else
		return false;
	return true;
}

/*
 * /dev/sdb may be another disk after the next boot. Its serial number tells it apart,
 * else the place where it is plugged in. A symbolic link that was typed is somebody's
 * choice.
 */
static int name_device(struct persist *persist, const char *typed, dev_t dev)
{
	if (!make_absolute(typed, persist->source))
		return cli_fail(persist->command, "%s: %s", typed, strerror(errno));
	if (!strncmp(persist->source, "/dev/", 5) && is_link(persist->source))
		return CLI_OK;
	if (persist_find_name("/dev/disk", dev, persist->source))
		return CLI_OK;
	memcpy(persist->source, persist->real, sizeof(persist->source));
	fprintf(stderr,
		"%s has no name that is sure to stay: after a boot this name may be another "
		"disk's.\n",
		persist->source);
	return CLI_OK;
}

/* --- options --- */

/* Can it stand in a list of options? Commas end it, systemd takes blanks and quotes apart. */
static bool is_plain(const char *path)
{
	return !strpbrk(path, " \t\n,\"'\\");
}

struct below {
	const char *path;
	char dir[PATH_MAX];
};

/* The longest one wins. */
static bool find_below(const struct mount_point *point, void *arg)
{
	size_t length = strlen(point->dir);
	struct below *below = arg;

	if (length >= strlen(below->dir) && !strncmp(point->dir, below->path, length) &&
	    (length == 1 || below->path[length] == '/' || !below->path[length]))
		snprintf(below->dir, sizeof(below->dir), "%s", point->dir);
	return true;
}

/* The path that systemd shall wait for; "" = none can be named. */
static void find_after(const char *source, char after[PATH_MAX])
{
	struct below below = { .path = source };

	snprintf(after, PATH_MAX, "%s", source);
	if (is_plain(after))
		return;
	/* Where its file system is mounted will do. */
	mount_points(find_below, &below);
	snprintf(after, PATH_MAX, "%s", is_plain(below.dir) ? below.dir : "");
}

/* What was asked for, and what a boot needs if that does not have it. */
static char *make_options(const struct persist *persist, const char *list, bool device)
{
	const struct mntent given = { .mnt_opts = (char *)(list ? list : "") };
	char after[PATH_MAX] = "", *text = NULL;
	const char *at = given.mnt_opts;
	size_t length = 0;
	FILE *file = open_memstream(&text, &length);

	if (!file)
		return NULL;
	while (*at) {
		size_t word = strcspn(at, ",");

		/* There may be empty ones. */
		if (word)
			fprintf(file, "%.*s,", (int)word, at);
		at += word + (at[word] == ',');
	}
	if (!hasmntopt(&given, NOFAIL))
		fputs(NOFAIL ",", file);
	/* systemd knows by itself that a device must be there. */
	if (!device && !hasmntopt(&given, AFTER))
		find_after(persist->source, after);
	if (after[0])
		fprintf(file, "%s=%s,", AFTER, after);
	if (fclose(file)) {
		free(text);
		return NULL;
	}
	text[length - 1] = '\0';
	return text;
}

/* --- the file --- */

enum found {
	FOUND_NONE,
	FOUND_SAME,
	FOUND_OTHER, /* of this mount, with other options */
	FOUND_WRONG, /* it was said why */
};

static unsigned int find(const struct persist *persist, const struct fstab *fstab,
			 struct fstab_line *line)
{
	const char *const dirs[] = { persist->typed, persist->dir };

	return fstab_find(fstab, dirs, 2, line);
}

static bool is_our_source(const struct persist *persist, const char *source)
{
	char real[PATH_MAX];

	return !strcmp(source, persist->source) ||
	       (*source == '/' && realpath(source, real) && !strcmp(real, persist->real));
}

/* Is there a line, and one that we may touch? */
static enum found look(const struct persist *persist, const struct fstab *fstab,
		       struct fstab_line *line)
{
	unsigned int count = find(persist, fstab, line);

	if (!count)
		return FOUND_NONE;
	if (count > 1) {
		cli_fail(persist->command,
			 "%s has %u lines for %s, the first is line %u: leave one of them and try "
			 "again",
			 fstab->name, count, persist->typed, line->number);
		return FOUND_WRONG;
	}
	if (strcmp(line->type, "hugemap")) {
		cli_fail(persist->command,
			 "line %u of %s mounts something else at %s: \"%s\"; take it away, or use "
			 "another directory",
			 line->number, fstab->name, persist->typed, line->text);
		return FOUND_WRONG;
	}
	if (persist->line && !is_our_source(persist, line->source)) {
		cli_fail(persist->command,
			 "line %u of %s mounts %s at %s: `hugemap umount --forget %s` takes it "
			 "away",
			 line->number, fstab->name, line->source, persist->typed, persist->typed);
		return FOUND_WRONG;
	}
	if (persist->line && !strcmp(line->source, persist->source) &&
	    !strcmp(line->options, persist->options))
		return FOUND_SAME;
	return FOUND_OTHER;
}

static int open_and_look(const struct persist *persist, bool change, struct fstab *fstab,
			 struct fstab_line *line, enum found *found)
{
	*line = (struct fstab_line){};
	if (fstab_open(fstab, change))
		return cli_fail(persist->command, "%s", fstab->why);
	*found = look(persist, fstab, line);
	return *found == FOUND_WRONG ? CLI_FAILED : CLI_OK;
}

static void close_both(struct fstab *fstab, struct fstab_line *line)
{
	fstab_line_free(line);
	fstab_close(fstab);
}

/* What changes is shown first: there is no copy of what was. */
static int was_shown(const struct persist *persist)
{
	if (!fflush(stdout) && !ferror(stdout))
		return CLI_OK;
	return cli_fail(persist->command,
			"standard output cannot be written, so that the line could not be shown: "
			"the file stays as it was");
}

static void warn_unsure(const struct fstab *fstab, const char *done)
{
	fprintf(stderr,
		"The line is %s, but may not survive a power cut (%s): type `sync`, and see "
		"whether it complains.\n",
		done, fstab->why);
}

/* A reload takes every unit of the machine along: that is for its administrator to do. */
static void tell_systemd(void)
{
	if (!access("/run/systemd/system", F_OK))
		puts("systemd takes notice at the next boot, or now by: systemctl daemon-reload");
}

/* --- mount --persist --- */

static int name_both(struct persist *persist, const char *source, const char *dir, bool *device)
{
	struct stat st;

	if (!realpath(dir, persist->dir) || !make_absolute(dir, persist->typed))
		return cli_fail(persist->command, "%s: %s", dir, strerror(errno));
	if (!realpath(source, persist->real) || stat(persist->real, &st) < 0)
		return cli_fail(persist->command, "%s: %s", source, strerror(errno));
	*device = S_ISBLK(st.st_mode);
	if (*device)
		return name_device(persist, source, st.st_rdev);
	memcpy(persist->source, persist->real, sizeof(persist->source));
	return CLI_OK;
}

int persist_prepare(struct persist *persist, const struct cli_command *command, const char *source,
		    const char *dir, const char *list, bool only_look)
{
	struct fstab_line line;
	struct fstab fstab;
	enum found found;
	bool device;
	int status;

	*persist = (struct persist){ .command = command };
	signal(SIGPIPE, SIG_IGN);
	if (name_both(persist, source, dir, &device) != CLI_OK)
		return CLI_FAILED;
	persist->options = make_options(persist, list, device);
	if (persist->options)
		persist->line =
			fstab_make_line(persist->source, persist->dir, "hugemap", persist->options);
	if (!persist->line)
		return cli_fail(command, "there is no memory left");
	status = open_and_look(persist, !only_look, &fstab, &line, &found);
	close_both(&fstab, &line);
	return status;
}

static void show(const struct persist *persist, const struct fstab *fstab,
		 const struct fstab_line *line, enum found found)
{
	printf("The line of %s:\n\n    %s\n\n", fstab->name, persist->line);
	if (found == FOUND_OTHER)
		printf("It takes the place of line %u:\n\n    %s\n\n", line->number, line->text);
}

static void warn_module(void)
{
	struct mount_module module;

	mount_find_module(&module);
	if (module.loaded && !module.installed)
		fprintf(stderr,
			"The kernel module is loaded but not installed for Linux %s, so that it "
			"cannot be mounted after a boot:\nthe package hugemap-dkms installs it, or "
			"`make module-install` in the source of HugeMap.\n",
			module.release);
}

static int write_line(const struct persist *persist, struct fstab *fstab,
		      const struct fstab_line *old)
{
	int status = fstab_put(fstab, old, persist->line);

	if (status < 0)
		return cli_fail(persist->command, "the line is not written: %s", fstab->why);
	printf("It is written: %s will be mounted at every boot, until\n"
	       "`hugemap umount --forget %s`.\n",
	       persist->dir, persist->dir);
	if (status == FSTAB_UNSURE)
		warn_unsure(fstab, "written");
	tell_systemd();
	return CLI_OK;
}

int persist_write(const struct persist *persist, bool only_look)
{
	struct fstab_line line;
	struct fstab fstab;
	enum found found;
	int status = open_and_look(persist, !only_look, &fstab, &line, &found);

	if (status == CLI_OK) {
		show(persist, &fstab, &line, found);
		status = was_shown(persist);
	}
	if (status != CLI_OK)
		goto out;
	if (found == FOUND_SAME)
		printf("It is there already, line %u: nothing is written.\n", line.number);
	else if (only_look)
		puts("Nothing is written.");
	else
		status = write_line(persist, &fstab, found == FOUND_OTHER ? &line : NULL);
	if (status == CLI_OK)
		warn_module();
out:
	close_both(&fstab, &line);
	return status;
}

void persist_free(struct persist *persist)
{
	free(persist->options);
	free(persist->line);
	*persist = (struct persist){};
}

/* --- umount --forget --- */

int forget_prepare(struct persist *persist, const struct cli_command *command, const char *dir,
		   bool *found)
{
	enum found what = FOUND_NONE;
	struct fstab_line line;
	struct fstab fstab;
	int status;

	*persist = (struct persist){ .command = command };
	signal(SIGPIPE, SIG_IGN);
	if (!make_absolute(dir, persist->typed))
		return cli_fail(command, "%s: %s", dir, strerror(errno));
	/* It may be gone, and its line still be there. */
	if (!realpath(dir, persist->dir))
		persist->dir[0] = '\0';
	status = open_and_look(persist, true, &fstab, &line, &what);
	close_both(&fstab, &line);
	*found = what == FOUND_OTHER;
	return status;
}

static int take_line(const struct persist *persist, struct fstab *fstab,
		     const struct fstab_line *line)
{
	int status = fstab_put(fstab, line, NULL);

	if (status < 0)
		return cli_fail(persist->command, "the line is not taken away: %s", fstab->why);
	puts("It is taken away.");
	if (status == FSTAB_UNSURE)
		warn_unsure(fstab, "taken away");
	tell_systemd();
	return CLI_OK;
}

int forget_write(const struct persist *persist)
{
	struct fstab_line line;
	struct fstab fstab;
	enum found found;
	int status = open_and_look(persist, true, &fstab, &line, &found);

	if (status != CLI_OK)
		goto out;
	if (found == FOUND_NONE) {
		printf("%s has no line for %s.\n", fstab.name, persist->typed);
		goto out;
	}
	printf("The line %u of %s:\n\n    %s\n\n", line.number, fstab.name, line.text);
	status = was_shown(persist);
	if (status == CLI_OK)
		status = take_line(persist, &fstab, &line);
out:
	close_both(&fstab, &line);
	return status;
}
