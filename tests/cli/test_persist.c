// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* cli/mount_persist.c: the line that is made of a mount, and what may stand in its way. */
#include "fstab_common.h"

#include <stdio_ext.h>
#include <sys/sysmacros.h>

#include "mount_persist.h"

static const struct cli_command command = { .name = "mount" };
static char source[256], target[256], line[4096];

static ino_t inode(void)
{
	struct stat st;

	assert_int_equal(stat(path, &st), 0);
	return st.st_ino;
}

static int make_dirs(void **state)
{
	if (make_dir(state))
		return -1;
	snprintf(source, sizeof(source), "%s/source", dir);
	snprintf(target, sizeof(target), "%s/target", dir);
	return mkdir(source, 0755) || mkdir(target, 0755);
}

static int prepare(struct persist *persist, const char *from, const char *at, const char *list)
{
	return persist_prepare(persist, &command, from, at, list, false);
}

/* What a mount would be remembered by. */
static const char *line_of(const char *from, const char *at, const char *list)
{
	struct persist persist;

	assert_int_equal(prepare(&persist, from, at, list), CLI_OK);
	snprintf(line, sizeof(line), "%s", persist.line);
	persist_free(&persist);
	check_table(TABLE);
	return line;
}

static void check_line(const char *list, const char *wanted)
{
	char text[4096];

	snprintf(text, sizeof(text), "%s %s hugemap %s%s 0 0", source, target, wanted, source);
	assert_string_equal(line_of(source, target, list), text);
}

static void test_options(void **state)
{
	char text[4096];

	check_line(NULL, "nofail,x-systemd.requires-mounts-for=");
	check_line("", "nofail,x-systemd.requires-mounts-for=");
	check_line("pool=4G,,noatime,", "pool=4G,noatime,nofail,x-systemd.requires-mounts-for=");
	check_line("nofail,pool=4G", "nofail,pool=4G,x-systemd.requires-mounts-for=");
	check_line("x-nofail", "x-nofail,nofail,x-systemd.requires-mounts-for=");
	snprintf(text, sizeof(text), "%s %s hugemap x-systemd.requires-mounts-for=/,nofail 0 0",
		 source, target);
	assert_string_equal(line_of(source, target, "x-systemd.requires-mounts-for=/"), text);
}

static void test_names_are_absolute_and_real(void **state)
{
	char link[256], wanted[4096], was[PATH_MAX];

	snprintf(wanted, sizeof(wanted), "%s", line_of(source, target, NULL));
	snprintf(link, sizeof(link), "%s/link", dir);
	assert_int_equal(symlink("source", link), 0);
	assert_string_equal(line_of(link, target, NULL), wanted);
	assert_non_null(getcwd(was, sizeof(was)));
	assert_int_equal(chdir(target), 0);
	assert_string_equal(line_of("../source/.", ".", NULL), wanted);
	assert_int_equal(chdir(was), 0);
}

/* systemd would take it apart: it gets the mount that the source is on. */
static void test_a_source_that_options_cannot_name(void **state)
{
	static const char *const names[] = { "two words", "a,b", "a\"b", "a\\b" };
	char odd[512];
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *after;

		snprintf(odd, sizeof(odd), "%s/%s", dir, names[i]);
		assert_int_equal(mkdir(odd, 0755), 0);
		after = strstr(line_of(odd, target, NULL), "x-systemd.requires-mounts-for=/");
		assert_non_null(after);
		after = strchr(after, '/');
		/* A mount point above it, and above this file's directory. */
		assert_true(strcspn(after, " ") <= strlen(dir));
		assert_int_equal(strncmp(after, odd, strcspn(after, " ")), 0);
	}
	snprintf(odd, sizeof(odd), "%s/two\\040words ", dir);
	assert_int_equal(strncmp(line_of(strcat(strcpy(odd, dir), "/two words"), target, NULL), dir,
				 strlen(dir)),
			 0);
	assert_non_null(strstr(line, "/two\\040words "));
}

static int write_line(const char *list)
{
	struct persist persist;
	int status = prepare(&persist, source, target, list);

	if (status == CLI_OK)
		status = persist_write(&persist, false);
	persist_free(&persist);
	return status;
}

static void check_written(const char *options)
{
	char text[8192];

	snprintf(text, sizeof(text),
		 TABLE "\n%s %s hugemap %s,nofail,x-systemd.requires-mounts-for=%s 0 0\n", source,
		 target, options, source);
	check_table(text);
}

static void test_a_line_is_written_once(void **state)
{
	ino_t was;

	assert_int_equal(write_line("pool=1G"), CLI_OK);
	check_written("pool=1G");
	was = inode();
	assert_int_equal(write_line("pool=1G"), CLI_OK);
	assert_int_equal(inode(), was);
	/* With other options it takes the old one's place. */
	assert_int_equal(write_line("pool=2G"), CLI_OK);
	check_written("pool=2G");
}

static void test_a_look_writes_nothing(void **state)
{
	ino_t was = inode();
	struct persist persist;

	assert_int_equal(persist_prepare(&persist, &command, source, target, NULL, true), CLI_OK);
	assert_int_equal(count_files(), 3);
	assert_int_equal(persist_write(&persist, true), CLI_OK);
	persist_free(&persist);
	check_table(TABLE);
	assert_int_equal(inode(), was);
	assert_int_equal(count_files(), 3);
}

static void check_refused(const char *first, const char *second)
{
	char text[8192], link[256];
	struct persist persist;

	snprintf(text, sizeof(text), TABLE "\n%s %s\n%s %s\n", first, "hugemap x 0 0", second,
		 second[0] ? "hugemap x" : "");
	put_table(text);
	assert_int_equal(prepare(&persist, source, target, NULL), CLI_FAILED);
	persist_free(&persist);
	snprintf(link, sizeof(link), "%s/source/../target", dir);
	assert_int_equal(prepare(&persist, source, link, NULL), CLI_FAILED);
	persist_free(&persist);
	check_table(text);
}

static void test_lines_of_others_are_refused(void **state)
{
	char a[1024], b[1024];

	snprintf(a, sizeof(a), "/srv %s", target);
	check_refused(a, "");
	snprintf(a, sizeof(a), "%s %s ext4", source, target);
	check_refused(a, "");
	snprintf(a, sizeof(a), "%s %s", source, target);
	snprintf(b, sizeof(b), "%s %s/", source, target);
	check_refused(a, b);
}

/* Somebody else's line may have come while it was mounted. */
static void test_it_looks_again_before_it_writes(void **state)
{
	char text[8192];
	struct persist persist;

	assert_int_equal(prepare(&persist, source, target, NULL), CLI_OK);
	snprintf(text, sizeof(text), "tmpfs %s tmpfs\n", target);
	put_table(text);
	assert_int_equal(persist_write(&persist, false), CLI_FAILED);
	persist_free(&persist);
	check_table(text);
}

static int forget(const char *at, bool *found)
{
	struct persist persist;
	int status = forget_prepare(&persist, &command, at, found);

	if (status == CLI_OK)
		status = forget_write(&persist);
	persist_free(&persist);
	return status;
}

static void test_forgetting(void **state)
{
	char link[256], text[8192];
	bool found;

	assert_int_equal(write_line("pool=1G"), CLI_OK);
	snprintf(link, sizeof(link), "%s/link", dir);
	assert_int_equal(symlink("target", link), 0);
	assert_int_equal(forget(link, &found), CLI_OK);
	assert_true(found);
	check_table(TABLE "\n");
	assert_int_equal(forget(link, &found), CLI_OK);
	assert_false(found);
	/* A line may name the link. */
	snprintf(text, sizeof(text), "/srv %s hugemap x\n# kept\n", link);
	put_table(text);
	assert_int_equal(forget(link, &found), CLI_OK);
	assert_true(found);
	check_table("# kept\n");
	/* The directory may be gone. */
	put_table("/srv /nonexistent/dir/ hugemap x\n");
	assert_int_equal(forget("/./nonexistent//dir", &found), CLI_OK);
	assert_true(found);
	check_table("");
	/* What is not ours stays. */
	put_table("/srv /nonexistent ext4 x\n");
	assert_int_equal(forget("/nonexistent", &found), CLI_FAILED);
	check_table("/srv /nonexistent ext4 x\n");
}

/* Run something whose output nobody can read; returns what it returned. */
static int unseen(int (*what)(void))
{
	int was = dup(STDOUT_FILENO), full = open("/dev/full", O_WRONLY), status;

	assert_true(full >= 0);
	fflush(stdout);
	assert_int_equal(dup2(full, STDOUT_FILENO), STDOUT_FILENO);
	close(full);
	status = what();
	__fpurge(stdout);
	clearerr(stdout);
	assert_int_equal(dup2(was, STDOUT_FILENO), STDOUT_FILENO);
	close(was);
	return status;
}

static int write_it(void)
{
	return write_line("pool=4G");
}

static int forget_it(void)
{
	bool found;

	return forget(target, &found);
}

static void test_what_cannot_be_shown_is_not_done(void **state)
{
	ino_t was = inode();

	assert_int_equal(unseen(write_it), CLI_FAILED);
	check_table(TABLE);
	assert_int_equal(inode(), was);
	assert_int_equal(write_line("pool=2G"), CLI_OK);
	was = inode();
	assert_int_equal(unseen(write_it), CLI_FAILED);
	assert_int_equal(unseen(forget_it), CLI_FAILED);
	check_written("pool=2G");
	assert_int_equal(inode(), was);
	assert_int_equal(count_files(), 3);
}

static void test_what_may_not_last_is_a_warning(void **state)
{
	instead_of_fsync = fsync_no_directory;
	listen_to_stderr();
	assert_int_equal(write_it(), CLI_OK);
	assert_int_equal(count_said("The line is written, but may not survive a power cut"), 1);
	check_written("pool=4G");
	listen_to_stderr();
	assert_int_equal(forget_it(), CLI_OK);
	assert_int_equal(count_said("The line is taken away, but may not survive"), 1);
	instead_of_fsync = NULL;
	check_table(TABLE "\n");
}

/* --- names of a device --- */

static dev_t device;
static char links[256];

/* A block device, of any kind: it is not opened. */
static bool make_device(void)
{
	char name[512];
	struct stat st;

	snprintf(name, sizeof(name), "%s/device", dir);
	device = makedev(7, 200);
	if (mknod(name, S_IFBLK | 0600, device) < 0 || stat(name, &st) < 0)
		return false;
	snprintf(name, sizeof(name), "%s/other", dir);
	assert_int_equal(mknod(name, S_IFBLK | 0600, makedev(7, 201)), 0);
	snprintf(links, sizeof(links), "%s/disk", dir);
	assert_int_equal(mkdir(links, 0755), 0);
	snprintf(name, sizeof(name), "%s/by-id", links);
	assert_int_equal(mkdir(name, 0755), 0);
	snprintf(name, sizeof(name), "%s/by-path", links);
	assert_int_equal(mkdir(name, 0755), 0);
	return true;
}

static void add_link(const char *name, const char *to)
{
	char link_name[512], text[256];

	snprintf(link_name, sizeof(link_name), "%s/%s", links, name);
	snprintf(text, sizeof(text), "%s/%s", dir, to);
	assert_int_equal(symlink(text, link_name), 0);
}

static void expect_name(const char *wanted)
{
	char found[PATH_MAX], text[PATH_MAX];

	assert_true(persist_find_name(links, device, found));
	snprintf(text, sizeof(text), "%s/%s", links, wanted);
	assert_string_equal(found, text);
}

/* Each of these is better than those before it. */
static void test_the_best_name_of_a_device(void **state)
{
	static const char *const names[] = {
		"by-id/dm-name-a",     "by-id/dm-uuid-LVM-b", "by-path/pci-0-ata-2",
		"by-path/pci-0-ata-1", "by-id/wwn-0x5",	      "by-id/nvme-eui.00",
		"by-id/ata-Disk_1",
	};
	char found[PATH_MAX];
	size_t i;

	if (!make_device())
		skip();
	assert_false(persist_find_name(links, device, found));
	/* Made of what is on the disk; another's; none at all. */
	add_link("by-id/lvm-pv-uuid-a", "device");
	add_link("by-id/edd-int13_dev80", "device");
	add_link("by-id/ata-Disk_0", "other");
	add_link("by-id/ata-Disk", "nothing");
	add_link("by-id/ata-Dir", "source");
	assert_false(persist_find_name(links, device, found));
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		add_link(names[i], "device");
		expect_name(names[i]);
	}
}

static void test_the_best_name_of_an_array(void **state)
{
	if (!make_device())
		skip();
	add_link("by-id/md-name-host:0", "device");
	expect_name("by-id/md-name-host:0");
	add_link("by-id/md-uuid-1:2", "device");
	expect_name("by-id/md-uuid-1:2");
	add_link("by-id/lvm-pv-uuid-a", "device");
	expect_name("by-id/md-uuid-1:2");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_dirs, remove_dir)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_options),
		TEST(test_names_are_absolute_and_real),
		TEST(test_a_source_that_options_cannot_name),
		TEST(test_a_line_is_written_once),
		TEST(test_a_look_writes_nothing),
		TEST(test_lines_of_others_are_refused),
		TEST(test_it_looks_again_before_it_writes),
		TEST(test_forgetting),
		TEST(test_what_cannot_be_shown_is_not_done),
		TEST(test_what_may_not_last_is_a_warning),
		TEST(test_the_best_name_of_a_device),
		TEST(test_the_best_name_of_an_array),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
