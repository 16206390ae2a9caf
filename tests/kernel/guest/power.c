// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Data survives a power cut after a sync has returned. dm-log-writes records, in order, each
 * write that reached the device before a flush. The workload puts a mark into the log after
 * each sync. The log is then replayed up to each mark, which gives the content of a device
 * that lost its power there; all synced data must be present. The test finds a sync that does
 * not flush the device's cache, or that returns before its writes have completed.
 *
 * vm: name=device args=device lower=none page=2M,4K,auto modules=dm_mod,dm_log_writes timeout=240
 * vm: args=ext4 lower=none page=2M,4K,auto modules=dm_log_writes,loop programs=mkfs.ext4
 */
#include "dm.h"
#include "mounts.h"

#define LOOP "/dev/loop7"
#define NAME "hugemap-power"
#define ROOM (64ull << 20)
#define SIZE (6 * HUGE + 5000) /* of the file */
#define PAGES ((SIZE + SMALL - 1) / SMALL)
#define MARKS 12u

/* The format of dm-log-writes; all numbers are little-endian. */
#define LOG_MAGIC 0x6a736677736872ull
#define LOG_FLUSH 1
#define LOG_FUA 2
#define LOG_DISCARD 4
#define LOG_MARK 8

struct log_super {
	uint64_t magic, version, entries;
	uint32_t sectorsize;
};

struct log_entry {
	uint64_t sector, sectors, flags, data_len;
};

static bool over_ext4; /* else hugemap is mounted on the device itself */
static const char *dev, *dm;
static char file[1200];

/* The generation of the last content of each page, now and at each mark. */
static uint32_t now[PAGES], at_mark[MARKS][PAGES];
static uint64_t size_at_mark[MARKS];

static void set_up(void)
{
	struct dm_line line = { 0, ROOM / SECTOR, "log-writes", "" };
	uint64_t size;

	dev = require_device();
	size = device_size(dev);
	make_mount_dirs();
	/* The data, followed by the log. */
	snprintf(line.params, sizeof(line.params), "%s %s",
		 dm_create(NAME "-data", (struct dm_line[]){ dm_linear(0, ROOM / SECTOR, dev, 0) },
			   1),
		 dm_create(NAME "-log",
			   (struct dm_line[]){
				   dm_linear(0, (size - ROOM) / SECTOR, dev, ROOM / SECTOR) },
			   1));
	dm = dm_create(NAME, &line, 1);
	if (over_ext4) {
		/* The log contains mkfs, so that a replay starts from an empty image. */
		make_file_system("mkfs.ext4 -q -F -E nodiscard,lazy_itable_init=0 %s", dm);
		MUST(mount(dm, source_dir, "ext4", 0, NULL));
		mount_hugemap_or_bind(mount_options("16M"));
		snprintf(file, sizeof(file), "%s/f", mount_point);
	} else {
		require_hugemap();
		MUST(mount(dm, mount_point, "hugemap", 0, mount_options("16M")));
		snprintf(file, sizeof(file), "%s", device_file());
	}
}

static void content(unsigned char *buf, uint64_t page, uint32_t generation)
{
	if (generation)
		pattern(buf, generation, page * SMALL, SMALL);
	else
		memset(buf, 0, SMALL);
}

static size_t page_len(uint64_t page, uint64_t size)
{
	return size - page * SMALL < SMALL ? size - page * SMALL : SMALL;
}

static void run_workload(void)
{
	int fd = open_file(file, O_RDWR | O_CREAT);
	uint64_t size = SIZE, random = 12345;
	unsigned char *map, buf[SMALL];
	uint32_t generation = 1;
	unsigned int mark, i;
	char text[32];

	if (over_ext4) {
		size = 2 * HUGE + 777;
		MUST(ftruncate(fd, (off_t)size));
	} else {
		/* The old content of the device is not in the log. */
		for (i = 0; i < PAGES; i++) {
			content(buf, i, 0);
			MUST(pwrite(fd, buf, SMALL, (off_t)(i * SMALL)));
		}
	}
	map = map_shared(fd, 0, SIZE);
	for (mark = 0; mark < MARKS; mark++) {
		unsigned int stores = 200 + mark % 3 * 200;

		if (mark == MARKS / 2 && size < SIZE) {
			size = SIZE;
			MUST(ftruncate(fd, (off_t)size));
		}
		for (i = 0; i < stores; i++) {
			uint64_t page;

			random = random * 6364136223846793005ull + 1442695040888963407ull;
			/* Sequential, in a hot range of 64 pages, or random. */
			page = i % 3 == 0 ? (mark * 977 + i) :
			       i % 3 == 1 ? (random >> 33) % 64 :
					    random >> 33;
			page %= (size + SMALL - 1) / SMALL;
			generation++;
			content(buf, page, generation);
			if (i % 5)
				memcpy(map + page * SMALL, buf, page_len(page, size));
			else
				MUST(pwrite(fd, buf, page_len(page, size), (off_t)(page * SMALL)));
			now[page] = generation;
		}
		switch (mark % 4) {
		case 0:
			MUST(fsync(fd));
			break;
		case 1:
			MUST(msync(map, SIZE, MS_SYNC));
			break;
		case 2:
			MUST(fdatasync(fd));
			break;
		case 3:
			MUST(syncfs(fd));
			break;
		}
		snprintf(text, sizeof(text), "mark m%u", mark);
		dm_message(NAME, text);
		memcpy(at_mark[mark], now, sizeof(now));
		size_at_mark[mark] = size;
	}
	MUST(munmap(map, SIZE));
	close(fd);
	MUST(umount(mount_point));
	if (over_ext4)
		MUST(umount(source_dir));
	/* The removal of the device completes the log. */
	dm_remove(NAME);
}

struct replay {
	int log, out;
	uint64_t at, entries, done;
	uint32_t sectorsize;
};

static void replay_open(struct replay *r, const char *out)
{
	struct log_super super;
	unsigned char *buf = buffer(SMALL);

	r->log = open_file(dev, O_RDONLY);
	r->out = open_file(out, O_RDWR | O_CREAT | O_TRUNC);
	MUST(ftruncate(r->out, ROOM));
	EXPECT(pread(r->log, buf, SMALL, ROOM) == SMALL, "read of the log: %s", strerror(errno));
	memcpy(&super, buf, sizeof(super));
	EXPECT(super.magic == LOG_MAGIC && super.version == 1,
	       "the device contains no log: magic %#llx version %llu",
	       (unsigned long long)super.magic, (unsigned long long)super.version);
	r->sectorsize = super.sectorsize;
	r->entries = super.entries;
	r->at = ROOM + r->sectorsize;
	r->done = 0;
	free(buf);
}

/* Replays one entry. @name: the name of a mark, or "". Returns false at the end of the log. */
static bool replay_step(struct replay *r, uint64_t *flags, char *name, size_t name_size)
{
	unsigned char *buf = buffer(r->sectorsize), *data;
	struct log_entry entry;
	uint64_t len;

	if (r->done == r->entries)
		return false;
	EXPECT(pread(r->log, buf, r->sectorsize, (off_t)r->at) == (ssize_t)r->sectorsize,
	       "read of the log at %llu: %s", (unsigned long long)r->at, strerror(errno));
	memcpy(&entry, buf, sizeof(entry));
	r->at += r->sectorsize;
	r->done++;
	*flags = entry.flags;
	name[0] = 0;
	if (entry.flags & LOG_MARK)
		snprintf(name, name_size, "%.*s", (int)entry.data_len, buf + sizeof(entry));
	free(buf);
	if (entry.flags & LOG_DISCARD || !entry.sectors)
		return true;
	len = entry.sectors * r->sectorsize;
	EXPECT(len <= 64 << 20, "an entry of the log has %llu bytes", (unsigned long long)len);
	data = buffer(len);
	EXPECT(pread(r->log, data, len, (off_t)r->at) == (ssize_t)len, "read of the log: %s",
	       strerror(errno));
	EXPECT(pwrite(r->out, data, len, (off_t)(entry.sector * r->sectorsize)) == (ssize_t)len,
	       "write of the replay: %s", strerror(errno));
	r->at += len;
	free(data);
	return true;
}

static void check_page(const char *when, unsigned int mark, const unsigned char *buf, uint64_t page,
		       size_t len)
{
	unsigned char want[SMALL];

	content(want, page, at_mark[mark][page]);
	EXPECT(!memcmp(buf, want, len),
	       "%s %u, page %llu does not have the synced content (generation %u)", when, mark,
	       (unsigned long long)page, at_mark[mark][page]);
}

/*
 * @all: at a mark, all pages have the content of the mark. !@all: a power cut may also come at
 * a flush after the mark. Pages without a store since the mark still have its content then.
 */
static void check_device(struct replay *r, int mark, bool all)
{
	unsigned char buf[SMALL];
	uint64_t page;

	for (page = 0; page < PAGES; page++) {
		if (!all &&
		    (mark + 1 == (int)MARKS || at_mark[mark][page] != at_mark[mark + 1][page]))
			continue;
		MUST(pread(r->out, buf, SMALL, (off_t)(page * SMALL)));
		check_page(all ? "at mark" : "at a flush after mark", (unsigned int)mark, buf, page,
			   page_len(page, SIZE));
	}
}

static void check_file(const char *image, unsigned int mark)
{
	uint64_t page, size = size_at_mark[mark];
	unsigned char buf[SMALL];
	char command[1500], path[1200];
	struct stat st;
	int fd;

	/*
	 * The mount replays the journal, as after a power cut. It is not done by mount -o loop:
	 * some kernels refuse to mount a device that is open for writing.
	 */
	snprintf(command, sizeof(command), "losetup " LOOP " %s && mount -t ext4 " LOOP " %s",
		 image, source_dir);
	EXPECT(!system(command), "the file system of mark %u cannot be mounted", mark);
	snprintf(path, sizeof(path), "%s/f", source_dir);
	fd = open_file(path, O_RDONLY);
	MUST(fstat(fd, &st));
	EXPECT((uint64_t)st.st_size == size, "at mark %u the file has %lld bytes, expected %llu",
	       mark, (long long)st.st_size, (unsigned long long)size);
	for (page = 0; page < (size + SMALL - 1) / SMALL; page++) {
		MUST(pread(fd, buf, SMALL, (off_t)(page * SMALL)));
		check_page("at mark", mark, buf, page, page_len(page, size));
	}
	close(fd);
	MUST(umount(source_dir));
	EXPECT(!system("losetup -d " LOOP), LOOP " cannot be detached");
}

static void replay(void)
{
	uint64_t flags, flushes = 0, entries = 0;
	char name[64], image[600], copy[600];
	int mark = -1, wanted;
	struct replay r;

	snprintf(image, sizeof(image), "%s/image", work_dir);
	snprintf(copy, sizeof(copy), "%s/copy", work_dir);
	replay_open(&r, image);
	while (replay_step(&r, &flags, name, sizeof(name))) {
		entries++;
		flushes += !!(flags & LOG_FLUSH);
		if (sscanf(name, "m%d", &wanted) == 1) {
			EXPECT(wanted == ++mark, "mark %d comes after mark %d", wanted, mark - 1);
			if (over_ext4) {
				/* Recovery writes to the image, so it gets a copy. */
				char command[1300];

				MUST(fsync(r.out));
				snprintf(command, sizeof(command), "cp %s %s", image, copy);
				EXPECT(!system(command), "the image cannot be copied");
				check_file(copy, (unsigned int)mark);
			} else {
				check_device(&r, mark, true);
			}
		} else if (flags & (LOG_FLUSH | LOG_FUA) && mark >= 0 && !over_ext4) {
			check_device(&r, mark, false);
		}
	}
	EXPECT(mark == (int)MARKS - 1, "the log ends after mark %d, expected %u", mark, MARKS - 1);
	printf("  (%llu entries, %llu flushes)\n", (unsigned long long)entries,
	       (unsigned long long)flushes);
}

BEHAVIOUR(synced_data_survives_a_power_cut)
{
	set_up();
	run_workload();
	replay();
}

int main(int argc, char **argv)
{
	int result;

	over_ext4 = argc > 1 && !strcmp(argv[1], "ext4");
	result = run_behaviours(1, argv);
	if (!access("/dev/mapper/control", R_OK)) {
		dm_remove(NAME);
		dm_remove(NAME "-data");
		dm_remove(NAME "-log");
	}
	return result;
}
