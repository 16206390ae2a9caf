// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Operations for which this worker closes the file. op_apart(): a child is the only user of
 * the file, stores in a mapping, and ends in one of several ways. op_settled(): the file is
 * mapped by a reader only, and then another process or descriptor writes.
 */
#include "ops.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum ending {
	END_EXEC,
	END_EXIT,
	END_AT_ONCE,
	END_KILLED,
	ENDS
};

/* Runs in the child, and never returns. */
static void store_and_end(struct worker *w, enum ending how, uint64_t seed, uint64_t off,
			  uint64_t len)
{
	uint64_t skip = off % PAGE;
	unsigned char *addr;
	int fd = open(w->path, O_RDWR | (seed & 1 ? O_CLOEXEC : 0));
	char numbers[2][24];

	if (fd < 0)
		fail(w, "open by a child: %s", strerror(errno));
	addr = mmap(NULL, len + skip, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)(off - skip));
	if (addr == MAP_FAILED)
		fail(w, "mmap by a child: %s", strerror(errno));
	model_check(w, "load by a child, the only user", off, addr + skip, len);
	fill_from(seed, addr + skip, len);
	snprintf(numbers[0], sizeof(numbers[0]), "%" PRIu64, off);
	snprintf(numbers[1], sizeof(numbers[1]), "%" PRIu64, len);
	switch (how) {
	case END_EXEC:
		execl("/proc/self/exe", "exercise", "--child", "nothing", w->path, numbers[0],
		      numbers[1], "0", NULL);
		break;
	case END_EXIT:
		exit(0);
	case END_KILLED:
		kill(getpid(), SIGKILL);
		break;
	default:
		_exit(0);
	}
	fail(w, "a child did not end: %s", strerror(errno));
}

void op_apart(struct worker *w)
{
	enum ending how = (enum ending)random_below(w, ENDS);
	uint64_t seed = random_next(w), off, len;
	pid_t pid;

	pick_range(w, true, &off, &len);
	len = model_available(w, off, len);
	if (!len || w->opts->threads > 1)
		return;
	log_operation(w, "apart", off, len, how);
	close_files(w);
	fflush(NULL);
	pid = fork();
	if (pid < 0)
		fail(w, "fork: %s", strerror(errno));
	if (!pid)
		store_and_end(w, how, seed, off, len);
	await_child(w, "a child, the only user of the file", pid, how == END_KILLED ? SIGKILL : 0);
	open_files(w);
	fill_from(seed, w->buf, len);
	model_write(w, off, w->buf, len);
	check_read(w, "read after the end of a child", off, len,
		   pread(w->fd, w->buf, len, (off_t)off));
}

/* Map the file for reading while it has no writer. A later write must show at once. */
void op_settled(struct worker *w)
{
	bool private = random_chance(w, 30), another = random_chance(w, 60);
	uint64_t seed = random_next(w), end = mapped_end(w), off, len;
	unsigned char *addr;

	pick_range(w, true, &off, &len);
	len = model_available(w, off, len);
	if (!len || w->opts->threads > 1)
		return;
	log_operation(w, "settled", off, len, another);
	close_files(w);
	w->fd = open(w->path, O_RDONLY);
	if (w->fd < 0)
		fail(w, "open for reading: %s", strerror(errno));
	addr = mmap(NULL, end, PROT_READ, private ? MAP_PRIVATE : MAP_SHARED, w->fd, 0);
	if (addr == MAP_FAILED)
		fail(w, "mmap for reading: %s", strerror(errno));
	model_check(w, "load without a writer", off, addr + off, len);
	fill_from(seed, w->buf, len);
	if (another) {
		other_program(w, seed & 1 ? "store" : "write", false, off, len, seed);
	} else {
		int fd = open(w->path, O_WRONLY);

		if (fd < 0 || pwrite(fd, w->buf, len, (off_t)off) != (ssize_t)len || close(fd))
			fail(w, "write next to a reader: %s", strerror(errno));
	}
	fill_from(seed, w->buf, len);
	model_write(w, off, w->buf, len);
	model_check(w, "load after the first write", off, addr + off, len);
	munmap(addr, end);
	close(w->fd);
	open_files(w);
}
