/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* An fstab of its own, in a directory of its own, for each test. */
#ifndef TEST_FSTAB_COMMON_H
#define TEST_FSTAB_COMMON_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <cmocka.h>

#define TABLE                                                            \
	"# what is mounted at boot\n"                                    \
	"\n"                                                             \
	"UUID=1-2   /        ext4\tdefaults   0  1\n"                    \
	"  # indented\n"                                                 \
	"/dev/sdb1\t/data\\040of\\040all ext4 ro,x-any=\"a,b\" # last\n" \
	"what is this\n"                                                 \
	"/srv /mnt//fast/ hugemap pool=1G 0 0"

static char dir[128];
static char path[160];

static void put_table(const char *text)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
	assert_int_equal(fclose(file), 0);
}

static void check_table(const char *wanted)
{
	char text[16384];
	FILE *file = fopen(path, "r");
	size_t length;

	assert_non_null(file);
	length = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	text[length] = '\0';
	assert_string_equal(text, wanted);
}

/* Whatever else is in the directory. */
static unsigned int count_files(void)
{
	DIR *at = opendir(dir);
	struct dirent *entry;
	unsigned int count = 0;

	assert_non_null(at);
	while ((entry = readdir(at)))
		count += entry->d_name[0] != '.';
	closedir(at);
	return count;
}

static int make_dir(void **state)
{
	const char *parent = getenv("TMPDIR");

	snprintf(dir, sizeof(dir), "%s/hugemap-fstab-XXXXXX", parent ? parent : "/tmp");
	if (!mkdtemp(dir))
		return -1;
	snprintf(path, sizeof(path), "%s/fstab", dir);
	setenv("LIBMOUNT_FSTAB", path, 1);
	put_table(TABLE);
	return 0;
}

static int remove_dir(void **state)
{
	char command[160];

	snprintf(command, sizeof(command), "rm -rf %s", dir);
	return system(command);
}

/* --- what the C library would do, for both this program and what it tests --- */

static int (*instead_of_fsync)(int fd);

int fsync(int fd)
{
	return instead_of_fsync ? instead_of_fsync(fd) : (int)syscall(SYS_fsync, fd);
}

/* The disk takes files, but no directory: a new name may be lost. */
static int fsync_no_directory(int fd)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	if (!S_ISDIR(st.st_mode))
		return (int)syscall(SYS_fsync, fd);
	errno = EIO;
	return -1;
}

/* --- what is said on standard error --- */

static int true_stderr;

static void listen_to_stderr(void)
{
	char name[192];
	int fd;

	snprintf(name, sizeof(name), "%s/.said", dir);
	fflush(stderr);
	true_stderr = dup(STDERR_FILENO);
	fd = open(name, O_CREAT | O_TRUNC | O_WRONLY, 0600);
	assert_true(fd >= 0);
	assert_int_equal(dup2(fd, STDERR_FILENO), STDERR_FILENO);
	close(fd);
}

/* How often were these words said since then? */
static unsigned int count_said(const char *words)
{
	char name[192], said[4096];
	unsigned int count = 0;
	const char *at = said;
	FILE *file;

	fflush(stderr);
	dup2(true_stderr, STDERR_FILENO);
	close(true_stderr);
	snprintf(name, sizeof(name), "%s/.said", dir);
	file = fopen(name, "r");
	assert_non_null(file);
	said[fread(said, 1, sizeof(said) - 1, file)] = '\0';
	fclose(file);
	while ((at = strstr(at, words))) {
		count++;
		at++;
	}
	return count;
}

#endif /* TEST_FSTAB_COMMON_H */
