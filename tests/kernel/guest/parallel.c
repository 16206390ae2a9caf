// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Direct writes of one file run in parallel, and stop no misses of its other pages. The file has
 * not been cached since the mount. The device below does not answer, and the test looks in the
 * stacks of the tasks which function each task waits in.
 *
 * vm: lower=none page=2M,4K,auto modules=dm_mod programs=mkfs.ext4 timeout=120
 */
#include "dm.h"
#include "mounts.h"

#define NAME "parallel"
#define ROOM (64ull << 20)
#define BYTES (16 * SMALL)
#define TIMEOUT_S 30u

static char file[1200];

/* Overwrite the start of a block. */
static void write_directly(void *arg)
{
	const unsigned int *block = arg;
	int fd = open_file(file, O_RDWR | O_DIRECT);
	unsigned char *buf = memset(buffer(BYTES), 'a' + (int)*block, BYTES);

	EXPECT(pwrite(fd, buf, BYTES, (off_t)(*block * HUGE)) == BYTES, "direct write: %s",
	       strerror(errno));
	close(fd);
}

static void load_hole(void *map)
{
	EXPECT(!*(volatile unsigned char *)map, "a hole has data");
}

/* Return true if a process comes to wait within a function of the kernel. */
static bool waits_within(pid_t pid, const char *function)
{
	char path[64], stack[4096] = "";
	unsigned int tries;
	FILE *from;

	snprintf(path, sizeof(path), "/proc/%d/stack", (int)pid);
	for (tries = 0; tries < TIMEOUT_S * 10; tries++) {
		from = fopen(path, "r");
		if (!from)
			skip("%s: %s", path, strerror(errno));
		memset(stack, 0, sizeof(stack));
		EXPECT(fread(stack, 1, sizeof(stack) - 1, from) || feof(from), "%s", path);
		fclose(from);
		if (strstr(stack, function))
			return true;
		usleep(100000);
	}
	printf("%s", stack);
	return false;
}

BEHAVIOUR(direct_writes_run_beside_each_other_and_a_miss)
{
	struct dm_line line = dm_linear(0, ROOM / SECTOR, require_device(), 0);
	unsigned int block[2] = { 0, 1 }, i;
	bool parallel[2], served;
	const char *dm;
	unsigned char *map, buf[SMALL];
	pid_t pids[2], loader;
	int fd, status = 0;

	make_mount_dirs();
	dm = dm_create(NAME, &line, 1);
	make_file_system("mkfs.ext4 -q -F %s", dm);
	/* No commit of the journal may wait for the device meanwhile. */
	MUST(mount(dm, source_dir, "ext4", MS_NOATIME, "commit=300"));
	mount_hugemap_or_bind(mount_options("16M"));
	snprintf(file, sizeof(file), "%s/f", mount_point);
	fd = open_file(file, O_RDWR | O_CREAT);
	for (i = 0; i < 2 * HUGE / SMALL; i++)
		MUST(pwrite(fd, memset(buf, 'x', SMALL), SMALL, (off_t)(i * SMALL)));
	/* The third range is a hole, so that its miss needs no answer of the device. */
	MUST(ftruncate(fd, (off_t)(4 * HUGE)));
	MUST(fsync(fd));
	close(fd);
	/* Nothing of the file has been cached in a new mount. */
	MUST(umount(mount_point));
	mount_hugemap_or_bind(mount_options("16M"));
	fd = open_file(file, O_RDWR);
	for (i = 0; i < 2; i++)
		write_directly(&block[i]);
	MUST(fsync(fd));
	sync();
	map = map_file(fd, 2 * HUGE, HUGE, PROT_READ, MAP_SHARED);

	dm_suspend(NAME, true);
	for (i = 0; i < 2; i++)
		pids[i] = start_child(write_directly, &block[i]);
	for (i = 0; i < 2; i++)
		parallel[i] = waits_within(pids[i], "iomap_dio_rw");
	loader = start_child(load_hole, map);
	served = child_ends_within(TIMEOUT_S, loader, &status);
	dm_suspend(NAME, false);
	for (i = 0; i < 2; i++)
		wait_child(pids[i]);
	EXPECT(served, "the miss waits for direct writes of other pages");
	EXPECT(!status, "the load ended with status %#x", status);
	EXPECT(parallel[0] && parallel[1], "the direct writes of a file wait for each other");
	for (i = 0; i < 2; i++) {
		MUST(pread(fd, buf, SMALL, (off_t)(i * HUGE + BYTES - SMALL)));
		EXPECT(buf[0] == 'a' + (int)i && buf[SMALL - 1] == 'a' + (int)i,
		       "direct write %u is lost", i);
	}
	MUST(munmap(map, HUGE));
	close(fd);
	MUST(umount(mount_point));
	MUST(umount(source_dir));
	dm_remove(NAME);
}

RUN_BEHAVIOURS
