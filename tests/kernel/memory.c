// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * A pool among others who want memory: what does not fit is refused.
 *
 * vm: lower=none timeout=300
 */
#include "common.h"

static char low[600], high[600];

static void set_number(const char *path, unsigned long number)
{
	int fd = open_file(path, O_WRONLY);

	EXPECT(dprintf(fd, "%lu", number) > 0, "write to %s: %s", path, strerror(errno));
	close(fd);
}

/* What /proc/meminfo says of a field, in bytes. */
static uint64_t meminfo(const char *field)
{
	FILE *file = fopen("/proc/meminfo", "r");
	size_t length = strlen(field);
	unsigned long kb = 0;
	char line[128];

	EXPECT(file, "meminfo: %s", strerror(errno));
	while (fgets(line, sizeof(line), file)) {
		if (!strncmp(line, field, length) && line[length] == ':') {
			EXPECT(sscanf(line + length, ": %lu", &kb) == 1, "what is %s", line);
			break;
		}
	}
	fclose(file);
	return (uint64_t)kb << 10;
}

static uint64_t memory_available(void)
{
	return meminfo("MemAvailable");
}

static void make_places(void)
{
	need_type();
	if (meminfo("MemTotal") > 8ull << 30)
		skip("this machine has much memory");
	snprintf(low, sizeof(low), "%s/low", work_lower);
	snprintf(high, sizeof(high), "%s/high", work_dir);
	MUST(mkdir(work_lower, 0755) < 0 && errno != EEXIST ? -1 : 0);
	MUST(mkdir(low, 0755));
	MUST(mkdir(high, 0755));
}

static int try_mount(const char *options, unsigned long flags)
{
	return mount(flags & MS_REMOUNT ? NULL : low, high, "hugemap", flags, options);
}

/* --- a pool that does not fit ---------------------------------------------------- */

struct hog {
	struct turns turns;
	uint64_t bytes;
};

/* The first one to be killed if memory runs out. */
static void take_memory(void *arg)
{
	struct hog *hog = arg;
	unsigned char *memory;
	uint64_t off;

	set_number("/proc/self/oom_score_adj", 1000);
	memory = map_file(-1, 0, hog->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
	for (off = 0; off < hog->bytes; off += SMALL)
		memory[off] = 1;
	turn_give(hog->turns.to_parent);
	turn_take(hog->turns.to_child);
}

static void expect_alive(pid_t pid, const char *options)
{
	int status;

	EXPECT(!waitpid(pid, &status, WNOHANG), "mount -o %s has had somebody killed", options);
}

/* Refused at once, by a sentence. Nobody is killed for it. */
static void no_room(void)
{
	static const char *const pages[] = { "4K", "2M" };
	uint64_t before, after;
	struct hog hog;
	char options[64];
	unsigned int i;
	pid_t pid;

	make_places();
	hog.bytes = memory_available() * 7 / 10;
	turns_init(&hog.turns);
	pid = start_child(take_memory, &hog);
	turn_take(hog.turns.to_parent);
	before = memory_available();
	for (i = 0; i < COUNT(pages); i++) {
		snprintf(options, sizeof(options), "pool=%lluM,page=%s",
			 (unsigned long long)(before * 5 / 4) >> 20, pages[i]);
		EXPECT_ERRNO(try_mount(options, 0), ENOMEM);
		expect_alive(pid, options);
	}
	after = memory_available();
	EXPECT(after + (64 << 20) > before, "%llu MB were available, and now %llu MB",
	       (unsigned long long)before >> 20, (unsigned long long)after >> 20);
	/* What fits is had; and growing is no different. */
	snprintf(options, sizeof(options), "pool=%lluM,page=4K",
		 (unsigned long long)(before * 6 / 10) >> 20);
	EXPECT(!try_mount(options, 0), "mount -o %s: %s", options, strerror(errno));
	snprintf(options, sizeof(options), "pool=%lluM",
		 (unsigned long long)(before * 11 / 10) >> 20);
	EXPECT_ERRNO(try_mount(options, MS_REMOUNT), ENOMEM);
	expect_alive(pid, options);
	MUST(umount(high));
	turn_give(hog.turns.to_child);
	wait_child(pid);
}

static const struct behaviour all[] = {
	{ "no_room", no_room },
};

int main(int argc, char **argv)
{
	return run_all(argc, argv, all, COUNT(all));
}
