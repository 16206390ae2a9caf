// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Parse the flags of the mount point. All other options are passed to the module. */
#include "mount_options.h"
#include "mount_check.h"

#include <mntent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>

static const struct {
	const char *name;
	uint64_t set, clear;
	bool pass; /* the file system gets the option as well */
} attrs[] = {
	{ "ro", MOUNT_ATTR_RDONLY, 0, true },
	{ "rw", 0, MOUNT_ATTR_RDONLY, true },
	{ "nosuid", MOUNT_ATTR_NOSUID, 0, false },
	{ "suid", 0, MOUNT_ATTR_NOSUID, false },
	{ "nodev", MOUNT_ATTR_NODEV, 0, false },
	{ "dev", 0, MOUNT_ATTR_NODEV, false },
	{ "noexec", MOUNT_ATTR_NOEXEC, 0, false },
	{ "exec", 0, MOUNT_ATTR_NOEXEC, false },
	{ "nosymfollow", MOUNT_ATTR_NOSYMFOLLOW, 0, false },
	{ "symfollow", 0, MOUNT_ATTR_NOSYMFOLLOW, false },
	{ "nodiratime", MOUNT_ATTR_NODIRATIME, 0, false },
	{ "diratime", 0, MOUNT_ATTR_NODIRATIME, false },
	/* These exclude each other: they are values of one bit field. */
	{ "relatime", MOUNT_ATTR_RELATIME, MOUNT_ATTR__ATIME, false },
	{ "noatime", MOUNT_ATTR_NOATIME, MOUNT_ATTR__ATIME, false },
	{ "strictatime", MOUNT_ATTR_STRICTATIME, MOUNT_ATTR__ATIME, false },
	{ "atime", 0, MOUNT_ATTR__ATIME, false },
	{ "norelatime", 0, MOUNT_ATTR__ATIME, false },
};

/* True for options of /etc/fstab that only mount(8) and systemd use. */
static bool mount_option_is_ignored(const char *key)
{
	static const char *const names[] = { "defaults", "auto",    "noauto", "user",	 "nouser",
					     "users",	 "owner",   "group",  "_netdev", "nofail",
					     "comment",	 "uhelper", "helper", "silent",	 "loud" };
	size_t i;

	if (!strncmp(key, "x-", 2) || !strncmp(key, "X-", 2))
		return true;
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(key, names[i]))
			return true;
	return false;
}

static void mount_set_attr(struct mount_options *options, uint64_t set, uint64_t clear)
{
	options->attr_set = (options->attr_set & ~clear) | set;
	options->attr_clear = (options->attr_clear & ~set) | clear;
}

/* Parse "4G" or "25%" as the module does. 0 = not a size; the module reports the error. */
static uint64_t mount_parse_size(const char *text)
{
	static const char units[] = "KMGTPE";
	const char *unit;
	char *end;
	uint64_t value = strtoull(text, &end, 0);

	if (end == text || text[0] == '-')
		return 0;
	if (!strcmp(end, "%"))
		return mount_total_memory() / 100 * value;
	unit = *end ? strchr(units, *end >= 'a' ? *end - 'a' + 'A' : *end) : NULL;
	if (*end && (!unit || end[1]))
		return 0;
	return unit ? value << (10 * (unit - units + 1)) : value;
}

static const char *mount_add_option(struct mount_options *options, char *word)
{
	char *value = strchr(word, '=');
	bool known = false;
	size_t i;

	if (value)
		*value++ = '\0';
	if (mount_option_is_ignored(word))
		return NULL;
	if (!strcmp(word, "remount") && !value) {
		options->remount = true;
		return NULL;
	}
	for (i = 0; !value && i < sizeof(attrs) / sizeof(attrs[0]); i++) {
		if (strcmp(word, attrs[i].name))
			continue;
		mount_set_attr(options, attrs[i].set, attrs[i].clear);
		known = !attrs[i].pass;
	}
	if (known)
		return NULL;
	if (!strcmp(word, "pool") && value) {
		options->has_pool = true;
		options->pool = mount_parse_size(value);
	}
	if (!strcmp(word, "page") && value)
		options->base_pages = !strcmp(value, "4K") || !strcmp(value, "4k");
	if (options->count == MOUNT_MAX_OPTIONS)
		return "there are too many options";
	options->key[options->count] = word;
	options->value[options->count++] = value;
	return NULL;
}

const char *mount_options_add(struct mount_options *options, const char *text)
{
	const char *wrong = NULL;
	char *word, *rest, *copy;

	if (options->text)
		return "-o is given twice: separate options by commas";
	copy = strdup(text);
	if (!copy)
		return "there is no memory left";
	options->text = copy;
	rest = copy;
	while (!wrong && (word = strsep(&rest, ",")))
		if (*word)
			wrong = mount_add_option(options, word);
	return wrong;
}

void mount_options_free(struct mount_options *options)
{
	free(options->text);
	*options = (struct mount_options){};
}

bool mount_has_option(const char *list, const char *name)
{
	const struct mntent entry = { .mnt_opts = (char *)list };

	return hasmntopt(&entry, name);
}
