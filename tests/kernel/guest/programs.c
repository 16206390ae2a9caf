// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Programs on the mount run, their files cannot be written while they run, and core dumps
 * contain mapped pages. Parts of the kernel that read pages of a file by themselves (swapon,
 * build ids) leave no page of their own in the mapping.
 *
 * vm: page=2M,4K,auto timeout=180
 */
#include "exec.h"

#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/swap.h>

/* struct procmap_query of Linux 6.11 */
struct map_query {
	uint64_t size, flags, address, start, end, vma_flags, page_size, offset, inode;
	uint32_t major, minor, name_size, build_id_size;
	uint64_t name_at, build_id_at;
};
#define MAP_QUERY _IOWR('f', 17, struct map_query)

BEHAVIOUR(programs_run)
{
	copy_self("program");
	expect_copy_runs("./program");
	sync();
	expect_copy_runs("./program");
	MUST(chmod("program", 0644));
	EXPECT_ERRNO(execl("./program", "program", NULL), EACCES);
}

static void exec_waiting_copy(void *arg)
{
	char *const argv[] = { "./program", "--wait", arg, NULL };

	execv("./program", argv);
	FAIL("execve: %s", strerror(errno));
}

BEHAVIOUR(running_program_cannot_be_written_and_open_one_cannot_run)
{
	struct turns turns;
	char fds[32];
	pid_t pid;
	int fd;

	copy_self("program");
	turns_init(&turns);
	snprintf(fds, sizeof(fds), "%d,%d", turns.to_child[0], turns.to_parent[1]);
	pid = start_child(exec_waiting_copy, fds);
	turn_take(turns.to_parent);
	fd = open("program", O_RDWR);
	EXPECT(fd < 0 && errno == ETXTBSY, "a running program was opened for writing: %s",
	       strerror(errno));
	EXPECT_ERRNO(truncate("program", 0), ETXTBSY);
	MUST(unlink("program"));
	turn_give(turns.to_child);
	wait_child(pid);
	/* A program that is open for writing cannot run. */
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
	/* By default, core dumps do not contain shared file mappings. */
	fd = open("/proc/self/coredump_filter", O_WRONLY);
	if (fd >= 0) {
		MUST(write(fd, "0xff", 4));
		close(fd);
	}
	pattern(map + HUGE, 2, HUGE, HUGE);
	raise(SIGQUIT);
}

/* The kernel reads the mapping, and writes the dump to the mount. */
BEHAVIOUR(core_dump_contains_mapped_pages)
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
	EXPECT(pwrite(fd, old, (size_t)n, 0) == n, "core_pattern cannot be restored");
	EXPECT(WIFSIGNALED(status), "the child ended with status %#x", status);
	if (!WCOREDUMP(status) || stat("core", &st))
		skip("this kernel wrote no core dump");
	fd = open_file("core", O_RDONLY);
	core = map_file(fd, 0, (size_t)st.st_size, PROT_READ, MAP_SHARED);
	want = buffer(SMALL);
	pattern(want, 1, 0, SMALL);
	EXPECT(memmem(core, (size_t)st.st_size, want, SMALL),
	       "the file's content is not in the core dump of %lld bytes", (long long)st.st_size);
	pattern(want, 2, HUGE + SMALL, SMALL);
	EXPECT(memmem(core, (size_t)st.st_size, want, SMALL),
	       "the stored bytes are not in the core dump of %lld bytes", (long long)st.st_size);
}

/* swapon reads the first page before it finds that the file cannot be a swap file. */
BEHAVIOUR(failed_swapon_leaves_no_page_behind)
{
	int fd = make_cold_file("f", 1, HUGE + SMALL), i;

	for (i = 0; i < 3; i++)
		EXPECT(swapon("f", 0), "swapon succeeded");
	read_pattern("read after swapon", fd, 1, 0, HUGE + SMALL);
	/* The first page is cached now. */
	EXPECT(swapon("f", 0), "swapon succeeded");
	write_pattern(fd, 2, 0, SMALL);
	MUST(fsync(fd));
	expect_lower("lower file after swapon", "f", 2, 0, SMALL);
	close(fd);
}

/* The kernel reads the first page of a mapped file to find a build id. */
BEHAVIOUR(query_of_a_build_id_leaves_no_page_behind)
{
	unsigned char id[20], *map;
	struct map_query query = { .size = sizeof(query), .build_id_size = sizeof(id) };
	int fd = make_cold_file("f", 1, HUGE + SMALL),
	    maps = open_file("/proc/self/maps", O_RDONLY), ret;

	map = map_file(fd, 0, HUGE, PROT_READ | PROT_EXEC, MAP_PRIVATE);
	query.address = (uintptr_t)map;
	query.build_id_at = (uintptr_t)id;
	ret = ioctl(maps, MAP_QUERY, &query);
	if (ret && errno == ENOTTY)
		skip("this kernel has no PROCMAP_QUERY");
	EXPECT(ret || !query.build_id_size, "a file that is no program has a build id");
	read_pattern("read after the query", fd, 1, 0, HUGE + SMALL);
	EXPECT(map[HUGE - 1] == pattern_byte(1, HUGE - 1), "the mapping has wrong content");
	MUST(munmap(map, HUGE));
	close(maps);
	close(fd);
}

int main(int argc, char **argv)
{
	int in, out;
	char c;

	if (is_copy(argc, argv))
		return ANSWER;
	if (argc == 3 && !strcmp(argv[1], "--wait")) {
		if (sscanf(argv[2], "%d,%d", &in, &out) != 2)
			return 2;
		return write(out, "x", 1) == 1 && read(in, &c, 1) == 1 ? 0 : 1;
	}
	return run_behaviours(argc, argv);
}
