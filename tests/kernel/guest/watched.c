// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Who is asked about each open and each read, here and below, as virus scanners are, reads
 * the file before he answers: he is not asked about what that takes below.
 *
 * vm: page=auto lower=ext4,xfs timeout=120
 */
#include "common.h"

#include <poll.h>
#include <sys/fanotify.h>
#include <sys/utsname.h>

/* Since 6.14 a module cannot open a file below without whoever watches it being asked. */
static bool opens_are_told(void)
{
	unsigned int major, minor;
	struct utsname name;

	uname(&name);
	return sscanf(name.release, "%u.%u", &major, &minor) == 2 &&
	       (major > 6 || (major == 6 && minor >= 14));
}

static void answer(int fan, const struct fanotify_event_metadata *event, unsigned int *asked)
{
	const struct fanotify_response response = { .fd = event->fd, .response = FAN_ALLOW };
	struct stat st;

	EXPECT(event->fd >= 0, "an event without a file");
	MUST(fstat(event->fd, &st));
	read_pattern("read by who watches", event->fd, 1, 0, (size_t)st.st_size);
	EXPECT(write(fan, &response, sizeof(response)) == sizeof(response), "answer: %s",
	       strerror(errno));
	close(event->fd);
	++*asked;
}

static void reader(void *arg)
{
	int fd = open_file("f", O_RDONLY);

	(void)arg;
	read_pattern("read that was watched", fd, 1, 0, HUGE + SMALL);
}

BEHAVIOUR(watches_both)
{
	int fan = fanotify_init(FAN_CLASS_CONTENT | FAN_CLOEXEC | FAN_NONBLOCK, O_RDONLY);
	uint64_t both = FAN_OPEN_PERM | FAN_ACCESS_PERM;
	char events[4096] __attribute__((aligned(8)));
	unsigned int asked = 0;
	struct pollfd ready = { .fd = fan, .events = POLLIN };
	int fd, status;
	pid_t pid;

	if (fan < 0)
		skip("no fanotify here: %s", strerror(errno));
	/* Nothing of it is cached here, and it has not been opened. */
	fd = open(lower_path("f"), O_RDWR | O_CREAT, 0644);
	EXPECT(fd >= 0, "open below: %s", strerror(errno));
	write_pattern(fd, 1, 0, HUGE + SMALL);
	close(fd);
	if (fanotify_mark(fan, FAN_MARK_ADD, both, AT_FDCWD, "f"))
		skip("nobody is asked here: %s", strerror(errno));
	MUST(fanotify_mark(fan, FAN_MARK_ADD, opens_are_told() ? FAN_ACCESS_PERM : both, AT_FDCWD,
			   lower_path("f")));
	/* It waits for itself, killable. */
	alarm(30);
	pid = start_child(reader, NULL);
	while (waitpid(pid, &status, WNOHANG) != pid) {
		const struct fanotify_event_metadata *event = (void *)events;
		ssize_t n;

		poll(&ready, 1, 100);
		n = read(fan, events, sizeof(events));
		EXPECT(n >= 0 || errno == EAGAIN, "read of events: %s", strerror(errno));
		for (; FAN_EVENT_OK(event, n); event = FAN_EVENT_NEXT(event, n))
			answer(fan, event, &asked);
	}
	alarm(0);
	EXPECT(!status, "who read ended with status %#x", status);
	EXPECT(asked >= 2, "asked %u times, expected an open and a read at least", asked);
}

RUN_BEHAVIOURS
