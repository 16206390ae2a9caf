// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The lower file system is full, the quota is exhausted, or the file has its maximum size. A
 * store raises SIGBUS and a write fails at once, not a later sync; all data that was accepted
 * is kept. On a kernel without hugemap, a bind mount shows what the lower file system does.
 *
 * vm: name=ext4 args=ext4 lower=none page=2M,4K,auto programs=mkfs.ext4 timeout=300
 * vm: name=tmpfs args=tmpfs lower=none page=2M,4K,auto timeout=180 set=long
 * vm: name=quota args=quota lower=none page=2M,4K,auto programs=mkfs.ext4 modules=quota_v2
 * vm: name=blocks args=blocks lower=none page=2M,4K,auto programs=mkfs.ext4
 * vm: name=small_blocks args=small_blocks lower=none page=auto programs=mkfs.ext4 timeout=180
 */
#include "mounts.h"

#include <sys/quota.h>

#define ROOM (32ul << 20) /* the size of the lower file system */
#define SPARSE (64ul << 20)
#define QUOTA (8ul << 20)
#define BLOCK 1024ul /* of the lower file system, with small_blocks */
/* The maximum size of an ext4 file of 1 KB blocks without extents: 3 levels of 256 pointers. */
#define LONGEST ((12ull + 256 + 256 * 256 + 256 * 256 * 256) << 10)

static const char *kind; /* of lower file system: the argument of the program */

static void mount_small(void)
{
	bool quota = !strcmp(kind, "quota"), blocks = !strcmp(kind, "blocks");
	bool small_blocks = !strcmp(kind, "small_blocks");
	const char *dev;
	char options[64];

	make_mount_dirs();
	if (!strcmp(kind, "tmpfs")) {
		snprintf(options, sizeof(options), "size=%lu", ROOM);
		MUST(mount("tmpfs", source_dir, "tmpfs", 0, options));
	} else {
		dev = require_device();
		make_file_system("mkfs.ext4 -q -F -m 0 %s %s %s %luk", quota ? "-O quota" : "",
				 blocks	      ? "-b 1024 -O ^extent,^64bit" :
				 small_blocks ? "-b 1024" :
						"",
				 dev, (small_blocks ? ROOM / 4 : ROOM) >> 10);
		MUST(mount(dev, source_dir, "ext4", 0, quota ? "usrquota" : NULL));
	}
	mount_hugemap_or_bind(mount_options("64M"));
	MUST(chdir(mount_point));
	strcat(work_lower, "/source");
}

static void unmount_small(void)
{
	const char *dev = getenv("DEV");
	int fd = -1, tries;

	MUST(chdir(work_dir));
	MUST(umount(mount_point));
	MUST(umount(source_dir));
	if (!strcmp(kind, "tmpfs"))
		return;
	/* If no reference to the lower mount leaks, its device can be opened exclusively. */
	for (tries = 0; tries < 100 && fd < 0; tries++) {
		fd = open(dev, O_RDONLY | O_EXCL | O_CLOEXEC);
		if (fd < 0)
			usleep(20000);
	}
	EXPECT(fd >= 0, "the lower file system is unmounted, but still in use");
	close(fd);
}

BEHAVIOUR(full_fs_fails_the_write_and_keeps_what_was_accepted)
{
	unsigned char *buf;
	uint64_t size = 0;
	struct stat st;
	ssize_t n = 0;
	int fd;

	mount_small();
	fd = open_file("f", O_RDWR | O_CREAT);
	buf = buffer(100001);
	while (size < 2 * ROOM) {
		pattern(buf, 1, size, 100001);
		n = write(fd, buf, 100001);
		if (n < 0)
			break;
		size += (uint64_t)n;
	}
	EXPECT(n < 0 && errno == ENOSPC, "%llu bytes fitted into %lu: %s", (unsigned long long)size,
	       ROOM, strerror(errno));
	EXPECT(size > ROOM / 4, "ENOSPC after %llu bytes of %lu", (unsigned long long)size, ROOM);
	MUST(fstat(fd, &st));
	EXPECT((uint64_t)st.st_size == size, "the file has %lld bytes, %llu were accepted",
	       (long long)st.st_size, (unsigned long long)size);
	EXPECT(!fsync(fd), "fsync after a refused write: %s", strerror(errno));
	read_pattern("read of a file that filled the file system", fd, 1, 0, size);
	expect_lower("lower file", "f", 1, 0, size);
	/* When there is free space again, appends work again. */
	MUST(ftruncate(fd, (off_t)size / 2));
	MUST(lseek(fd, 0, SEEK_END));
	pattern(buf, 1, size / 2, 100001);
	EXPECT(write(fd, buf, 100001) == 100001, "write when there is free space again: %s",
	       strerror(errno));
	MUST(fsync(fd));
	expect_lower("lower file, with free space again", "f", 1, 0, size / 2 + 100001);
	close(fd);
	unmount_small();
}

/* A sparse file, with a page of data every @step bytes unless that is 0. */
static void make_sparse_file(uint64_t step, unsigned char *stored)
{
	unsigned char *buf = buffer(SMALL);
	uint64_t off;
	int fd;

	memset(stored, 0, SPARSE / SMALL);
	/* In the lower file system, so that the module has to look up its holes. */
	fd = open_file(path_in(source_dir, "f"), O_RDWR | O_CREAT);
	for (off = 0; step && off < SPARSE; off += step) {
		pattern(buf, 2, off, SMALL);
		MUST(pwrite(fd, buf, SMALL, (off_t)off));
		stored[off / SMALL] = 1;
	}
	/* The test extends it to its full size while it is open. */
	MUST(ftruncate(fd, SPARSE / 2 - 100));
	MUST(fsync(fd));
	close(fd);
	free(buf);
}

static void store_until_sigbus(uint64_t step)
{
	unsigned char *map, *stored, page[SMALL];
	uint64_t off, n = 0, again = 0;
	int fd, lower, ballast, sig = 0;

	mount_small();
	catch_signals();
	ballast = open_file("ballast", O_RDWR | O_CREAT);
	write_pattern(ballast, 9, 0, 8 << 20);
	MUST(fsync(ballast));
	close(ballast);
	stored = buffer(SPARSE / SMALL);
	make_sparse_file(step, stored);
	fd = open_file("f", O_RDWR);
	MUST(pread(fd, page, SMALL, SPARSE / 2 - SMALL));
	memset(stored + SPARSE / 2 / SMALL, 0, SPARSE / 2 / SMALL);
	MUST(ftruncate(fd, SPARSE));
	map = map_shared(fd, 0, SPARSE);
	/* Groups of eight pages, 37 groups apart, so that holes remain in between. */
	for (; n < SPARSE / SMALL; n++) {
		off = (n / 8 * 37 * 8 + n % 8) * SMALL % SPARSE;
		sig = signal_of_store(map + off);
		if (sig)
			break;
		pattern(map + off, 2, off, SMALL);
		stored[off / SMALL] = 1;
	}
	EXPECT(sig == SIGBUS, "stores of %lu bytes into a file system of %lu ended with signal %d",
	       SPARSE, ROOM, sig);
	/* Space may be reserved by the block: count the range over which the stores spread. */
	EXPECT(n * 37 * SMALL > ROOM / 4, "SIGBUS after only %llu pages", (unsigned long long)n);
	/* Space is reserved for each store that succeeded, so the sync succeeds. */
	EXPECT(!fsync(fd), "fsync after a refused store: %s", strerror(errno));
	lower = open_file(lower_path("f"), O_RDONLY);
	posix_fadvise(lower, 0, 0, POSIX_FADV_DONTNEED);
	for (off = 0; off < SPARSE; off += SMALL) {
		if (stored[off / SMALL]) {
			expect_pattern("load of a stored page", map + off, 2, off, SMALL);
			read_pattern("lower file", lower, 2, off, SMALL);
		} else {
			MUST(pread(fd, page, SMALL, (off_t)off));
			expect_zero("read of a hole", page, off, SMALL);
		}
	}
	close(lower);
	MUST(unlink("ballast"));
	sync();
	/* With free space again, stores to the same pages succeed. */
	for (off = 0; off < SPARSE && again < 16; off += SMALL) {
		if (stored[off / SMALL])
			continue;
		if (signal_of_store(map + off))
			continue;
		pattern(map + off, 2, off, SMALL);
		again++;
	}
	EXPECT(again == 16, "with 8 MB free, only %llu stores succeeded",
	       (unsigned long long)again);
	EXPECT(!msync(map, SPARSE, MS_SYNC), "msync: %s", strerror(errno));
	MUST(munmap(map, SPARSE));
	close(fd);
	unmount_small();
}

BEHAVIOUR(full_fs_raises_sigbus_for_stores_into_a_hole)
{
	store_until_sigbus(0);
}

/* A page of data in a block does not mean that the whole block is allocated. */
BEHAVIOUR(full_fs_raises_sigbus_for_stores_between_data)
{
	store_until_sigbus(256 << 10);
}

/* Appends to a file until the lower file system is full. */
static void fill_with(int ballast)
{
	unsigned char *buf = buffer(SMALL);

	pattern(buf, 9, 0, SMALL);
	while (write(ballast, buf, SMALL) > 0)
		;
	EXPECT(errno == ENOSPC, "the file system does not fill: %s", strerror(errno));
	MUST(fsync(ballast));
	free(buf);
}

static int fill_up(void)
{
	int ballast = open_file("ballast", O_RDWR | O_CREAT);

	fill_with(ballast);
	return ballast;
}

BEHAVIOUR(full_fs_allows_stores_to_allocated_pages)
{
	unsigned char *map;
	struct statfs fs;
	int fd, ballast;
	uint64_t off;

	mount_small();
	catch_signals();
	fd = make_file("f", 3, 8 << 20);
	MUST(fsync(fd));
	ballast = fill_up();
	map = map_shared(fd, 0, 8 << 20);
	for (off = 0; off < 8 << 20; off += SMALL) {
		EXPECT(!signal_of_store(map + off), "SIGBUS at %#llx, which is allocated",
		       (unsigned long long)off);
		pattern(map + off, 4, off, SMALL);
	}
	EXPECT(!msync(map, 8 << 20, MS_SYNC), "msync: %s", strerror(errno));
	expect_lower("lower file", "f", 4, 0, 8 << 20);
	write_pattern(fd, 5, 12345, 3 << 20);
	EXPECT(!fsync(fd), "fsync: %s", strerror(errno));
	expect_lower("lower file after a write", "f", 5, 12345, 3 << 20);
	MUST(ftruncate(fd, 16 << 20));
	MUST(munmap(map, 8 << 20));
	/* A load of a hole allocates nothing; on tmpfs itself it does. */
	if (statfs(".", &fs) || (fs.f_type != HUGEMAP_MAGIC && !strcmp(kind, "tmpfs")))
		return;
	map = map_file(fd, 0, 16 << 20, PROT_READ, MAP_SHARED);
	expect_zero("load of a hole", map + (8 << 20), 8 << 20, 8 << 20);
	MUST(munmap(map, 16 << 20));
	EXPECT(fallocate(fd, 0, 8 << 20, 8 << 20) < 0 && (errno == ENOSPC || errno == EOPNOTSUPP),
	       "fallocate in a full file system: %s", strerror(errno));
	close(fd);
	close(ballast);
	unmount_small();
}

/* Less than 2 MB are free. Loads in order have cached the holes in huge pages. */
BEHAVIOUR(full_fs_with_room_for_a_page_allows_a_store)
{
	const char *page = getenv("PAGE");
	unsigned char *map;
	struct stat st;
	int fd, ballast;
	uint64_t off;

	if (page && !strcmp(page, "2M"))
		return;
	mount_small();
	catch_signals();
	fd = open_file("f", O_RDWR | O_CREAT);
	MUST(ftruncate(fd, 8 << 20));
	ballast = fill_up();
	MUST(fstat(ballast, &st));
	MUST(ftruncate(ballast, st.st_size - (1 << 20)));
	MUST(fsync(ballast));
	map = map_shared(fd, 0, 8 << 20);
	expect_zero("load of a hole", map, 0, 8 << 20);
	for (off = 0; off < 8 << 20; off += HUGE) {
		EXPECT(!signal_of_store(map + off), "SIGBUS at %#llx, with 1 MB of room",
		       (unsigned long long)off);
		pattern(map + off, 7, off, SMALL);
	}
	EXPECT(!msync(map, 8 << 20, MS_SYNC), "msync: %s", strerror(errno));
	for (off = 0; off < 8 << 20; off += HUGE)
		expect_lower("lower file", "f", 7, off, SMALL);
	MUST(munmap(map, 8 << 20));
	/* The same for write(2). */
	MUST(ftruncate(fd, 0));
	MUST(ftruncate(fd, 8 << 20));
	map = map_shared(fd, 0, 8 << 20);
	expect_zero("load of a hole", map, 0, 8 << 20);
	for (off = 0; off < 8 << 20; off += HUGE)
		write_pattern(fd, 8, off, SMALL);
	MUST(fsync(fd));
	for (off = 0; off < 8 << 20; off += HUGE)
		expect_lower("lower file after write()", "f", 8, off, SMALL);
	MUST(munmap(map, 8 << 20));
	close(ballast);
	close(fd);
	unmount_small();
}

BEHAVIOUR(full_fs_allows_stores_to_preallocated_pages)
{
	unsigned char *map;
	int fd, ballast;
	uint64_t off;

	mount_small();
	catch_signals();
	fd = open_file("f", O_RDWR | O_CREAT);
	MUST(fallocate(fd, 0, 0, 8 << 20));
	MUST(fsync(fd));
	ballast = fill_up();
	map = map_shared(fd, 0, 8 << 20);
	/* Every 16th page first, which splits the unwritten extent. */
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
	expect_lower("lower file", "f", 6, 0, 8 << 20);
	/* Extents that were merged may have freed a block of the lower file system. */
	fill_with(ballast);
	/* Pages that were not preallocated have no space. */
	MUST(ftruncate(fd, 12 << 20));
	MUST(munmap(map, 8 << 20));
	map = map_shared(fd, 0, 12 << 20);
	expect_sigbus_of_store(map + (8 << 20) + HUGE, "behind the preallocated pages");
	MUST(munmap(map, 12 << 20));
	close(ballast);
	close(fd);
	unmount_small();
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
	EXPECT(off < ROOM && off >= QUOTA / 4, "with a quota of %lu bytes, %llu could be stored",
	       QUOTA, (unsigned long long)off);
	EXPECT(!msync(map, ROOM, MS_SYNC), "msync: %s", strerror(errno));
	MUST(munmap(map, ROOM));
	close(fd);
}

/* Space that is reserved ahead of a sequential writer is charged to the writer as well. */
BEHAVIOUR(quota_of_bytes_limits_the_space_reserved_for_stores)
{
	struct dqblk quota = { .dqb_bhardlimit = QUOTA >> 10, .dqb_valid = QIF_BLIMITS };
	const char *dev = getenv("DEV");

	mount_small();
	catch_signals();
	MUST(chmod(".", 0777));
	if (quotactl(QCMD(Q_SETQUOTA, USRQUOTA), dev, 1000, (char *)&quota))
		skip("quotactl: %s", strerror(errno));
	in_child(store_in_order, NULL);
	sync();
	MUST(quotactl(QCMD(Q_GETQUOTA, USRQUOTA), dev, 1000, (char *)&quota));
	EXPECT(quota.dqb_curspace <= QUOTA, "%llu bytes are used, with a quota of %lu",
	       (unsigned long long)quota.dqb_curspace, QUOTA);
	MUST(unlink("f"));
	unmount_small();
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

BEHAVIOUR(quota_of_files_limits_o_tmpfile)
{
	struct dqblk quota = { .dqb_ihardlimit = 3, .dqb_valid = QIF_ILIMITS };

	mount_small();
	MUST(chmod(".", 0777));
	if (quotactl(QCMD(Q_SETQUOTA, USRQUOTA), getenv("DEV"), 1000, (char *)&quota))
		skip("quotactl: %s", strerror(errno));
	in_child(make_nameless, NULL);
	unmount_small();
}

/* A write across the maximum size is short, one beyond it fails, and the rest is untouched. */
static void check_longest(const char *how, int fd, uint64_t seed)
{
	uint64_t from = LONGEST - 4 * SMALL;
	unsigned char *buf = buffer(16 * SMALL);
	struct stat st;
	ssize_t n;

	pattern(buf, seed, from, 16 * SMALL);
	n = pwrite(fd, buf, 16 * SMALL, (off_t)from);
	EXPECT(n == (ssize_t)(4 * SMALL), "%s: a write across the maximum size returned %zd: %s",
	       how, n, n < 0 ? strerror(errno) : "not short");
	expect_pattern(how, buf, seed, from, 16 * SMALL);
	EXPECT_ERRNO(pwrite(fd, buf, SMALL, (off_t)LONGEST), EFBIG);
	MUST(fstat(fd, &st));
	EXPECT((uint64_t)st.st_size == LONGEST, "%s: the file has %lld bytes", how,
	       (long long)st.st_size);
	EXPECT(!fsync(fd), "%s: fsync: %s", how, strerror(errno));
	read_pattern(how, fd, seed, from, 4 * SMALL);
	expect_lower(how, "f", seed, from, 4 * SMALL);
	free(buf);
}

BEHAVIOUR(longest_file_takes_no_write_beyond_the_maximum_size)
{
	int fd;

	mount_small();
	fd = open_file("f", O_RDWR | O_CREAT | O_DIRECT);
	EXPECT_ERRNO(ftruncate(fd, (off_t)LONGEST + 1), EFBIG);
	check_longest("direct I/O", fd, 1);
	MUST(ftruncate(fd, 0));
	close(fd);
	/* Through the cache, too, the write itself fails, not only a later sync. */
	fd = open_file("f", O_RDWR);
	check_longest("buffered I/O", fd, 2);
	close(fd);
	unmount_small();
}

/*
 * The lower file system has blocks of 1 KB. A punch frees three blocks of each page, and the page
 * keeps its data in the other one.
 */
BEHAVIOUR(part_of_a_page_that_is_punched_gets_blocks_before_a_store)
{
	const uint64_t size = 512 << 10;
	unsigned char *map, stored[512 / 4] = { 0 };
	uint64_t off, refused = 0;
	int fd, ballast;

	mount_small();
	catch_signals();
	fd = make_file("f", 3, size);
	MUST(fsync(fd));
	map = map_shared(fd, 0, size);
	expect_pattern("load", map, 3, 0, size);
	for (off = 0; off < size; off += SMALL)
		MUST(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)off + BLOCK,
			       SMALL - BLOCK));
	ballast = fill_up();
	for (off = 0; off < size; off += SMALL) {
		expect_pattern("load beside a punch", map + off, 3, off, BLOCK);
		expect_zero("load of a punched part", map + off + BLOCK, off + BLOCK,
			    SMALL - BLOCK);
		stored[off / SMALL] = !signal_of_store(map + off + BLOCK);
		if (stored[off / SMALL])
			pattern(map + off + BLOCK, 4, off + BLOCK, SMALL - BLOCK);
		else
			refused++;
	}
	EXPECT(refused, "a full file system had space for %llu bytes", (unsigned long long)size);
	EXPECT(!fsync(fd), "fsync after %llu refused stores: %s", (unsigned long long)refused,
	       strerror(errno));
	for (off = 0; off < size; off += SMALL) {
		expect_lower("lower file", "f", 3, off, BLOCK);
		if (stored[off / SMALL])
			expect_lower("stored part", "f", 4, off + BLOCK, SMALL - BLOCK);
	}
	MUST(munmap(map, size));
	close(ballast);
	close(fd);
	unmount_small();
}

/*
 * Each file has a page with one block of 1 KB, and grows to the whole page. The files are made in
 * the lower file system, because a write(2) here would allocate the whole page.
 */
BEHAVIOUR(part_of_a_page_behind_the_old_end_gets_blocks_before_a_store)
{
	int fd, ballast, refused[2] = { 0 };
	unsigned char *map, data[BLOCK];
	char name[8];
	uint32_t i;

	mount_small();
	catch_signals();
	for (i = 0; i < 96; i++) {
		snprintf(name, sizeof(name), "f%u", i);
		close(make_file(path_in(source_dir, name), 3, BLOCK));
	}
	sync();
	ballast = fill_up();
	for (i = 0; i < 96; i++) {
		snprintf(name, sizeof(name), "f%u", i);
		fd = open_file(name, O_RDWR);
		map = map_shared(fd, 0, SMALL);
		pattern(map, 4, 0, BLOCK);
		pattern(data, 4, 3 * BLOCK, BLOCK);
		if (i % 2) {
			MUST(ftruncate(fd, SMALL));
			refused[1] += signal_of_store(map + 3 * BLOCK) == SIGBUS;
		} else {
			refused[0] += pwrite(fd, data, BLOCK, 3 * BLOCK) < 0;
		}
		EXPECT(!fsync(fd), "fsync of file %u: %s", i, strerror(errno));
		expect_pattern("load", map, 4, 0, BLOCK);
		MUST(munmap(map, SMALL));
		expect_lower("lower file", name, 4, 0, BLOCK);
		close(fd);
	}
	EXPECT(refused[0] && refused[1], "%d writes and %d stores were refused", refused[0],
	       refused[1]);
	close(ballast);
	unmount_small();
}

int main(int argc, char **argv)
{
	char *group[2] = { argv[0], "full_*" };

	kind = argc > 1 ? argv[1] : "ext4";
	if (!strcmp(kind, "quota"))
		group[1] = "quota_*";
	else if (!strcmp(kind, "blocks"))
		group[1] = "longest_*";
	else if (!strcmp(kind, "small_blocks"))
		group[1] = "part_*";
	return run_behaviours(2, group);
}
