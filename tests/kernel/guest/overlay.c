// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * An overlayfs with its lower layers on the mount, as container engines and any user with a
 * user namespace make them: it opens our inodes by files that have its own path.
 *
 * vm: page=2M,4K,auto lower=ext4 modules=overlay timeout=120
 */
#include "common.h"

static void make_overlay(void)
{
	MUST(mkdir("one", 0755));
	MUST(mkdir("two", 0755));
	MUST(mkdir("merged", 0755));
	close(make_file("one/f", 1, HUGE + 5000));
	close(make_file("two/g", 2, 3 * SMALL));
	if (mount("overlay", "merged", "overlay", 0, "lowerdir=one:two"))
		skip("no overlay: %s", strerror(errno));
}

BEHAVIOUR(layers_are_read)
{
	int fd, other;

	make_overlay();
	fd = open_file("merged/f", O_RDONLY);
	other = open_file("merged/g", O_RDONLY);
	read_pattern("read(2) through an overlay", fd, 1, 0, HUGE + 5000);
	read_pattern("of the second layer", other, 2, 0, 3 * SMALL);
	close(fd);
	close(other);
	MUST(umount("merged"));
}

BEHAVIOUR(layers_are_mapped)
{
	unsigned char *map, *own;
	int fd;

	make_overlay();
	fd = open_file("merged/f", O_RDONLY);
	map = map_file(fd, 0, HUGE + 5000, PROT_READ, MAP_SHARED);
	expect_pattern("a mapping through an overlay", map, 1, 0, HUGE + 5000);
	own = map_file(fd, 0, SMALL, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	pattern(own, 3, 0, SMALL);
	expect_pattern("beside a private copy", map, 1, 0, SMALL);
	/* Not cached: read from below by what the overlay has opened. */
	drop_from_cache(fd, map, HUGE + 5000);
	expect_pattern("read again", map, 1, 0, HUGE + 5000);
	MUST(munmap(map, HUGE + 5000));
	MUST(munmap(own, SMALL));
	close(fd);
	MUST(umount("merged"));
}

static void run_program(void *arg)
{
	char *const argv[] = { arg, "--answer", NULL };

	execv(arg, argv);
	FAIL("execve of %s: %s", (char *)arg, strerror(errno));
}

BEHAVIOUR(programs_run)
{
	int in, out, status;
	static char buf[1 << 16];
	ssize_t n;
	pid_t pid;

	MUST(mkdir("one", 0755));
	MUST(mkdir("two", 0755));
	MUST(mkdir("merged", 0755));
	in = open_file("/proc/self/exe", O_RDONLY);
	out = open_file("one/program", O_WRONLY | O_CREAT);
	while ((n = read(in, buf, sizeof(buf))) > 0)
		EXPECT(write(out, buf, (size_t)n) == n, "write: %s", strerror(errno));
	MUST(fchmod(out, 0755));
	close(in);
	close(out);
	if (mount("overlay", "merged", "overlay", 0, "lowerdir=one:two"))
		skip("no overlay: %s", strerror(errno));
	pid = start_child(run_program, "merged/program");
	MUST(waitpid(pid, &status, 0));
	EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 42,
	       "a program of a layer ended with status %#x, expected exit(42)", status);
	MUST(umount("merged"));
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "--answer"))
		return 42;
	return run_behaviours(argc, argv);
}
