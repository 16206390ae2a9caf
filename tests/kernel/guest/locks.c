// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * flock(2), POSIX and OFD record locks and leases work between processes as on Linux.
 *
 * vm: page=auto timeout=120
 */
#include "common.h"

#include <sys/file.h>

#ifndef F_OFD_SETLK
#define F_OFD_GETLK 36
#define F_OFD_SETLK 37
#define F_OFD_SETLKW 38
#endif

static struct flock lock_of(short type, off_t start, off_t len)
{
	struct flock lock = { .l_type = type, .l_whence = SEEK_SET };

	lock.l_start = start;
	lock.l_len = len;
	return lock;
}

static void flock_child(void *arg)
{
	struct turns *turns = arg;
	int fd = open_file("f", O_RDWR);

	turn_take(turns->to_child);
	EXPECT_ERRNO(flock(fd, LOCK_EX | LOCK_NB), EWOULDBLOCK);
	EXPECT_ERRNO(flock(fd, LOCK_SH | LOCK_NB), EWOULDBLOCK);
	turn_give(turns->to_parent);
	/* Waits until the parent unlocks. */
	MUST(flock(fd, LOCK_EX));
	EXPECT(write(fd, "child", 5) == 5, "write: %s", strerror(errno));
}

BEHAVIOUR(flock_excludes_other_processes)
{
	struct turns turns;
	int fd = open_file("f", O_RDWR | O_CREAT);
	char buf[5];
	pid_t pid;

	turns_init(&turns);
	pid = start_child(flock_child, &turns);
	MUST(flock(fd, LOCK_EX));
	turn_give(turns.to_child);
	turn_take(turns.to_parent);
	EXPECT(pread(fd, buf, 5, 0) == 0, "the child wrote while the parent had the lock");
	MUST(flock(fd, LOCK_UN));
	wait_child(pid);
	EXPECT(pread(fd, buf, 5, 0) == 5, "the child did not write");
}

static void record_child(void *arg)
{
	struct turns *turns = arg;
	struct flock lock;
	int fd = open_file("f", O_RDWR);

	turn_take(turns->to_child);
	lock = lock_of(F_WRLCK, 150, 10);
	EXPECT(fcntl(fd, F_SETLK, &lock) < 0 && (errno == EAGAIN || errno == EACCES),
	       "a lock was granted twice: %s", strerror(errno));
	lock = lock_of(F_WRLCK, 150, 10);
	MUST(fcntl(fd, F_GETLK, &lock));
	EXPECT(lock.l_type == F_WRLCK && lock.l_start == 100 && lock.l_len == 100 &&
		       lock.l_pid == getppid(),
	       "F_GETLK reports type %d, range %lld + %lld, process %d", lock.l_type,
	       (long long)lock.l_start, (long long)lock.l_len, lock.l_pid);
	lock = lock_of(F_WRLCK, 200, 10);
	MUST(fcntl(fd, F_SETLK, &lock));
	lock = lock_of(F_RDLCK, 0, 50);
	MUST(fcntl(fd, F_SETLK, &lock));
	turn_give(turns->to_parent);
	lock = lock_of(F_WRLCK, 100, 100);
	MUST(fcntl(fd, F_SETLKW, &lock));
}

BEHAVIOUR(posix_locks_exclude_overlapping_ranges)
{
	struct turns turns;
	struct flock lock = lock_of(F_WRLCK, 100, 100);
	int fd = open_file("f", O_RDWR | O_CREAT), second;
	pid_t pid;

	turns_init(&turns);
	pid = start_child(record_child, &turns);
	MUST(fcntl(fd, F_SETLK, &lock));
	turn_give(turns.to_child);
	turn_take(turns.to_parent);
	lock = lock_of(F_WRLCK, 0, 10);
	EXPECT(fcntl(fd, F_SETLK, &lock) < 0,
	       "a write lock was granted over the child's read lock");
	/* POSIX: closing any descriptor of the file releases all locks of the process. */
	second = open_file("f", O_RDONLY);
	close(second);
	wait_child(pid);
	lock = lock_of(F_WRLCK, 0, 0);
	MUST(fcntl(fd, F_SETLK, &lock));
}

BEHAVIOUR(ofd_locks_belong_to_the_open_file)
{
	struct flock lock = lock_of(F_WRLCK, 0, 100);
	int a = open_file("f", O_RDWR | O_CREAT), b = open_file("f", O_RDWR), c;

	MUST(fcntl(a, F_OFD_SETLK, &lock));
	lock = lock_of(F_WRLCK, 50, 100);
	EXPECT_ERRNO(fcntl(b, F_OFD_SETLK, &lock), EAGAIN);
	lock = lock_of(F_WRLCK, 50, 100);
	MUST(fcntl(b, F_OFD_GETLK, &lock));
	EXPECT(lock.l_type == F_WRLCK && lock.l_pid == -1,
	       "F_OFD_GETLK reports type %d, process %d", lock.l_type, lock.l_pid);
	c = dup(a);
	close(a);
	lock = lock_of(F_WRLCK, 50, 100);
	EXPECT_ERRNO(fcntl(b, F_OFD_SETLK, &lock), EAGAIN);
	close(c);
	lock = lock_of(F_WRLCK, 50, 100);
	MUST(fcntl(b, F_OFD_SETLK, &lock));
}

static void dying_locker(void *arg)
{
	struct flock lock = lock_of(F_WRLCK, 0, 0);
	int fd = open_file("f", O_RDWR);

	(void)arg;
	MUST(fcntl(fd, F_SETLK, &lock));
	MUST(flock(fd, LOCK_EX));
}

BEHAVIOUR(locks_of_a_dead_process_are_released)
{
	struct flock lock = lock_of(F_WRLCK, 0, 0);
	int fd = open_file("f", O_RDWR | O_CREAT);

	in_child(dying_locker, NULL);
	MUST(fcntl(fd, F_SETLK, &lock));
	MUST(flock(fd, LOCK_EX | LOCK_NB));
}

static volatile sig_atomic_t break_signal;

static void lease_handler(int sig)
{
	break_signal = sig;
}

static void lease_breaker(void *arg)
{
	(void)arg;
	close(open_file("f", O_RDWR));
}

BEHAVIOUR(lease_holder_is_notified_of_a_conflicting_open)
{
	int fd = open_file("f", O_RDONLY | O_CREAT);
	sigset_t set, old;
	pid_t pid;

	/* Blocked except during sigsuspend, so that the signal cannot arrive just before it. */
	sigemptyset(&set);
	sigaddset(&set, SIGIO);
	sigprocmask(SIG_BLOCK, &set, &old);
	signal(SIGIO, lease_handler);
	if (fcntl(fd, F_SETLEASE, F_RDLCK)) {
		EXPECT(errno == EINVAL || errno == EAGAIN, "F_SETLEASE: %s", strerror(errno));
		skip("no leases here");
	}
	EXPECT(fcntl(fd, F_GETLEASE) == F_RDLCK, "F_GETLEASE reports %d", fcntl(fd, F_GETLEASE));
	pid = start_child(lease_breaker, NULL);
	while (!break_signal)
		sigsuspend(&old);
	/* The breaker waits in open(2) until the lease is returned. */
	MUST(fcntl(fd, F_SETLEASE, F_UNLCK));
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	EXPECT(break_signal == SIGIO, "the lease was broken by signal %d", break_signal);
}

RUN_BEHAVIOURS
