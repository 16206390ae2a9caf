// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Programs on the mount: run, busy while they run, dumped when they crash.
 *
 * vm: page=2M,4K,auto timeout=180
 */
#include "common.h"

#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/swap.h>

struct map_query {
	uint64_t size, flags, address, start, end, vma_flags, page_size, offset, inode;
	uint32_t major, minor, name_size, build_id_size;
	uint64_t name_at, build_id_at;
};
#define MAP_QUERY _IOWR('f', 17, struct map_query)

static void copy_self(const char *to)
{
	int in = open_file("/proc/self/exe", O_RDONLY);
	int out = open_file(to, O_WRONLY | O_CREAT | O_TRUNC);
	unsigned char *buf = buffer(HUGE);
	ssize_t n;

	while ((n = read(in, buf, HUGE)) > 0)
		EXPECT(write(out, buf, (size_t)n) == n, "write: %s", strerror(errno));
	MUST(fchmod(out, 0755));
	close(out);
	close(in);
	free(buf);
}

static void exec_child(void *arg)
{
	char *const argv[] = { arg, "--answer", NULL };

	execv(arg, argv);
	FAIL("execve of %s: %s", (char *)arg, strerror(errno));
}

static int run_copy(const char *path)
{
	int status;
	pid_t pid = start_child(exec_child, (void *)path);

	MUST(waitpid(pid, &status, 0));
	return status;
}

BEHAVIOUR(execute)
{
	int status;

	copy_self("program");
	status = run_copy("./program");
	EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 42,
	       "a program on the mount ended with status %#x, expected exit(42)", status);
	/* Just written, dropped from memory, and from below. */
	sync();
	status = run_copy("./program");
	EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 42, "after sync: status %#x", status);
	MUST(chmod("program", 0644));
	EXPECT_ERRNO(execl("./program", "program", NULL), EACCES);
}

static void stay(void *arg)
{
	char *const argv[] = { "./program", "--wait", arg, NULL };

	execv("./program", argv);
	FAIL("execve: %s", strerror(errno));
}

BEHAVIOUR(text_busy)
{
	struct turns turns;
	char fds[32];
	pid_t pid;
	int fd;

	copy_self("program");
	MUST(pipe(turns.to_child));
	MUST(pipe(turns.to_parent));
	snprintf(fds, sizeof(fds), "%d,%d", turns.to_child[0], turns.to_parent[1]);
	pid = start_child(stay, fds);
	turn_take(turns.to_parent);
	/* Linux gave this up for a while (6.11), then took it back. */
	fd = open("program", O_RDWR);
	EXPECT(fd < 0 && errno == ETXTBSY, "a running program was opened for writing: %s",
	       strerror(errno));
	EXPECT_ERRNO(truncate("program", 0), ETXTBSY);
	MUST(unlink("program"));
	turn_give(turns.to_child);
	wait_child(pid);
	/* The other way round: open for writing, so it cannot run. */
	copy_self("program");
	fd = open("program", O_WRONLY);
	EXPECT_ERRNO(execl("./program", "program", NULL), ETXTBSY);
	close(fd);
}

static void crash(void *arg)
{
	struct rlimit limit = { RLIM_INFINITY, RLIM_INFINITY };
	int fd = open_file("f", O_RDWR);
	unsigned char *map = map_shared(fd, 0, 2 * HUGE);

	(void)arg;
	setrlimit(RLIMIT_CORE, &limit);
	prctl(PR_SET_DUMPABLE, 1);
	/* Shared file mappings are left out unless asked for. */
	fd = open("/proc/self/coredump_filter", O_WRONLY);
	if (fd >= 0) {
		MUST(write(fd, "0xff", 4));
		close(fd);
	}
	pattern(map + HUGE, 2, HUGE, HUGE);
	raise(SIGQUIT);
}

/* The kernel reads the mapping itself; and the dump goes onto the mount. */
BEHAVIOUR(core_dump)
{
	char old[256] = "", path[600];
	unsigned char *core, *want;
	int fd, status;
	struct stat st;
	ssize_t n;
	pid_t pid;

	fd = open("/proc/sys/kernel/core_pattern", O_RDWR);
	if (fd < 0)
		skip("core_pattern cannot be set: %s", strerror(errno));
	n = read(fd, old, sizeof(old) - 1);
	snprintf(path, sizeof(path), "%s/core", work_dir);
	if (strlen(path) > 120 || pwrite(fd, path, strlen(path), 0) < 0)
		skip("core_pattern cannot be set: %s", strerror(errno));
	close(make_file("f", 1, 2 * HUGE));
	pid = start_child(crash, NULL);
	MUST(waitpid(pid, &status, 0));
	EXPECT(pwrite(fd, old, (size_t)n, 0) == n, "core_pattern is not what it was");
	EXPECT(WIFSIGNALED(status), "the child ended with status %#x", status);
	if (!WCOREDUMP(status) || stat("core", &st))
		skip("this kernel wrote no core dump");
	fd = open_file("core", O_RDONLY);
	core = map_file(fd, 0, (size_t)st.st_size, PROT_READ, MAP_SHARED);
	want = buffer(SMALL);
	pattern(want, 1, 0, SMALL);
	EXPECT(memmem(core, (size_t)st.st_size, want, SMALL),
	       "what the file held is not in the core dump of %lld bytes", (long long)st.st_size);
	pattern(want, 2, HUGE + SMALL, SMALL);
	EXPECT(memmem(core, (size_t)st.st_size, want, SMALL),
	       "what was stored is not in the core dump of %lld bytes", (long long)st.st_size);
}

/* A file of which nothing is cached. */
static int make_cold(const char *name)
{
	int fd = make_file(name, 1, HUGE + SMALL);

	MUST(fsync(fd));
	MUST(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED));
	return fd;
}

/* Parts of the kernel that look for a page by themselves leave none of their own here. */
BEHAVIOUR(pages_for_the_kernel)
{
	int fd = make_cold("f"), i;

	for (i = 0; i < 3; i++)
		EXPECT(swapon("f", 0), "swapon on a file here");
	read_pattern("after swapon", fd, 1, 0, HUGE + SMALL);
	/* In the cache it has what swapon looks for, or not. */
	EXPECT(swapon("f", 0), "swapon on a file here");
	write_pattern(fd, 2, 0, SMALL);
	MUST(fsync(fd));
	expect_lower("after swapon", "f", 2, 0, SMALL);
	close(fd);
}

BEHAVIOUR(build_id)
{
	unsigned char id[20], *map;
	struct map_query query = { .size = sizeof(query), .build_id_size = sizeof(id) };
	int fd = make_cold("f"), maps = open_file("/proc/self/maps", O_RDONLY), ret;

	map = map_file(fd, 0, HUGE, PROT_READ | PROT_EXEC, MAP_PRIVATE);
	query.address = (uintptr_t)map;
	query.build_id_at = (uintptr_t)id;
	ret = ioctl(maps, MAP_QUERY, &query);
	if (ret && errno == ENOTTY)
		skip("this kernel tells no build ids");
	EXPECT(ret || !query.build_id_size, "a file of no program has a build id");
	read_pattern("after its build id", fd, 1, 0, HUGE + SMALL);
	EXPECT(map[HUGE - 1] == pattern_byte(1, HUGE - 1), "the mapping is not what was written");
	MUST(munmap(map, HUGE));
	close(maps);
	close(fd);
}

int main(int argc, char **argv)
{
	int in, out;
	char c;

	if (argc == 2 && !strcmp(argv[1], "--answer"))
		return 42;
	if (argc == 3 && !strcmp(argv[1], "--wait")) {
		if (sscanf(argv[2], "%d,%d", &in, &out) != 2)
			return 2;
		return write(out, "x", 1) == 1 && read(in, &c, 1) == 1 ? 0 : 1;
	}
	return run_behaviours(argc, argv);
}
