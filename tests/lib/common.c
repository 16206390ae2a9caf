// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "common.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

static const char *test_dir(void)
{
	const char *dir = getenv("HM_TEST_DIR");

	return dir ? dir : "/var/tmp";
}

static void pattern_fill(void *data, uint64_t seed, size_t offset, size_t size)
{
	unsigned char *bytes = data;
	size_t i;

	for (i = 0; i < size && (offset + i) % 8; i++)
		bytes[i] = pattern_byte(seed, offset + i);
	for (; i + 8 <= size; i += 8) {
		uint64_t word = ((offset + i) / 8 + 1) * 0x9e3779b97f4a7c15ull + seed;

		memcpy(bytes + i, &word, 8);
	}
	for (; i < size; i++)
		bytes[i] = pattern_byte(seed, offset + i);
}

size_t pattern_differs(const void *data, uint64_t seed, size_t offset, size_t size)
{
	const unsigned char *bytes = data;
	unsigned char expected[4096];
	size_t at, i;

	for (at = 0; at < size; at += sizeof(expected)) {
		size_t n = size - at < sizeof(expected) ? size - at : sizeof(expected);

		pattern_fill(expected, seed, offset + at, n);
		if (!memcmp(bytes + at, expected, n))
			continue;
		for (i = 0; bytes[at + i] == expected[i]; i++)
			;
		return at + i;
	}
	return size;
}

void file_pattern(struct file *file, size_t size, uint64_t seed)
{
	char *buffer = malloc(MB(1));
	size_t at, n;

	snprintf(file->path, sizeof(file->path), "%s/hugemap-test-XXXXXX", test_dir());
	file->fd = mkstemp(file->path);
	assert_true(file->fd >= 0);
	for (at = 0; at < size; at += n) {
		n = size - at < MB(1) ? size - at : MB(1);
		pattern_fill(buffer, seed, at, n);
		assert_int_equal(pwrite(file->fd, buffer, n, (off_t)at), n);
	}
	free(buffer);
}

void file_close(struct file *file)
{
	close(file->fd);
	unlink(file->path);
}

static sigjmp_buf jump;

static void on_signal(int sig)
{
	siglongjmp(jump, sig);
}

int signal_of_read(const volatile char *addr)
{
	struct sigaction action = { .sa_handler = on_signal }, old_bus, old_segv;
	int sig;

	sigaction(SIGBUS, &action, &old_bus);
	sigaction(SIGSEGV, &action, &old_segv);
	sig = sigsetjmp(jump, 1);
	if (!sig)
		(void)*addr;
	sigaction(SIGBUS, &old_bus, NULL);
	sigaction(SIGSEGV, &old_segv, NULL);
	return sig;
}

struct hugemap_stat stat_of(const void *addr)
{
	struct hugemap_stat stat = { .size = sizeof(stat) };

	ok(hugemap_stat(addr, &stat));
	return stat;
}

void check_ok(long result, const char *what, const char *file, int line)
{
	if (result >= 0)
		return;
	print_error("%s: %s (%s)\n", what, hugemap_strerror((int)result), hugemap_reason());
	_assert_true(0, what, file, line);
}

int run_group(const struct CMUnitTest *tests, size_t n)
{
	if (getenv("HM_TEST_ONLY"))
		cmocka_set_test_filter(getenv("HM_TEST_ONLY"));
	return _cmocka_run_group_tests("lib", tests, n, NULL, NULL);
}

/* --- children -------------------------------------------------------------------- */

void check_in_child(bool good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "in the child: failed: %s (%s)\n", what, hugemap_reason());
	_exit(1);
}

void forbid(unsigned int nr, unsigned int arg, unsigned int value, int err)
{
	const unsigned int arg_at = offsetof(struct seccomp_data, args[0]) + arg * 8;
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, arg_at),
		BPF_JUMP(BPF_JMP | (value ? BPF_JEQ : BPF_JGE) | BPF_K, value, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned int)err),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(code) / sizeof(code[0]), code };

	must(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	must(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
}

int status_of_child(void (*work)(void *arg), void *arg)
{
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		signal(SIGSEGV, SIG_DFL); /* cmocka handles it otherwise */
		work(arg);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
