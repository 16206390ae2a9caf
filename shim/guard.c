// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Other processes: being told before anybody opens a file.
 *
 * A SETTLED file has a read lease: the kernel grants it only while nobody has
 * the file open for writing, and makes whoever opens it for writing wait until
 * we give it up. A LIVE file has a mark for permission events: the kernel asks
 * before anybody opens it, and waits for the answer. In both cases the file has
 * stepped down the ladder before the other one can read or write a byte.
 *
 * The reader thread answers for this process itself at once, with no lock held:
 * the engine opens files while it holds locks. Other processes are the worker's.
 */
#include "shim.h"
#include "own.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fanotify.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>

#define STACK_BYTES (256u << 10)
#define MAX_EVENTS 64

/* What the reader hands to the worker. */
struct request {
	int event_fd; /* of a permission event; -1: none */
	char *random; /* a mapping that is to step down; NULL, too: a lease is being broken */
};

static int events = -1; /* fanotify */
static int signals = -1; /* of leases */
static int requests[2] = { -1, -1 };
static int lease_signal;
static pid_t reader_tid;
static pthread_mutex_t start_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t started = PTHREAD_COND_INITIALIZER;
static bool running;
static atomic_bool random_asked; /* and not answered yet: the pipe never gets full of them */

static void answer(int event_fd)
{
	struct fanotify_response response = { .fd = event_fd, .response = FAN_ALLOW };

	if (real->write(events, &response, sizeof(response)) < 0)
		report_say("a permission event could not be answered: %s", strerror(errno));
	engine_close(event_fd);
}

/* --- the worker --- */

static void give_up_for(int event_fd)
{
	struct file *file;

	pthread_rwlock_wrlock(&shim_lock);
	file = file_of_fd(event_fd);
	if (file)
		aside_file(file, "another process has opened the file");
	pthread_rwlock_unlock(&shim_lock);
}

static void give_up_broken_leases(void)
{
	struct file *file, *next;

	pthread_rwlock_wrlock(&shim_lock);
	for (file = shim_files; file; file = next) {
		next = file->next;
		if (file->kind == FILE_SETTLED && file->guard_fd >= 0 &&
		    real->fcntl(file->guard_fd, F_GETLEASE) != F_RDLCK) {
			aside_file(file, "the file was opened for writing");
			next = shim_files; /* it may have been any of them */
		}
	}
	pthread_rwlock_unlock(&shim_lock);
}

static void give_up_random(const char *addr)
{
	struct map *map;

	pthread_rwlock_wrlock(&shim_lock);
	map = map_first(addr, addr + 1, true);
	if (map)
		aside_random(map->file);
	pthread_rwlock_unlock(&shim_lock);
	atomic_store(&random_asked, false);
}

/* Called by the engine, with its locks held. */
void guard_random(void *addr)
{
	struct request request = { .event_fd = -1, .random = addr };

	if (running && !atomic_exchange(&random_asked, true) &&
	    real->write(requests[1], &request, sizeof(request)) != sizeof(request))
		atomic_store(&random_asked, false);
}

static void *work(void *arg)
{
	struct request request;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	while (real->read(requests[0], &request, sizeof(request)) == sizeof(request)) {
		if (request.random) {
			give_up_random(request.random);
			continue;
		}
		if (request.event_fd < 0) {
			give_up_broken_leases();
			continue;
		}
		give_up_for(request.event_fd);
		answer(request.event_fd);
	}
	return arg;
}

/* --- the reader --- */

static void pass_on(int event_fd)
{
	struct request request = { .event_fd = event_fd };

	if (real->write(requests[1], &request, sizeof(request)) != sizeof(request) && event_fd >= 0)
		answer(event_fd);
}

static void read_events(void)
{
	struct fanotify_event_metadata buffer[MAX_EVENTS], *event;
	ssize_t n = real->read(events, buffer, sizeof(buffer));

	for (event = buffer; FAN_EVENT_OK(event, n); event = FAN_EVENT_NEXT(event, n)) {
		if (event->fd < 0)
			continue;
		if (event->pid == shim_pid)
			answer(event->fd);
		else
			pass_on(event->fd);
	}
}

static bool move_up(int *fd)
{
	int high = engine_fcntl(*fd, F_DUPFD_CLOEXEC, 3);

	if (high < 0)
		return false;
	real->close(*fd);
	*fd = high;
	return true;
}

static void *listen_for(void *arg)
{
	struct pollfd fds[2] = { { .events = POLLIN }, { .events = POLLIN } };
	struct signalfd_siginfo info;
	sigset_t set;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	sigemptyset(&set);
	sigaddset(&set, lease_signal);
	sigaddset(&set, SIGIO); /* what comes if no more can be queued */
	pthread_mutex_lock(&start_lock);
	signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (signals >= 0)
		move_up(&signals); /* if it cannot, where it is will do */
	reader_tid = (pid_t)real->syscall(SYS_gettid);
	pthread_cond_signal(&started);
	pthread_mutex_unlock(&start_lock);
	fds[0].fd = events;
	fds[1].fd = signals;
	for (;;) {
		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			break;
		if (fds[0].revents)
			read_events();
		if (fds[1].revents && real->read(signals, &info, sizeof(info)) > 0)
			pass_on(-1);
	}
	return arg;
}

static bool thread(void *(*run)(void *), const char *name)
{
	pthread_attr_t attr;
	pthread_t id;
	sigset_t all, old;
	int err;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(&id, &attr, run, NULL);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	if (!err)
		pthread_setname_np(id, name);
	return !err;
}

/* shim_lock is held for writing. */
static bool start(void)
{
	if (running)
		return true;
	lease_signal = SIGRTMAX - 1;
	if (pipe2(requests, O_CLOEXEC) < 0 || !move_up(&requests[0]) || !move_up(&requests[1]))
		return false;
	events = fanotify_init(FAN_CLASS_CONTENT | FAN_CLOEXEC | FAN_NONBLOCK | FAN_UNLIMITED_QUEUE,
			       O_RDONLY | O_CLOEXEC | O_LARGEFILE);
	if (events >= 0)
		move_up(&events);
	pthread_mutex_lock(&start_lock);
	running = thread(work, "hugemap-guard") && thread(listen_for, "hugemap-guard");
	while (running && !reader_tid)
		pthread_cond_wait(&started, &start_lock);
	pthread_mutex_unlock(&start_lock);
	return running;
}

/* --- leases --- */

static int reopen(int fd, int flags)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return engine_open(path, flags | O_CLOEXEC);
}

bool guard_settle(struct file *file, int fd, const char **why)
{
	struct f_owner_ex owner = { .type = F_OWNER_TID };
	int probe;

	if (!start()) {
		*why = "threads that watch the file could not be started";
		return false;
	}
	probe = reopen(fd, O_RDONLY);
	if (probe < 0) {
		*why = "the file could not be opened a second time";
		return false;
	}
	owner.pid = reader_tid;
	real->fcntl(probe, F_SETSIG, lease_signal);
	real->fcntl(probe, F_SETOWN_EX, &owner);
	if (!real->fcntl(probe, F_SETLEASE, F_RDLCK)) {
		/* Setting it may have made the caller the owner. */
		real->fcntl(probe, F_SETOWN_EX, &owner);
		file->guard_fd = probe;
		return true;
	}
	*why = errno == EAGAIN ? "the file is open for writing" :
	       errno == EACCES ? "the file is somebody else's: its writers cannot be noticed" :
				 "this file system knows no leases";
	engine_close(probe);
	return false;
}

/* --- permission events --- */

/* shim_lock is held for writing; so nobody becomes LIVE beside us. */
bool guard_live(struct file *file, int fd, const struct stat *st, const char **why)
{
	char path[32];

	if (!start() || events < 0) {
		*why = "the file is written to, and being told who opens it needs CAP_SYS_ADMIN";
		return false;
	}
	file->guard_fd = reopen(fd, O_PATH);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (file->guard_fd < 0 ||
	    fanotify_mark(events, FAN_MARK_ADD, FAN_OPEN_PERM, AT_FDCWD, path) < 0) {
		*why = "the file is written to, and its file system does not tell who opens it";
		return false;
	}
	if (others_use(st)) {
		*why = "another process has the file open";
		return false;
	}
	/* From now on calls on its descriptors are seen; wait for those before. */
	file_live(file, true);
	if (!shim_none_passing()) {
		*why = "another thread was writing all the time";
		return false;
	}
	if (child_may_get(st)) {
		*why = "a child of the program is being started";
		return false;
	}
	/* The engine's own mappings are none of files. */
	if (others_map("self", st)) {
		*why = "the program has another mapping of the file";
		return false;
	}
	return true;
}

void guard_drop(struct file *file)
{
	char path[32];

	if (file->guard_fd < 0)
		return;
	if (file->kind == FILE_SETTLED) {
		real->fcntl(file->guard_fd, F_SETLEASE, F_UNLCK);
	} else {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", file->guard_fd);
		fanotify_mark(events, FAN_MARK_REMOVE, FAN_OPEN_PERM, AT_FDCWD, path);
	}
	engine_close(file->guard_fd);
	file->guard_fd = -1;
}

/* A child has none of the threads; and what it keeps open would hold others up. */
void guard_child(void)
{
	struct file *file;

	if (running) {
		engine_close(events);
		engine_close(signals);
		engine_close(requests[0]);
		engine_close(requests[1]);
	}
	for (file = shim_files; file; file = file->next) {
		if (file->guard_fd >= 0)
			engine_close(file->guard_fd);
		file->guard_fd = -1;
	}
	events = signals = requests[0] = requests[1] = -1;
	reader_tid = 0;
	running = false;
	atomic_store(&random_asked, false);
}
