// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Tracepoints: each event names the inode that it concerns. With huge pages, the promotion
 * of a block whose base pages are gone is reported exactly once.
 *
 * vm: page=2M,4K,auto lower=ext4 pool=8M
 */
#include "common.h"

#define TRACING "/sys/kernel/tracing/"
#define LENGTH (12ul << 20)

static void write_trace(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_TRUNC);

	if (fd < 0)
		skip("%s: %s", path, strerror(errno));
	EXPECT(write(fd, text, strlen(text)) == (ssize_t)strlen(text), "%s: %s", path,
	       strerror(errno));
	close(fd);
}

/* Counts the events of one name and one inode. @last: the fields of the last one. */
static unsigned int count_events(const char *name, ino_t ino, char *last, size_t room)
{
	char event[64], number[64], line[1024];
	FILE *file = fopen(TRACING "trace", "r");
	unsigned int n = 0;

	EXPECT(file, "open of the trace: %s", strerror(errno));
	snprintf(event, sizeof(event), " hugemap_%s: ", name);
	snprintf(number, sizeof(number), " ino %llu ", (unsigned long long)ino);
	while (fgets(line, sizeof(line), file)) {
		const char *at = strstr(line, event);

		if (!at || !strstr(at, number))
			continue;
		snprintf(last, room, "%s", strstr(at, number) + strlen(number));
		n++;
	}
	fclose(file);
	return n;
}

BEHAVIOUR(events_name_the_inode)
{
	static const char *const names[] = { "fault", "fill", "evict", "writeback", "sync" };
	volatile unsigned char *data;
	unsigned int promoted;
	char last[256] = "";
	struct stat st;
	size_t at, i;
	int fd;

	if (!on_hugemap())
		skip("only hugemap has these tracepoints");
	write_trace(TRACING "trace", "");
	write_trace(TRACING "events/hugemap/enable", "1");
	fd = make_file("file", 1, LENGTH);
	MUST(fstat(fd, &st));
	data = map_shared(fd, 0, LENGTH);
	for (at = 0; at < LENGTH; at += SMALL)
		data[at]++; /* evicts: the file is larger than the pool */
	MUST(msync((void *)data, LENGTH, MS_SYNC));
	for (i = 0; i < COUNT(names); i++)
		EXPECT(count_events(names[i], st.st_ino, last, sizeof(last)),
		       "no %s event for the file", names[i]);

	/* A block that contains the end of the file is cached in base pages. */
	MUST(ftruncate(fd, 0));
	MUST(ftruncate(fd, HUGE / 2));
	EXPECT(data[SMALL] == 0, "a byte that truncation cut off is not zero");
	MUST(ftruncate(fd, 0));
	MUST(ftruncate(fd, LENGTH));
	EXPECT(data[SMALL] == 0, "a byte that truncation cut off is not zero");
	write_trace(TRACING "events/hugemap/enable", "0");
	promoted = count_events("promote", st.st_ino, last, sizeof(last));
	/* page=auto: 1 if the sequential stores promoted the first block, else 0. */
	EXPECT(hybrid_pages() ? promoted <= 1 : promoted == (huge_pages() ? 1 : 0),
	       "%u promotions, the last one: %s", promoted, last);
	if (promoted)
		EXPECT(!strncmp(last, "pgoff 0 npages 512 value 0", 26), "the event is: %s", last);
	write_trace(TRACING "trace", "");
	MUST(munmap((void *)data, LENGTH));
	close(fd);
}

/* A single dirty page prevents it: write-back would have to write the whole huge unit. */
BEHAVIOUR(refused_promotion_is_reported)
{
	volatile unsigned char *data;
	unsigned int i, seconds;
	char last[256] = "";
	struct stat st;
	int fd;

	if (!hybrid_pages())
		skip("only page=auto promotes");
	fd = make_file("file", 1, HUGE + SMALL);
	MUST(fstat(fd, &st));
	MUST(fsync(fd));
	MUST(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED));
	data = map_shared(fd, 0, HUGE);
	write_trace(TRACING "trace", "");
	write_trace(TRACING "events/hugemap/hugemap_refuse/enable", "1");
	data[5 * SMALL]++;
	for (i = 0; i < HUGE / SMALL; i++)
		(void)data[i * 37 % (HUGE / SMALL) * SMALL];
	for (seconds = 0; !count_events("refuse", st.st_ino, last, sizeof(last)); seconds++) {
		EXPECT(seconds < 60, "no refuse event within %u seconds", seconds);
		sleep(1);
	}
	write_trace(TRACING "events/hugemap/hugemap_refuse/enable", "0");
	EXPECT(!strncmp(last, "pgoff 0 npages 512 value 2", 26), "the event is: %s", last);
	write_trace(TRACING "trace", "");
	MUST(munmap((void *)data, HUGE));
	close(fd);
}

RUN_BEHAVIOURS
