// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * No room below. Whoever stores or writes is told at once, by SIGBUS or ENOSPC, not
 * at some later sync; what was accepted before is kept. On a kernel without hugemap
 * the file system itself is shown, by a bind mount.
 *
 * vm: name=ext4 args=ext4 lower=none page=2M,4K,auto programs=mkfs.ext4 timeout=180
 * vm: name=tmpfs args=tmpfs lower=none page=2M,4K,auto timeout=180
 * vm: name=quota args=quota lower=none page=2M,4K,auto programs=mkfs.ext4 modules=quota_v2
 * vm: name=blocks args=blocks lower=none page=2M,4K,auto programs=mkfs.ext4
 */
#include "mounts.h"

#include <sys/quota.h>

#define ROOM (48ul << 20) /* of the file system below */
#define SPARSE (128ul << 20)
#define QUOTA (8ul << 20) /* of another user */
/* A file without extents, of blocks of 1 KB: so many lie under three levels of 256. */
#define LONGEST ((12ull + 256 + 256 * 256 + 256 * 256 * 256) << 10)

static const char *kind;

static void start(void)
{
	const char *page = getenv("PAGE"), *dev = getenv("DEV");
	bool quota = !strcmp(kind, "quota"), blocks = !strcmp(kind, "blocks");
	char command[1400], options[64];

	make_mount_dirs();
	if (!strcmp(kind, "tmpfs")) {
		snprintf(options, sizeof(options), "size=%lu", ROOM);
		MUST(mount("tmpfs", source_dir, "tmpfs", 0, options));
	} else {
		if (!dev)
			skip("DEV is not set");
		snprintf(command, sizeof(command),
			 "mkfs.ext4 -q -F -m 0 %s %s %s %luk >/dev/null 2>&1",
			 quota ? "-O quota" : "", blocks ? "-b 1024 -O ^extent,^64bit" : "", dev,
			 ROOM >> 10);
		if (system(command))
			skip("mkfs.ext4 does not work");
		MUST(mount(dev, source_dir, "ext4", 0, quota ? "usrquota" : NULL));
	}
	snprintf(options, sizeof(options), "pool=64M,page=%s", page ? page : "2M");
	if (mount(source_dir, mount_point, "hugemap", 0, options)) {
		EXPECT(errno == ENODEV, "mount -t hugemap -o %s: %s", options, strerror(errno));
		MUST(mount(source_dir, mount_point, NULL, MS_BIND, NULL));
	}
	MUST(chdir(mount_point));
	strcat(work_lower, "/low");
}

static void end(void)
{
	const char *dev = getenv("DEV");
	int fd = -1, tries;

	MUST(chdir(work_dir));
	MUST(umount(mount_point));
	MUST(umount(source_dir));
	if (!strcmp(kind, "tmpfs"))
		return;
	/* Nobody holds on to a file or the mount below: its device is free. */
	for (tries = 0; tries < 100 && fd < 0; tries++) {
		fd = open(dev, O_RDONLY | O_EXCL | O_CLOEXEC);
		if (fd < 0)
			usleep(20000);
	}
	EXPECT(fd >= 0, "both are unmounted, but the file system below is still in use");
	close(fd);
}

BEHAVIOUR(write_until_full)
{
	unsigned char *buf;
	uint64_t size = 0;
	struct stat st;
	ssize_t n = 0;
	int fd;

	start();
	fd = open_file("f", O_RDWR | O_CREAT);
	buf = buffer(100001);
	while (size < 2 * ROOM) {
		pattern(buf, 1, size, 100001);
		n = write(fd, buf, 100001);
		if (n < 0)
			break;
		size += (uint64_t)n;
	}
	EXPECT(n < 0 && errno == ENOSPC, "%llu bytes fit into %lu: %s", (unsigned long long)size,
	       ROOM, strerror(errno));
	EXPECT(size > ROOM / 4, "ENOSPC after %llu bytes of %lu", (unsigned long long)size, ROOM);
	MUST(fstat(fd, &st));
	EXPECT((uint64_t)st.st_size == size, "the file has %lld bytes, %llu were accepted",
	       (long long)st.st_size, (unsigned long long)size);
	EXPECT(!fsync(fd), "fsync after a refused write: %s", strerror(errno));
	read_pattern("read of a file that filled the room", fd, 1, 0, size);
	expect_lower("below", "f", 1, 0, size);
	/* Room again: it goes on from there. */
	MUST(ftruncate(fd, (off_t)size / 2));
	MUST(lseek(fd, 0, SEEK_END));
	pattern(buf, 1, size / 2, 100001);
	EXPECT(write(fd, buf, 100001) == 100001, "write when there is room again: %s",
	       strerror(errno));
	MUST(fsync(fd));
	expect_lower("below, with room again", "f", 1, 0, size / 2 + 100001);
	close(fd);
	end();
}

/* A file of holes, with a page of data every @step bytes if that is not 0. */
static void make_holes(uint64_t step, unsigned char *stored)
{
	unsigned char *buf = buffer(SMALL);
	char path[700];
	uint64_t off;
	int fd;

	memset(stored, 0, SPARSE / SMALL);
	/* Made below, so that what is known of it has to be found out. */
	snprintf(path, sizeof(path), "%s/f", source_dir);
	fd = open_file(path, O_RDWR | O_CREAT);
	for (off = 0; step && off < SPARSE; off += step) {
		pattern(buf, 2, off, SMALL);
		MUST(pwrite(fd, buf, SMALL, (off_t)off));
		stored[off / SMALL] = 1;
	}
	/* Half of it comes when it is open. */
	MUST(ftruncate(fd, SPARSE / 2 - 100));
	MUST(fsync(fd));
	close(fd);
	free(buf);
}

static void store_into_holes(uint64_t step)
{
	unsigned char *map, *stored, page[SMALL];
	uint64_t off, n = 0, again = 0;
	int fd, ballast, sig = 0;

	start();
	catch_signals();
	ballast = open_file("ballast", O_RDWR | O_CREAT);
	write_pattern(ballast, 9, 0, 8 << 20);
	MUST(fsync(ballast));
	close(ballast);
	stored = buffer(SPARSE / SMALL);
	make_holes(step, stored);
	fd = open_file("f", O_RDWR);
	MUST(pread(fd, page, SMALL, SPARSE / 2 - SMALL));
	memset(stored + SPARSE / 2 / SMALL, 0, SPARSE / 2 / SMALL);
	MUST(ftruncate(fd, SPARSE));
	map = map_shared(fd, 0, SPARSE);
	/* Eight pages here, eight there, so that holes are left between. */
	for (; n < SPARSE / SMALL; n++) {
		off = (n / 8 * 37 * 8 + n % 8) * SMALL % SPARSE;
		sig = signal_of_store(map + off);
		if (sig)
			break;
		pattern(map + off, 2, off, SMALL);
		stored[off / SMALL] = 1;
	}
	EXPECT(sig == SIGBUS, "stores of %lu bytes into room of %lu ended with signal %d", SPARSE,
	       ROOM, sig);
	/* Room may be taken by the block: count what the stores are spread over. */
	EXPECT(n * 37 * SMALL > ROOM / 4, "SIGBUS after %llu pages already", (unsigned long long)n);
	/* What was accepted has its room: the sync has nothing to complain of. */
	EXPECT(!fsync(fd), "fsync after a refused store: %s", strerror(errno));
	for (off = 0; off < SPARSE; off += SMALL) {
		if (stored[off / SMALL]) {
			expect_pattern("load of what was stored", map + off, 2, off, SMALL);
			expect_lower("below", "f", 2, off, SMALL);
		} else {
			MUST(pread(fd, page, SMALL, (off_t)off));
			expect_zero("read of what was not stored", page, off, SMALL);
		}
	}
	MUST(unlink("ballast"));
	sync();
	/* The same page again, once there is room: not a mapping that is dead for good. */
	for (off = 0; off < SPARSE && again < 16; off += SMALL) {
		if (stored[off / SMALL])
			continue;
		if (signal_of_store(map + off))
			continue;
		pattern(map + off, 2, off, SMALL);
		again++;
	}
	EXPECT(again == 16, "with 8 MB free, only %llu stores worked", (unsigned long long)again);
	EXPECT(!msync(map, SPARSE, MS_SYNC), "msync: %s", strerror(errno));
	MUST(munmap(map, SPARSE));
	close(fd);
	end();
}

BEHAVIOUR(store_until_full)
{
	store_into_holes(0);
}

/* A block that holds data is not one that has room. */
BEHAVIOUR(store_between_data)
{
	store_into_holes(256 << 10);
}

/* A file takes all the room that is left. */
static int fill_up(void)
{
	int ballast = open_file("ballast", O_RDWR | O_CREAT);
	unsigned char *buf = buffer(SMALL);

	pattern(buf, 9, 0, SMALL);
	while (write(ballast, buf, SMALL) > 0)
		;
	EXPECT(errno == ENOSPC, "the file system does not fill: %s", strerror(errno));
	MUST(fsync(ballast));
	free(buf);
	return ballast;
}

/* What has room already can be stored to in a full file system. */
BEHAVIOUR(rewrite_when_full)
{
	unsigned char *map;
	struct statfs fs;
	int fd, ballast;
	uint64_t off;

	start();
	catch_signals();
	fd = make_file("f", 3, 8 << 20);
	MUST(fsync(fd));
	ballast = fill_up();
	map = map_shared(fd, 0, 8 << 20);
	for (off = 0; off < 8 << 20; off += SMALL) {
		EXPECT(!signal_of_store(map + off), "SIGBUS at %#llx, where there is data already",
		       (unsigned long long)off);
		pattern(map + off, 4, off, SMALL);
	}
	EXPECT(!msync(map, 8 << 20, MS_SYNC), "msync: %s", strerror(errno));
	expect_lower("below", "f", 4, 0, 8 << 20);
	write_pattern(fd, 5, 12345, 3 << 20);
	EXPECT(!fsync(fd), "fsync: %s", strerror(errno));
	expect_lower("below, written", "f", 5, 12345, 3 << 20);
	MUST(ftruncate(fd, 16 << 20));
	MUST(munmap(map, 8 << 20));
	/* A loaded hole in a full file system is zeros; tmpfs itself takes room for it. */
	if (statfs(".", &fs) || (fs.f_type != HUGEMAP_MAGIC && !strcmp(kind, "tmpfs")))
		return;
	map = map_file(fd, 0, 16 << 20, PROT_READ, MAP_SHARED);
	expect_zero("load of a hole", map + (8 << 20), 8 << 20, 8 << 20);
	MUST(munmap(map, 16 << 20));
	EXPECT(fallocate(fd, 0, 8 << 20, 8 << 20) < 0 && (errno == ENOSPC || errno == EOPNOTSUPP),
	       "fallocate in a full file system: %s", strerror(errno));
	close(fd);
	close(ballast);
	end();
}

/* Room that was taken in advance is there when there is no other. */
BEHAVIOUR(preallocated_when_full)
{
	unsigned char *map;
	int fd, ballast;
	uint64_t off;

	start();
	catch_signals();
	fd = open_file("f", O_RDWR | O_CREAT);
	MUST(fallocate(fd, 0, 0, 8 << 20));
	MUST(fsync(fd));
	ballast = fill_up();
	map = map_shared(fd, 0, 8 << 20);
	/* Here and there first, so that it is split. */
	for (off = 0; off < 4 << 20; off += 16 * SMALL) {
		EXPECT(!signal_of_store(map + off), "SIGBUS at %#llx, which was preallocated",
		       (unsigned long long)off);
		pattern(map + off, 6, off, SMALL);
	}
	EXPECT(!msync(map, 8 << 20, MS_SYNC), "msync: %s", strerror(errno));
	for (off = 0; off < 4 << 20; off += SMALL) {
		EXPECT(!signal_of_store(map + off), "SIGBUS at %#llx, which was preallocated",
		       (unsigned long long)off);
		pattern(map + off, 6, off, SMALL);
	}
	write_pattern(fd, 6, 4 << 20, 4 << 20);
	EXPECT(!fsync(fd), "fsync: %s", strerror(errno));
	expect_lower("below", "f", 6, 0, 8 << 20);
	/* Where nothing was, there is no room. */
	MUST(ftruncate(fd, 12 << 20));
	MUST(munmap(map, 8 << 20));
	map = map_shared(fd, 0, 12 << 20);
	expect_sigbus_of_store(map + (8 << 20) + HUGE, "behind what was preallocated");
	MUST(munmap(map, 12 << 20));
	close(ballast);
	close(fd);
	end();
}

static void store_in_order(void *arg)
{
	unsigned char *map;
	uint64_t off;
	int fd;

	(void)arg;
	become_user(1000, 1000);
	fd = open_file("f", O_RDWR | O_CREAT);
	MUST(ftruncate(fd, ROOM));
	map = map_shared(fd, 0, ROOM);
	for (off = 0; off < ROOM && !signal_of_store(map + off); off += SMALL)
		;
	EXPECT(off < ROOM && off >= QUOTA / 4, "of a quota of %lu bytes, %llu could be stored",
	       QUOTA, (unsigned long long)off);
	EXPECT(!msync(map, ROOM, MS_SYNC), "msync: %s", strerror(errno));
	MUST(munmap(map, ROOM));
	close(fd);
}

/* What is made ready ahead of a writer is the writer's, too. */
BEHAVIOUR(store_over_quota)
{
	struct dqblk quota = { .dqb_bhardlimit = QUOTA >> 10, .dqb_valid = QIF_BLIMITS };
	const char *dev = getenv("DEV");

	start();
	catch_signals();
	MUST(chmod(".", 0777));
	if (quotactl(QCMD(Q_SETQUOTA, USRQUOTA), dev, 1000, (char *)&quota))
		skip("no quota here: %s", strerror(errno));
	in_child(store_in_order, NULL);
	sync();
	MUST(quotactl(QCMD(Q_GETQUOTA, USRQUOTA), dev, 1000, (char *)&quota));
	EXPECT(quota.dqb_curspace <= QUOTA, "%llu bytes are used, with a quota of %lu",
	       (unsigned long long)quota.dqb_curspace, QUOTA);
	MUST(unlink("f"));
	end();
}

static void make_nameless(void *arg)
{
	unsigned int i;

	(void)arg;
	become_user(1000, 1000);
	for (i = 0; i < 5; i++)
		if (open(".", O_TMPFILE | O_RDWR, 0600) < 0)
			break;
	EXPECT(i < 5 && errno == EDQUOT, "%u files with a quota of 3, then %s", i, strerror(errno));
}

/* Files without a name are files, too. */
BEHAVIOUR(files_over_quota)
{
	struct dqblk quota = { .dqb_ihardlimit = 3, .dqb_valid = QIF_ILIMITS };

	start();
	MUST(chmod(".", 0777));
	if (quotactl(QCMD(Q_SETQUOTA, USRQUOTA), getenv("DEV"), 1000, (char *)&quota))
		skip("no quota here: %s", strerror(errno));
	in_child(make_nameless, NULL);
	end();
}

/* Up to where the file system below can have it, and no byte more. */
static void check_longest(const char *how, int fd, uint64_t seed)
{
	uint64_t from = LONGEST - 4 * SMALL;
	unsigned char *buf = buffer(16 * SMALL);
	struct stat st;
	ssize_t n;

	/* Beside it something else, which is not to be touched. */
	pattern(buf, seed, from, 16 * SMALL);
	n = pwrite(fd, buf, 16 * SMALL, (off_t)from);
	EXPECT(n == (ssize_t)(4 * SMALL), "%s: a write beyond the longest file gave %zd: %s", how,
	       n, n < 0 ? strerror(errno) : "not short");
	expect_pattern(how, buf, seed, from, 16 * SMALL);
	EXPECT_ERRNO(pwrite(fd, buf, SMALL, (off_t)LONGEST), EFBIG);
	MUST(fstat(fd, &st));
	EXPECT((uint64_t)st.st_size == LONGEST, "%s: %lld bytes", how, (long long)st.st_size);
	EXPECT(!fsync(fd), "%s: fsync: %s", how, strerror(errno));
	read_pattern(how, fd, seed, from, 4 * SMALL);
	expect_lower(how, "f", seed, from, 4 * SMALL);
	free(buf);
}

BEHAVIOUR(write_longest)
{
	int fd;

	start();
	fd = open_file("f", O_RDWR | O_CREAT | O_DIRECT);
	EXPECT_ERRNO(ftruncate(fd, (off_t)LONGEST + 1), EFBIG);
	check_longest("direct", fd, 1);
	MUST(ftruncate(fd, 0));
	close(fd);
	/* Cached: whoever writes is told, and not only a later sync. */
	fd = open_file("f", O_RDWR);
	check_longest("cached", fd, 2);
	close(fd);
	end();
}

int main(int argc, char **argv)
{
	kind = "ext4";
	if (argc > 1) {
		kind = argv[1];
		argc--;
		argv++;
	}
	if (!strcmp(kind, "quota"))
		return run_behaviours(argc, argv);
	if (!strcmp(kind, "blocks"))
		return run_behaviours(argc, argv);
	return run_behaviours(argc, argv);
}
