// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* hugemap mount --persist: print a line for /etc/fstab, or a unit for systemd. */
#include "mount_persist.h"
#include "mount_options.h"

#include <ctype.h>
#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define AFTER "x-systemd.requires-mounts-for"

/* From the best to the worst. lvm-pv- and edd- depend on the data, which programs overwrite. */
#define LINKS                                                    \
	"{by-id/[!delm]*,by-id/m[!d]*,by-path/*,by-id/md-uuid-*" \
	",by-id/dm-uuid-*,by-id/md-name-*,by-id/dm-name-*}"

bool mount_find_link(const char *links, dev_t dev, char out[PATH_MAX])
{
	char pattern[PATH_MAX];
	bool found = false;
	struct stat st;
	glob_t names = {};
	size_t i;

	snprintf(pattern, sizeof(pattern), "%s/" LINKS, links);
	glob(pattern, GLOB_BRACE, NULL, &names);
	for (i = 0; i < names.gl_pathc && !found; i++) {
		found = !stat(names.gl_pathv[i], &st) && S_ISBLK(st.st_mode) && st.st_rdev == dev;
		if (found)
			snprintf(out, PATH_MAX, "%s", names.gl_pathv[i]);
	}
	globfree(&names);
	return found;
}

/* /dev/sdb may be another disk after the next boot. A symbolic link that the user typed stays. */
static void persist_name_device(const char *typed, dev_t dev, char out[PATH_MAX])
{
	struct stat st;

	if (!strncmp(typed, "/dev/", 5) && !lstat(typed, &st) && S_ISLNK(st.st_mode))
		snprintf(out, PATH_MAX, "%s", typed);
	else if (!mount_find_link("/dev/disk", dev, out))
		fprintf(stderr,
			"After a boot %s may be another disk; no link in /dev/disk names this one.\n",
			out);
}

/* If a mount without nofail fails, the boot ends in the emergency shell. */
static const char *persist_nofail(const char *list)
{
	return mount_has_option(list, "nofail") ? "" : *list ? ",nofail" : "nofail";
}

/* getmntent(3) decodes only these four; "#" starts a comment only at the start of a line. */
static void persist_put_field(const char *text, const char *end)
{
	for (; *text; text++)
		printf(strchr(" \t\n\\", *text) ? "\\%03o" : "%c", *text);
	fputs(end, stdout);
}

static void persist_print_line(const char *source, const char *dir, const char *list, bool device)
{
	char after[PATH_MAX];

	persist_put_field(source, " ");
	persist_put_field(dir, " hugemap ");
	persist_put_field(list, persist_nofail(list));
	/* systemd itself orders a mount after its device. */
	if (!device && !mount_has_option(list, AFTER)) {
		/* systemd cannot read these characters here: name a directory above them. */
		strcpy(after, source);
		while (strpbrk(after, " \t\n,\"'\\"))
			*strrchr(after, '/') = '\0';
		printf("," AFTER "=%s", *after ? after : "/");
	}
	puts(" 0 0");
}

/* systemd expands "%" in every value. In some, @special characters need a "\" before them. */
static void persist_put_value(const char *key, const char *text, const char *special)
{
	for (printf("%s=", key); *text; text++)
		printf(*text == '%' ? "%%%c" : strchr(special, *text) ? "\\%c" : "%c", *text);
}

static void persist_print_unit(const char *source, const char *dir, const char *list, bool device)
{
	fputs("[Unit]\nDescription=Files in pages of 2 MB, through HugeMap", stdout);
	if (!device)
		persist_put_value("\nRequiresMountsFor", source, " \t\"'\\");
	persist_put_value("\n\n[Mount]\nWhat", source, "");
	persist_put_value("\nWhere", dir, "");
	persist_put_value("\nType=hugemap\nOptions", list, "");
	printf("%s\n\n[Install]\nWantedBy=%s-fs.target\n", persist_nofail(list),
	       mount_has_option(list, "_netdev") ? "remote" : "local");
}

/* systemd ends a value at the end of the line, strips its blanks, and continues it after "\". */
static bool persist_is_value(const char *text)
{
	return !text[strcspn(text, "\n\r")] && (!*text || !strchr(" \t\\", text[strlen(text) - 1]));
}

/* The name of the unit, as systemd-escape --path prints it. */
static void persist_name_unit(const char *dir, char *name)
{
	const char *at = dir[1] ? dir + 1 : dir;

	for (; *at; at++) {
		bool plain = (isascii(*at) && isalnum(*at)) || strchr("/:_", *at) ||
			     (*at == '.' && at > dir + 1);

		name += sprintf(name, plain ? "%c" : "\\x%02x", *at == '/' ? '-' : (uint8_t)*at);
	}
	strcpy(name, ".mount");
}

int mount_persist(const struct cli_command *command, const char *typed, const char *typed_dir,
		  const char *list, bool unit)
{
	char source[PATH_MAX], dir[PATH_MAX], name[4 * PATH_MAX];
	struct stat st;

	if (!realpath(typed, source) || stat(source, &st) < 0 || !realpath(typed_dir, dir))
		return cli_fail(command, "%s at %s: %s", typed, typed_dir, strerror(errno));
	if (S_ISBLK(st.st_mode))
		persist_name_device(typed, st.st_rdev, source);
	persist_name_unit(dir, name);
	if (unit && (!persist_is_value(source) || !persist_is_value(dir) ||
		     !persist_is_value(list) || strlen(name) > NAME_MAX))
		return cli_fail(command,
				"a unit cannot hold these names or options: leave out --unit");
	(unit ? persist_print_unit : persist_print_line)(source, dir, list, S_ISBLK(st.st_mode));
	if (fflush(stdout) || ferror(stdout))
		return cli_fail(command, "standard output cannot be written: %s", strerror(errno));
	if (unit)
		fprintf(stderr,
			"Save it as '/etc/systemd/system/%s', then run `systemctl daemon-reload` "
			"and `systemctl enable --now '%s'`.\n",
			name, name);
	else
		fputs("Add the line to /etc/fstab, then run `systemctl daemon-reload`; nothing is "
		      "mounted now.\n",
		      stderr);
	return CLI_OK;
}
