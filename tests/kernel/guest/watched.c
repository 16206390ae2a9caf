// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * A virus scanner watches a file here and the lower file by fanotify permission events, and
 * reads the file here before it answers. The I/O of the mount on the lower file must not
 * raise events: the scanner would wait for its own answer.
 *
 * vm: page=auto lower=ext4,xfs timeout=120
 */
#include "common.h"

#include <poll.h>
#include <sys/fanotify.h>

/* From 6.14 on, no exported function opens a file without an event. */
static bool lower_opens_raise_events(void)
{
	return !kernel_before("6.14");
}

static void scan_and_allow(int fan, const struct fanotify_event_metadata *event)
{
	const struct fanotify_response response = { .fd = event->fd, .response = FAN_ALLOW };
	struct stat st;

	EXPECT(event->fd >= 0, "an event has no file");
	MUST(fstat(event->fd, &st));
	read_pattern("read by the scanner", event->fd, 1, 0, (size_t)st.st_size);
	EXPECT(write(fan, &response, sizeof(response)) == sizeof(response), "response: %s",
	       strerror(errno));
	close(event->fd);
}

static void read_file(void *arg)
{
	int fd = open_file("f", O_RDONLY);

	(void)arg;
	read_pattern("read with a scanner", fd, 1, 0, HUGE + SMALL);
}

BEHAVIOUR(scanner_of_both_files_does_not_deadlock)
{
	int fan = fanotify_init(FAN_CLASS_CONTENT | FAN_CLOEXEC | FAN_NONBLOCK, O_RDONLY);
	uint64_t both = FAN_OPEN_PERM | FAN_ACCESS_PERM;
	char events[4096] __attribute__((aligned(8)));
	unsigned int n_events = 0;
	struct pollfd ready = { .fd = fan, .events = POLLIN };
	int fd, status;
	pid_t pid;

	if (fan < 0)
		skip("this kernel has no fanotify: %s", strerror(errno));
	/* Created in the lower fs, so that the file is neither cached nor open here. */
	fd = open(lower_path("f"), O_RDWR | O_CREAT, 0644);
	EXPECT(fd >= 0, "open of the lower file: %s", strerror(errno));
	write_pattern(fd, 1, 0, HUGE + SMALL);
	close(fd);
	if (fanotify_mark(fan, FAN_MARK_ADD, both, AT_FDCWD, "f"))
		skip("this kernel has no permission events: %s", strerror(errno));
	MUST(fanotify_mark(fan, FAN_MARK_ADD, lower_opens_raise_events() ? FAN_ACCESS_PERM : both,
			   AT_FDCWD, lower_path("f")));
	/* A scanner that waits for its own answer is killable. */
	alarm(30);
	pid = start_child(read_file, NULL);
	while (waitpid(pid, &status, WNOHANG) != pid) {
		const struct fanotify_event_metadata *event = (void *)events;
		ssize_t n;

		poll(&ready, 1, 100);
		n = read(fan, events, sizeof(events));
		EXPECT(n >= 0 || errno == EAGAIN, "read of events: %s", strerror(errno));
		for (; FAN_EVENT_OK(event, n); event = FAN_EVENT_NEXT(event, n), n_events++)
			scan_and_allow(fan, event);
	}
	alarm(0);
	EXPECT(!status, "the reader ended with status %#x", status);
	EXPECT(n_events >= 2, "%u events, expected at least an open and a read", n_events);
}

RUN_BEHAVIOURS
