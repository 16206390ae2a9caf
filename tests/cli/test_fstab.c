// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* cli/fstab.c: the lines of other people stay as they are, whatever happens. */
#include "fstab_common.h"

#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>

#include "fstab.h"

#define WRITERS 4
#define LINES 12

static void open_table(struct fstab *fstab, bool change)
{
	if (fstab_open(fstab, change))
		fail_msg("%s", fstab->why);
}

static unsigned int find(struct fstab *fstab, const char *where, struct fstab_line *line)
{
	const char *const dirs[] = { where };

	return fstab_find(fstab, dirs, 1, line);
}

static void test_lines_are_found(void **state)
{
	/* Line 6 has "is" where others have a directory. */
	static const char *const others[] = {
		"/mnt", "/mnt/fas", "/mnt/faster", "/data", "is", ""
	};
	struct fstab_line line;
	struct fstab fstab;
	size_t i;

	open_table(&fstab, false);
	assert_int_equal(find(&fstab, "/mnt/fast", &line), 1);
	assert_int_equal(line.number, 7);
	assert_string_equal(line.text, "/srv /mnt//fast/ hugemap pool=1G 0 0");
	assert_string_equal(line.source, "/srv");
	assert_string_equal(line.type, "hugemap");
	assert_string_equal(line.options, "pool=1G");
	assert_int_equal(line.end, strlen(TABLE));
	fstab_line_free(&line);
	assert_int_equal(find(&fstab, "/data of all", &line), 1);
	assert_int_equal(line.number, 5);
	assert_string_equal(line.options, "ro,x-any=\"a,b\"");
	fstab_line_free(&line);
	assert_int_equal(find(&fstab, "/", &line), 1);
	assert_int_equal(line.number, 3);
	fstab_line_free(&line);
	for (i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		assert_int_equal(find(&fstab, others[i], &line), 0);
		assert_null(line.text);
	}
	fstab_close(&fstab);
	/* Reading leaves nothing behind. */
	assert_int_equal(count_files(), 1);
}

static void test_a_line_is_made(void **state)
{
	char *text = fstab_make_line("/a b\tc\\d", "/mnt/\n", "hugemap", "pool=1G");

	assert_string_equal(text, "/a\\040b\\011c\\134d /mnt/\\012 hugemap pool=1G 0 0");
	free(text);
}

static void test_a_line_is_added(void **state)
{
	struct fstab fstab;

	open_table(&fstab, true);
	assert_int_equal(fstab_put(&fstab, NULL, "new"), 0);
	fstab_close(&fstab);
	check_table(TABLE "\nnew\n");
	open_table(&fstab, true);
	assert_int_equal(fstab_put(&fstab, NULL, "newer"), 0);
	fstab_close(&fstab);
	check_table(TABLE "\nnew\nnewer\n");
	assert_int_equal(count_files(), 1);
}

static void change(const char *where, const char *text)
{
	struct fstab_line line;
	struct fstab fstab;

	open_table(&fstab, true);
	assert_int_equal(find(&fstab, where, &line), 1);
	assert_int_equal(fstab_put(&fstab, &line, text), 0);
	fstab_line_free(&line);
	fstab_close(&fstab);
}

static void test_a_line_is_replaced_and_taken_away(void **state)
{
	put_table(TABLE "\nlast /last none\n");
	change("/mnt/fast", "new /new none");
	change("/", NULL);
	change("/last", "end /end none");
	check_table("# what is mounted at boot\n\n  # indented\n"
		    "/dev/sdb1\t/data\\040of\\040all ext4 ro,x-any=\"a,b\" # last\n"
		    "what is this\nnew /new none\nend /end none\n");
	put_table(TABLE);
	change("/mnt/fast", NULL);
	assert_int_equal(count_files(), 1);
	put_table("one /one none\n");
	change("/one", NULL);
	check_table("");
}

static void test_rights_stay(void **state)
{
	static const char *const name = "user.test";
	bool labels = !setxattr(path, name, "label", 5, 0);
	char value[16] = "";
	struct stat st;

	assert_int_equal(chmod(path, 0640), 0);
	if (geteuid() == 0)
		assert_int_equal(chown(path, 65534, 12), 0);
	change("/mnt/fast", NULL);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode, S_IFREG | 0640);
	if (geteuid() == 0) {
		assert_int_equal(st.st_uid, 65534);
		assert_int_equal(st.st_gid, 12);
	}
	if (labels) {
		assert_int_equal(getxattr(path, name, value, sizeof(value)), 5);
		assert_string_equal(value, "label");
	}
}

static void test_a_symbolic_link_is_followed(void **state)
{
	char link[256];
	struct stat st;

	snprintf(link, sizeof(link), "%s/link", dir);
	assert_int_equal(symlink("fstab", link), 0);
	setenv("LIBMOUNT_FSTAB", link, 1);
	change("/mnt/fast", "new /new none");
	assert_int_equal(lstat(link, &st), 0);
	assert_true(S_ISLNK(st.st_mode));
	assert_int_equal(lstat(path, &st), 0);
	assert_true(S_ISREG(st.st_mode));
	assert_int_equal(count_files(), 2);
	setenv("LIBMOUNT_FSTAB", path, 1);
	assert_int_equal(count_files(), 2);
}

static void expect_refused(const char *words)
{
	struct fstab fstab;

	assert_int_equal(fstab_open(&fstab, true), -1);
	assert_non_null(strstr(fstab.why, words));
	fstab_close(&fstab);
}

static void test_what_is_no_file_is_refused(void **state)
{
	unlink(path);
	assert_int_equal(symlink("nowhere", path), 0);
	expect_refused("leads nowhere");
	unlink(path);
	assert_int_equal(mkdir(path, 0755), 0);
	expect_refused("not a file");
	assert_int_equal(rmdir(path), 0);
	assert_int_equal(mkfifo(path, 0644), 0);
	expect_refused("not a file");
	assert_int_equal(count_files(), 1);
	setenv("LIBMOUNT_FSTAB", "/nonexistent/fstab", 1);
	expect_refused("no file can be written");
}

/* What follows a NUL byte would be read as if it were not there, or from beyond it. */
static void test_nul_bytes_are_refused(void **state)
{
	static const char texts[][16] = { "a\n/ \0b\n", "a\n\0\0\0\0\n", "\n/srv /mnt x\0" };
	char after[16];
	size_t i;

	for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		int fd = open(path, O_RDWR | O_TRUNC);

		assert_int_equal(write(fd, texts[i], sizeof(texts[i])), sizeof(texts[i]));
		expect_refused("line 2 of ");
		expect_refused("NUL");
		assert_int_equal(count_files(), 1);
		assert_int_equal(pread(fd, after, sizeof(after), 0), sizeof(texts[i]));
		assert_memory_equal(after, texts[i], sizeof(after));
		close(fd);
	}
}

static void test_a_missing_file_is_made(void **state)
{
	struct fstab fstab;
	struct stat st;

	unlink(path);
	umask(077);
	open_table(&fstab, true);
	assert_int_equal(fstab.length, 0);
	assert_int_equal(fstab_put(&fstab, NULL, "new"), 0);
	fstab_close(&fstab);
	umask(022);
	check_table("new\n");
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode, S_IFREG | 0644);
	assert_int_equal(count_files(), 1);
}

/* An editor does not know of our lock. */
static void test_a_change_meanwhile_is_kept(void **state)
{
	struct fstab fstab;

	open_table(&fstab, true);
	put_table("changed\n");
	assert_int_equal(fstab_put(&fstab, NULL, "new"), -1);
	assert_non_null(strstr(fstab.why, "meanwhile"));
	fstab_close(&fstab);
	check_table("changed\n");
	open_table(&fstab, true);
	unlink(path);
	assert_int_equal(fstab_put(&fstab, NULL, "new"), -1);
	fstab_close(&fstab);
	assert_int_equal(count_files(), 0);
	open_table(&fstab, true);
	put_table("there after all\n");
	assert_int_equal(fstab_put(&fstab, NULL, "new"), -1);
	fstab_close(&fstab);
	check_table("there after all\n");
	assert_int_equal(count_files(), 1);
}

static char beside[256];

static void name_beside(void)
{
	snprintf(beside, sizeof(beside), "%s.hugemap-new", path);
}

static int make_beside(unsigned int mode)
{
	int fd;

	name_beside();
	fd = open(beside, O_CREAT | O_EXCL | O_RDWR, mode);
	assert_true(fd >= 0);
	assert_int_equal(fchmod(fd, mode), 0);
	return fd;
}

/* Somebody else may have it open, and would read what is written to it. */
static void test_what_a_crash_left_is_no_trouble(void **state)
{
	struct fstab fstab;
	struct stat st;
	int fd = make_beside(0644);

	assert_int_equal(write(fd, TABLE TABLE, 2 * strlen(TABLE)), 2 * strlen(TABLE));
	open_table(&fstab, true);
	assert_int_equal(stat(beside, &st), 0);
	assert_int_equal(st.st_mode, S_IFREG | 0600);
	assert_int_equal(fstab_put(&fstab, NULL, "new"), 0);
	fstab_close(&fstab);
	check_table(TABLE "\nnew\n");
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_nlink, 0);
	assert_int_equal(st.st_size, 2 * strlen(TABLE));
	close(fd);
	assert_int_equal(count_files(), 1);
}

static void test_what_is_in_the_way_stays(void **state)
{
	char link_name[256];
	struct stat st;

	/* Writing would go elsewhere. */
	name_beside();
	assert_int_equal(symlink("elsewhere", beside), 0);
	expect_refused("no file can be written");
	assert_int_equal(unlink(beside), 0);
	assert_int_equal(mkdir(beside, 0700), 0);
	expect_refused("in the way");
	assert_int_equal(rmdir(beside), 0);
	assert_int_equal(mkfifo(beside, 0600), 0);
	expect_refused("in the way");
	assert_int_equal(unlink(beside), 0);
	snprintf(link_name, sizeof(link_name), "%s/other", dir);
	close(make_beside(0600));
	assert_int_equal(link(beside, link_name), 0);
	expect_refused("in the way");
	assert_int_equal(unlink(link_name), 0);
	if (geteuid() == 0) {
		assert_int_equal(chown(beside, 65534, 65534), 0);
		expect_refused("in the way");
	}
	assert_int_equal(lstat(beside, &st), 0);
	check_table(TABLE);
	assert_int_equal(count_files(), 2);
}

static unsigned int naps, naps_until;
static int held = -1;

/* No test waits for itself. */
int nanosleep(const struct timespec *wanted, struct timespec *left)
{
	if (held < 0)
		return (int)syscall(SYS_nanosleep, wanted, left);
	if (++naps == naps_until)
		close(held);
	assert_true(naps < 100000);
	return 0;
}

/* Until so many naps; 0 = for ever. */
static void hold_lock(unsigned int until)
{
	naps = 0;
	naps_until = until;
	held = make_beside(0644);
	assert_int_equal(flock(held, LOCK_EX), 0);
}

/* Any user may lock a file that may be read. */
static void test_a_lock_is_not_waited_for_forever(void **state)
{
	struct stat st;

	hold_lock(0);
	listen_to_stderr();
	expect_refused(beside);
	assert_int_equal(count_said("waiting for somebody"), 1);
	assert_true(naps > 100);
	expect_refused("try again");
	assert_int_equal(lstat(beside, &st), 0);
	check_table(TABLE);
	close(held);
	held = -1;
}

static void test_a_lock_is_waited_for(void **state)
{
	struct fstab fstab;

	hold_lock(3);
	listen_to_stderr();
	open_table(&fstab, true);
	assert_int_equal(count_said("waiting for somebody"), 1);
	assert_int_equal(naps, 3);
	held = -1;
	fstab_close(&fstab);
	assert_int_equal(count_files(), 1);
}

static mode_t first_mode, last_mode;

static int fsync_notes_mode(int fd)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	if (S_ISREG(st.st_mode)) {
		if (!first_mode)
			first_mode = st.st_mode;
		last_mode = st.st_mode;
	}
	return 0;
}

/* The disk may take long: if it ended there, anybody could lock what is left. */
static void test_rights_come_last(void **state)
{
	first_mode = 0;
	assert_int_equal(chmod(path, 0644), 0);
	instead_of_fsync = fsync_notes_mode;
	change("/mnt/fast", "new /new none");
	instead_of_fsync = NULL;
	assert_int_equal(first_mode, S_IFREG | 0600);
	assert_int_equal(last_mode, S_IFREG | 0644);
}

static int fsync_full(int fd)
{
	errno = ENOSPC;
	return -1;
}

static void expect_unwritten(const char *words)
{
	struct fstab fstab;

	open_table(&fstab, true);
	assert_int_equal(fstab_put(&fstab, NULL, "new"), -1);
	assert_non_null(strstr(fstab.why, words));
	fstab_close(&fstab);
	check_table(TABLE);
	assert_int_equal(count_files(), 1);
}

static void test_a_full_disk(void **state)
{
	struct rlimit was, small = { .rlim_cur = 100 };

	instead_of_fsync = fsync_full;
	expect_unwritten("No space left");
	instead_of_fsync = NULL;
	/* Part of it can be written. */
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
	small.rlim_max = was.rlim_max;
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	expect_unwritten("too large");
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
	signal(SIGXFSZ, SIG_DFL);
}

static void test_what_may_not_last_is_told(void **state)
{
	struct fstab fstab;

	open_table(&fstab, true);
	instead_of_fsync = fsync_no_directory;
	assert_int_equal(fstab_put(&fstab, NULL, "new"), FSTAB_UNSURE);
	instead_of_fsync = NULL;
	assert_string_equal(fstab.why, strerror(EIO));
	fstab_close(&fstab);
	check_table(TABLE "\nnew\n");
	assert_int_equal(count_files(), 1);
}

static void add_lines(unsigned int writer)
{
	unsigned int i;

	for (i = 0; i < LINES; i++) {
		struct fstab fstab;
		char text[64];

		snprintf(text, sizeof(text), "writer-%u line-%u", writer, i);
		if (fstab_open(&fstab, true) || fstab_put(&fstab, NULL, text))
			_exit(1);
		fstab_close(&fstab);
	}
	_exit(0);
}

static void test_writers_take_turns(void **state)
{
	size_t length, all = strlen(TABLE "\n");
	char text[16384], wanted[64];
	FILE *file;
	unsigned int i, j;

	for (i = 0; i < WRITERS; i++)
		if (fork() == 0)
			add_lines(i);
	for (i = 0; i < WRITERS; i++) {
		int status;

		assert_true(wait(&status) > 0);
		assert_int_equal(status, 0);
	}
	file = fopen(path, "r");
	length = fread(text, 1, sizeof(text) - 1, file);
	text[length] = '\0';
	fclose(file);
	for (i = 0; i < WRITERS; i++)
		for (j = 0; j < LINES; j++) {
			snprintf(wanted, sizeof(wanted), "\nwriter-%u line-%u\n", i, j);
			assert_non_null(strstr(text, wanted));
			all += strlen(wanted) - 1;
		}
	/* And nothing else. */
	assert_memory_equal(text, TABLE "\n", strlen(TABLE "\n"));
	assert_int_equal(length, all);
	assert_int_equal(count_files(), 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_dir, remove_dir)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_lines_are_found),
		TEST(test_a_line_is_made),
		TEST(test_a_line_is_added),
		TEST(test_a_line_is_replaced_and_taken_away),
		TEST(test_rights_stay),
		TEST(test_a_symbolic_link_is_followed),
		TEST(test_what_is_no_file_is_refused),
		TEST(test_nul_bytes_are_refused),
		TEST(test_a_missing_file_is_made),
		TEST(test_a_change_meanwhile_is_kept),
		TEST(test_what_a_crash_left_is_no_trouble),
		TEST(test_what_is_in_the_way_stays),
		TEST(test_a_lock_is_not_waited_for_forever),
		TEST(test_a_lock_is_waited_for),
		TEST(test_rights_come_last),
		TEST(test_a_full_disk),
		TEST(test_what_may_not_last_is_told),
		TEST(test_writers_take_turns),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
