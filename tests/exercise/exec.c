// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Operations of other programs, which this worker starts in several ways while it has the
 * file open and mapped: the bytes that they read are compared with the model, and their writes
 * update it. Most of them are this program itself (child.c), so that it works on a machine
 * without other programs; without a shell the ways that need one are left out.
 */
#include "ops.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SELF "/proc/self/exe"
#define ARGUMENTS 8 /* of a child, with the NULL at the end */
#define TEXT 520 /* bytes of an argument: a path at most */
#define VARIABLES 512
#define NUMBER 200 /* first descriptor number for children; one per thread */

enum way {
	BY_SPAWN, /* posix_spawn() without file actions */
	BY_ACTIONS, /* posix_spawn() with file actions that prepare the descriptors */
	BY_FORK,
	BY_VFORK,
	BY_POPEN,
	BY_SYSTEM,
	WAYS
};

static const char *const way_names[WAYS] = {
	"exec-spawn", "exec-actions", "exec-fork", "exec-vfork", "exec-popen", "exec-system",
};

struct child {
	enum way way;
	char text[ARGUMENTS][TEXT];
	char *argv[ARGUMENTS];
	char *env[VARIABLES];
	char command[4 * TEXT]; /* the arguments as a command for a shell */
	int file; /* descriptor that it inherits, or -1 */
	int number; /* descriptor number in the child; -1: the same */
	int answer[2]; /* pipe for its output, or -1 */
};

/* Half of the children run without the preload library of this process, if it has one. */
static void pick_environment(struct worker *w, struct child *c)
{
	bool plain = random_chance(w, 50);
	unsigned int i, n = 0;

	for (i = 0; environ[i] && n < VARIABLES - 1; i++)
		if (!plain || strncmp(environ[i], "LD_PRELOAD=", 11))
			c->env[n++] = environ[i];
	c->env[n] = NULL;
}

static void arguments(struct child *c, const char *what, const char *where, uint64_t off,
		      uint64_t len, uint64_t more)
{
	char self[TEXT] = "";
	unsigned int i;

	if (readlink(SELF, self, sizeof(self) - 1) < 0)
		self[0] = '\0';
	snprintf(c->text[0], TEXT, "%s", self);
	snprintf(c->text[1], TEXT, "--child");
	snprintf(c->text[2], TEXT, "%s", what);
	snprintf(c->text[3], TEXT, "%s", where);
	snprintf(c->text[4], TEXT, "%" PRIu64, off);
	snprintf(c->text[5], TEXT, "%" PRIu64, len);
	snprintf(c->text[6], TEXT, "%" PRIu64, more);
	for (i = 0; i < ARGUMENTS - 1; i++)
		c->argv[i] = c->text[i];
	c->argv[i] = NULL;
}

static void keep_across_exec(int fd)
{
	if (fd >= 0)
		fcntl(fd, F_SETFD, 0);
}

/* Runs in the child, which shares our memory after vfork(), so it only does system calls. */
static void become(const struct child *c)
{
	keep_across_exec(c->answer[1]);
	if (c->number >= 0)
		dup2(c->file, c->number);
	else
		keep_across_exec(c->file);
	execve(SELF, c->argv, c->env);
	_exit(127);
}

static pid_t by_vfork(const struct child *c)
{
	pid_t pid = vfork();

	if (!pid)
		become(c);
	return pid;
}

static pid_t by_fork(const struct child *c)
{
	pid_t pid = fork();

	if (!pid)
		become(c);
	return pid;
}

static pid_t by_actions(struct worker *w, const struct child *c)
{
	posix_spawn_file_actions_t actions;
	pid_t pid;
	int err;

	posix_spawn_file_actions_init(&actions);
	if (c->answer[1] >= 0)
		posix_spawn_file_actions_adddup2(&actions, c->answer[1], c->answer[1]);
	if (c->file >= 0)
		posix_spawn_file_actions_adddup2(&actions, c->file,
						 c->number >= 0 ? c->number : c->file);
	err = posix_spawn(&pid, SELF, &actions, NULL, c->argv, c->env);
	posix_spawn_file_actions_destroy(&actions);
	if (err)
		fail(w, "posix_spawn with actions: %s", strerror(err));
	return pid;
}

static pid_t by_spawn(struct worker *w, const struct child *c)
{
	pid_t pid;
	int err = posix_spawn(&pid, SELF, NULL, NULL, c->argv, c->env);

	if (err)
		fail(w, "posix_spawn: %s", strerror(err));
	return pid;
}

/* Read the whole output of a child into w->buf. More than fits is an error in any case. */
static uint64_t listen_to(struct worker *w, int fd)
{
	uint64_t done = 0;
	ssize_t n;

	do {
		n = read(fd, w->buf + done, LARGEST + PAGE - done);
		if (n < 0)
			fail(w, "read of a child's answer: %s", strerror(errno));
		done += (uint64_t)n;
	} while (n && done < LARGEST + PAGE);
	return done;
}

void await_child(struct worker *w, const char *who, pid_t pid, int expected)
{
	int status;

	if (waitpid(pid, &status, 0) != pid)
		fail(w, "waitpid: %s", strerror(errno));
	if (status != expected)
		fail(w, "%s ended with status %#x", who, status);
}

static uint64_t run_program(struct worker *w, struct child *c)
{
	uint64_t heard = 0;
	pid_t pid;

	switch (c->way) {
	case BY_SPAWN:
		pid = by_spawn(w, c);
		break;
	case BY_ACTIONS:
		pid = by_actions(w, c);
		break;
	case BY_FORK:
		pid = by_fork(c);
		break;
	default:
		pid = by_vfork(c);
	}
	if (pid < 0)
		fail(w, "%s: %s", way_names[c->way], strerror(errno));
	if (c->answer[1] >= 0) {
		close(c->answer[1]);
		heard = listen_to(w, c->answer[0]);
		close(c->answer[0]);
	}
	await_child(w, "another program", pid, 0);
	return heard;
}

static void shell_command(struct worker *w, struct child *c, bool cat)
{
	unsigned int i;
	size_t n;

	if (cat) {
		snprintf(c->command, sizeof(c->command), "exec cat '%s'", w->path);
		return;
	}
	n = (size_t)snprintf(c->command, sizeof(c->command), "exec");
	for (i = 0; c->argv[i] && n < sizeof(c->command); i++)
		n += (size_t)snprintf(c->command + n, sizeof(c->command) - n, " '%s'", c->argv[i]);
	if (c->way == BY_SYSTEM && n < sizeof(c->command))
		snprintf(c->command + n, sizeof(c->command) - n, " >'%s'", w->other);
}

static uint64_t run_shell(struct worker *w, struct child *c)
{
	uint64_t heard;
	int status, fd;
	FILE *stream;

	if (c->way == BY_POPEN) {
		stream = popen(c->command, "r");
		if (!stream)
			fail(w, "popen: %s", strerror(errno));
		heard = listen_to(w, fileno(stream));
		status = pclose(stream);
	} else {
		status = system(c->command);
		fd = open(w->other, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			fail(w, "open %s: %s", w->other, strerror(errno));
		heard = listen_to(w, fd);
		close(fd);
	}
	if (status)
		fail(w, "a shell ended with status %#x: %s", status, c->command);
	return heard;
}

/* With a shell or a plain spawn, the parent itself must clear FD_CLOEXEC for the child. */
static uint64_t run(struct worker *w, struct child *c)
{
	bool shell = c->way == BY_POPEN || c->way == BY_SYSTEM;
	int before = c->file >= 0 ? fcntl(c->file, F_GETFD) : 0;
	uint64_t heard;

	if (shell || c->way == BY_SPAWN) {
		keep_across_exec(c->file);
		keep_across_exec(c->answer[1]);
	}
	heard = shell ? run_shell(w, c) : run_program(w, c);
	if (c->file >= 0 && fcntl(c->file, F_SETFD, before))
		fail(w, "fcntl(F_SETFD): %s", strerror(errno));
	return heard;
}

/**
 * other_program() - run one operation on the file in another program
 * @command: a command of child.c
 * @inherit: let the child use our descriptor instead of the path
 * @more: seed of the bytes to write; unused for reads
 *
 * Return: the number of bytes that the child has read; they are in w->buf.
 */
uint64_t other_program(struct worker *w, const char *command, bool inherit, uint64_t off,
		       uint64_t len, uint64_t more)
{
	bool reads = !strcmp(command, "read") || !strcmp(command, "load");
	struct child c = { .file = inherit ? w->fd : -1, .number = -1, .answer = { -1, -1 } };
	bool shell, cat = false;
	char where[TEXT];

	c.way = (enum way)random_below(w, access("/bin/sh", X_OK) ? BY_POPEN : WAYS);
	shell = c.way == BY_POPEN || c.way == BY_SYSTEM;
	if (inherit && !shell && c.way != BY_SPAWN && random_chance(w, 50))
		c.number = NUMBER + (int)w->thread;
	snprintf(where, sizeof(where), "%s", w->path);
	if (inherit)
		snprintf(where, sizeof(where), "%d", c.number >= 0 ? c.number : c.file);
	if (reads && !shell && pipe2(c.answer, O_CLOEXEC))
		fail(w, "pipe2: %s", strerror(errno));
	if (reads)
		more = shell ? 1 : (uint64_t)c.answer[1];
	cat = reads && c.way == BY_POPEN && !inherit && !off && len == w->model->size &&
	      !access("/bin/cat", X_OK);
	log_operation(w, way_names[c.way], off, len, inherit);
	pick_environment(w, &c);
	arguments(&c, command, where, off, len, more);
	if (shell)
		shell_command(w, &c, cat);
	return run(w, &c);
}

static void others_read(struct worker *w, bool inherit)
{
	const char *what = random_chance(w, 60) ? "read" : "load";
	uint64_t off, len;

	pick_range(w, false, &off, &len);
	if (random_chance(w, 10) && w->model->size <= LARGEST) {
		off = 0;
		len = LARGEST;
	}
	len = model_available(w, off, len);
	if (!len)
		return;
	check_read(w, "read by another program", off, len,
		   (ssize_t)other_program(w, what, inherit, off, len, 0));
}

static void others_write(struct worker *w, bool inherit)
{
	bool store = random_chance(w, 50);
	uint64_t seed, off, len;

	if (!pick_range(w, true, &off, &len))
		return;
	if (store)
		len = model_available(w, off, len);
	if (!len)
		return;
	seed = random_next(w);
	other_program(w, store ? "store" : "write", inherit, off, len, seed);
	fill_from(seed, w->buf, len);
	model_write(w, off, w->buf, len);
	check_read(w, "read after another program has written", off, len,
		   pread(w->fd, w->buf, len, (off_t)off));
}

void op_exec(struct worker *w)
{
	bool inherit = random_chance(w, 50);
	uint64_t kind = random_below(w, 100);

	if (kind < 50)
		others_read(w, inherit);
	else if (kind < 75)
		others_write(w, inherit);
	else
		other_program(w, "nothing", inherit && kind < 85, 0, 0, 0);
}
