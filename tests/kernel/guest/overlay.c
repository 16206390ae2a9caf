// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * An overlayfs whose lower layers are on the mount, as container engines and users with a
 * user namespace create them. It opens inodes of the mount by files that have its own path.
 *
 * vm: page=2M,4K,auto lower=ext4 modules=overlay timeout=120
 */
#include "exec.h"

static void make_layers(void)
{
	MUST(mkdir("one", 0755));
	MUST(mkdir("two", 0755));
	MUST(mkdir("merged", 0755));
}

static void mount_overlay(void)
{
	if (mount("overlay", "merged", "overlay", 0, "lowerdir=one:two"))
		skip("no overlayfs: %s", strerror(errno));
}

BEHAVIOUR(read_returns_the_content_of_the_layers)
{
	int fd, other;

	make_layers();
	close(make_file("one/f", 1, HUGE + 5000));
	close(make_file("two/g", 2, 3 * SMALL));
	mount_overlay();
	fd = open_file("merged/f", O_RDONLY);
	other = open_file("merged/g", O_RDONLY);
	read_pattern("read through an overlay", fd, 1, 0, HUGE + 5000);
	read_pattern("read of the second layer", other, 2, 0, 3 * SMALL);
	close(fd);
	close(other);
	MUST(umount("merged"));
}

BEHAVIOUR(mappings_show_the_content_of_the_layers)
{
	unsigned char *map, *own;
	int fd;

	make_layers();
	close(make_file("one/f", 1, HUGE + 5000));
	mount_overlay();
	fd = open_file("merged/f", O_RDONLY);
	map = map_file(fd, 0, HUGE + 5000, PROT_READ, MAP_SHARED);
	expect_pattern("load through an overlay", map, 1, 0, HUGE + 5000);
	own = map_file(fd, 0, SMALL, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	pattern(own, 3, 0, SMALL);
	expect_pattern("load beside a private copy", map, 1, 0, SMALL);
	/* The next loads fill the cache through the file that the overlay has opened. */
	drop_from_cache(fd, map, HUGE + 5000);
	expect_pattern("load of pages that were not cached", map, 1, 0, HUGE + 5000);
	MUST(munmap(map, HUGE + 5000));
	MUST(munmap(own, SMALL));
	close(fd);
	MUST(umount("merged"));
}

BEHAVIOUR(programs_of_the_layers_run)
{
	make_layers();
	copy_self("one/program");
	mount_overlay();
	expect_copy_runs("merged/program");
	MUST(umount("merged"));
}

int main(int argc, char **argv)
{
	return is_copy(argc, argv) ? ANSWER : run_behaviours(argc, argv);
}
