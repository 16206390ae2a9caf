// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Mappings without a pool: plain ones of the kernel's, which steer/ looks after. The
 * addresses lie to the file as huge pages need it. Nothing of what mmap(2) promises is
 * different; this list only knows which ranges are ours, to answer calls for them.
 */
#include "linux.h"
#include "reason.h"
#include "steered.h"
#include "store.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "page.h"
#include "steer.h"

/* The file system of hugemap.ko; see kernel/hugemap.h. */
#define HUGEMAP_SUPER_MAGIC 0x48554745u

struct steered {
	char *start, *end;
	dev_t dev; /* of a block device: rdev */
	ino_t ino;
	bool writable, private;
	bool kernel_engine; /* on a mount of the kernel module */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct steered *list; /* sorted by address */
static size_t used, room;

/* The first one that ends above an address. The lock is held. */
static size_t lower_bound(const char *addr)
{
	size_t low = 0, high = used;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (list[mid].end <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static struct steered *find(const char *addr)
{
	size_t i = lower_bound(addr);

	return i < used && list[i].start <= addr ? &list[i] : NULL;
}

/* Room for two more, so that what follows cannot fail. */
static int make_room(void)
{
	size_t more = room ? room * 2 : 16;
	struct steered *larger;

	if (used + 2 <= room)
		return 0;
	larger = realloc(list, more * sizeof(*list));
	if (!larger)
		return -ENOMEM;
	list = larger;
	room = more;
	return 0;
}

static void insert(const struct steered *map)
{
	size_t i = lower_bound(map->start);

	memmove(&list[i + 1], &list[i], (used - i) * sizeof(*list));
	list[i] = *map;
	used++;
}

static void erase(size_t i)
{
	used--;
	memmove(&list[i], &list[i + 1], (used - i) * sizeof(*list));
}

/* Take [start, end) out of an entry, which may leave a part on either side. */
static void cut(size_t i, char *start, char *end)
{
	struct steered rest = list[i];

	if (start == list[i].start && end == list[i].end) {
		erase(i);
	} else if (start == list[i].start) {
		list[i].start = end;
	} else {
		list[i].end = start;
		rest.start = end;
		if (rest.start < rest.end)
			insert(&rest);
	}
}

/* Who unmaps with munmap(2) does not tell: what lies there now is not what was. */
static void forget(char *start, char *end)
{
	size_t i;

	for (i = lower_bound(start); i < used && list[i].start < end; i = lower_bound(start))
		cut(i, start > list[i].start ? start : list[i].start,
		    end < list[i].end ? end : list[i].end);
}

/**
 * steered_forget() - a pool has mapped something in this range
 *
 * Return: 0 or -ENOMEM.
 */
int steered_forget(char *start, char *end)
{
	int err;

	pthread_mutex_lock(&lock);
	err = make_room();
	if (!err)
		forget(start, end);
	pthread_mutex_unlock(&lock);
	return err;
}

static void configure(void)
{
	steer_configure(&(struct steer_settings){ 0 });
}

static bool we_steer(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	if (hugemap_run_version)
		return false;
	pthread_once(&once, configure);
	return true;
}

bool steered_covers(const void *addr)
{
	bool covers;

	pthread_mutex_lock(&lock);
	covers = find(addr);
	pthread_mutex_unlock(&lock);
	return covers;
}

/* Is a file mapped there still? If it cannot be told, it is. */
static bool still_there(const struct steered *map)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	unsigned long from, to, ino;
	bool there = !maps;
	char line[512];

	while (maps && !there && fgets(line, sizeof(line), maps))
		there = sscanf(line, "%lx-%lx %*s %*s %*s %lu", &from, &to, &ino) == 3 && ino &&
			from < (uintptr_t)map->end && to > (uintptr_t)map->start;
	if (maps)
		fclose(maps);
	return there;
}

/**
 * steered_conflicts() - would a pool's mapping of a file and those here disagree?
 * @writable: the file may be written through the pool
 */
bool steered_conflicts(dev_t dev, ino_t ino, bool writable)
{
	bool conflicts = false;
	size_t i;

	pthread_mutex_lock(&lock);
	for (i = 0; i < used && !conflicts; i++)
		conflicts = list[i].dev == dev && list[i].ino == ino &&
			    (writable || (list[i].writable && !list[i].private)) &&
			    still_there(&list[i]);
	pthread_mutex_unlock(&lock);
	return conflicts;
}

/* Addresses that lie to the file as the offset does, modulo 2 MB; or NULL. */
static char *aligned_place(off_t offset, size_t bytes)
{
	uintptr_t mask = HM_BLOCK_SIZE - 1;
	char *at = mmap(NULL, bytes + HM_BLOCK_SIZE, PROT_NONE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	size_t skip;

	if (at == MAP_FAILED)
		return NULL;
	skip = ((uintptr_t)offset - (uintptr_t)at) & mask;
	if (skip)
		munmap(at, skip);
	munmap(at + skip + bytes, HM_BLOCK_SIZE - skip);
	return at + skip;
}

static int map_and_insert(struct steered *map, int fd, off_t offset, int prot, int flags)
{
	size_t bytes = (size_t)(map->end - map->start);
	int err;

	pthread_mutex_lock(&lock);
	err = make_room();
	if (!err && mmap(map->start, bytes, prot, flags | MAP_FIXED, fd, offset) == MAP_FAILED)
		err = -errno;
	if (!err) {
		forget(map->start, map->end);
		insert(map);
	}
	pthread_mutex_unlock(&lock);
	return err;
}

/**
 * steered_map() - map with the kernel's mmap
 *
 * The arguments have been checked. Return: the address, or a negative errno as a
 * pointer.
 */
void *steered_map(int fd, off_t offset, size_t length, int prot, int flags)
{
	size_t bytes = (length + HM_PAGE_SIZE - 1) & ~(size_t)(HM_PAGE_SIZE - 1);
	int kind = flags & HUGEMAP_PRIVATE ? MAP_PRIVATE : MAP_SHARED;
	struct steered map = {
		.writable = prot & PROT_WRITE,
		.private = flags & HUGEMAP_PRIVATE,
	};
	struct store *store;
	struct statfs fs;
	bool found;
	int err;

	err = file_identify(fd, &map.dev, &map.ino);
	if (err)
		return (void *)(intptr_t)fail(err, "the file descriptor is not open");
	map.kernel_engine = !fstatfs(fd, &fs) && (u32)fs.f_type == HUGEMAP_SUPER_MAGIC;
	map.start = aligned_place(offset, bytes);
	if (!map.start)
		return (void *)(intptr_t)fail(-ENOMEM,
					      "no address space is left for a mapping of "
					      "%zu MB",
					      bytes >> 20);
	map.end = map.start + bytes;
	err = map_and_insert(&map, fd, offset, prot, kind);
	if (err) {
		munmap(map.start, bytes);
		return (void *)(intptr_t)fail(err, "mmap: %s", strerror(-err));
	}
	/* Looked up after we can be seen: of two at a time, one sees the other. */
	store = store_find(map.dev, map.ino);
	if (store) {
		bool clash = store->writable || (map.writable && !map.private);

		/* Perhaps the last reference: nobody else tells what cannot be written. */
		err = store_put(store);
		if (err || clash)
			steered_unmap(map.start, map.end, &found);
		if (err)
			return (void *)(intptr_t)fail(err, "writing to the file failed (%s)",
						      strerror(-err));
		if (clash)
			return (void *)(intptr_t)fail(-EBUSY, "the file is mapped through a pool "
							      "of this process, which alone "
							      "knows what is in it");
	}
	if (!map.kernel_engine && we_steer())
		steer_mapped(map.start, bytes, prot, kind, fd, offset);
	return map.start;
}

/**
 * steered_unmap() - unmap what is mapped here in a range
 * @found: set if there was anything
 */
int steered_unmap(char *start, char *end, bool *found)
{
	int err = 0;
	size_t i;

	/* It may wait for its thread to let go of the file: not with the lock held. */
	if (we_steer())
		steer_unmapping(start, (size_t)(end - start));
	pthread_mutex_lock(&lock);
	while (!err) {
		char *from, *to;

		i = lower_bound(start);
		if (i == used || list[i].start >= end)
			break;
		err = make_room();
		from = start > list[i].start ? start : list[i].start;
		to = end < list[i].end ? end : list[i].end;
		*found = true;
		if (!err && munmap(from, (size_t)(to - from)) < 0)
			err = -errno;
		if (!err)
			cut(i, from, to);
	}
	pthread_mutex_unlock(&lock);
	return err;
}

/* The preload library, if it is there, sees the call, and does what steer_remap() does. */
static char *remap(char *start, size_t old_bytes, size_t new_bytes, int flags, char *place)
{
	char *at;

	if (!hugemap_run_version)
		return steer_remap(start, old_bytes, new_bytes, flags, place);
	at = mremap(start, old_bytes, new_bytes, flags, place);
	return at == MAP_FAILED ? (char *)(intptr_t)-errno : at;
}

/*
 * mremap() keeps an address if it can, and the alignment to the file if not. Returns a
 * negative errno as a pointer if neither can be.
 */
static char *move(char *start, size_t old_bytes, size_t new_bytes)
{
	char *place, *at = remap(start, old_bytes, new_bytes, 0, NULL);

	if (!hugemap_error(at))
		return at;
	place = aligned_place((off_t)((uintptr_t)start & (HM_BLOCK_SIZE - 1)), new_bytes);
	if (!place)
		return (char *)(intptr_t)-ENOMEM;
	at = remap(start, old_bytes, new_bytes, MREMAP_MAYMOVE | MREMAP_FIXED, place);
	if (hugemap_error(at))
		munmap(place, new_bytes);
	return at;
}

/**
 * steered_remap() - make a mapping longer or shorter
 *
 * Return: as hugemap_remap().
 */
void *steered_remap(char *start, char *end, size_t new_length)
{
	size_t bytes = (new_length + HM_PAGE_SIZE - 1) & ~(size_t)(HM_PAGE_SIZE - 1);
	size_t old_bytes = (size_t)(end - start), i;
	struct steered map;
	char *at = start;
	int err = 0;

	pthread_mutex_lock(&lock);
	err = make_room();
	i = lower_bound(start);
	if (err) {
		err = fail(err, "too little memory is left");
	} else if (i == used || list[i].start != start || list[i].end != end) {
		err = fail(-EINVAL, "the range is not one mapping");
	} else {
		at = move(start, old_bytes, bytes);
		err = hugemap_error(at);
		if (err)
			fail(err, "mremap: %s", strerror(-err));
	}
	if (!err) {
		map = list[i];
		map.start = at;
		map.end = at + bytes;
		erase(i);
		forget(map.start, map.end);
		insert(&map);
	}
	pthread_mutex_unlock(&lock);
	if (err)
		return (void *)(intptr_t)err;
	if (!map.kernel_engine && we_steer())
		steer_moved(start, old_bytes, at, bytes);
	return at;
}

int steered_sync(char *start, char *end, int flags)
{
	if (!msync(start, (size_t)(end - start), flags))
		return 0;
	return fail(errno == ENOMEM ? -EINVAL : -errno, "msync: %s", strerror(errno));
}

int steered_advise(char *start, char *end, enum hugemap_advice advice)
{
	static const int advices[] = {
		[HUGEMAP_ADVICE_NORMAL] = MADV_NORMAL,
		[HUGEMAP_ADVICE_SEQUENTIAL] = MADV_SEQUENTIAL,
		[HUGEMAP_ADVICE_RANDOM] = MADV_RANDOM,
		[HUGEMAP_ADVICE_WILLNEED] = MADV_WILLNEED,
		/* Not MADV_DONTNEED: a private mapping would lose its stores. */
		[HUGEMAP_ADVICE_DONTNEED] = MADV_PAGEOUT,
	};

	if (advice >= HUGEMAP_ADVICE_PRIORITY_HIGH)
		return 0; /* the kernel knows no priorities */
	if (madvise(start, (size_t)(end - start), advices[advice]) < 0)
		return fail(errno == ENOMEM ? -EINVAL : -errno, "madvise: %s", strerror(errno));
	if (we_steer())
		steer_hint(start, (size_t)(end - start), advices[advice]);
	return 0;
}

/* What is known of the mapping at an address, to be used without the lock. 0 or -EINVAL. */
static int copy_of(const void *at, struct steered *map)
{
	struct steered *found;

	pthread_mutex_lock(&lock);
	found = find(at);
	if (found)
		*map = *found;
	pthread_mutex_unlock(&lock);
	return found ? 0 : fail(-EINVAL, "the range is not mapped by this library");
}

/* --- prefetch --------------------------------------------------------------------- */

/* Linux before 5.14: the kernel reads a byte of each page, and takes errors as results. */
static int read_each_page(char *start, char *end)
{
	char bytes[64];
	struct iovec pages[sizeof(bytes)], to = { .iov_base = bytes };
	ssize_t n;

	madvise(start, (size_t)(end - start), MADV_WILLNEED);
	while (start < end) {
		for (to.iov_len = 0; start < end && to.iov_len < sizeof(bytes);
		     start += HM_PAGE_SIZE)
			pages[to.iov_len++] = (struct iovec){ start, 1 };
		n = process_vm_readv(getpid(), &to, 1, pages, to.iov_len, 0);
		if (n != (ssize_t)to.iov_len)
			return n < 0 ? -errno : -EFAULT;
	}
	return 0;
}

static int populate(char *start, char *end)
{
	if (start >= end || !madvise(start, (size_t)(end - start), MADV_POPULATE_READ))
		return 0;
	return errno == EINVAL ? read_each_page(start, end) : -errno;
}

/*
 * Where the file ends, as an address: pages from there on cannot be had. @end if it goes on, or
 * nobody knows, as the file has no name any more.
 */
static char *end_of_file(const struct steered *map, char *at, char *end)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	unsigned long from, to, offset, size;
	char line[PATH_MAX + 128];
	struct stat st;
	int name;

	while (maps && fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%lx-%lx %*s %lx %*s %*s %n", &from, &to, &offset, &name) < 3 ||
		    from > (uintptr_t)at || to <= (uintptr_t)at)
			continue;
		line[strcspn(line, "\n")] = '\0';
		if (stat(line + name, &st) || !S_ISREG(st.st_mode) || st.st_dev != map->dev ||
		    st.st_ino != map->ino)
			break;
		size = ((unsigned long)st.st_size + HM_PAGE_SIZE - 1) & ~(HM_PAGE_SIZE - 1ul);
		size = size > offset ? size - offset : 0;
		if (size < (uintptr_t)end - from)
			end = (char *)from + size;
		break;
	}
	if (maps)
		fclose(maps);
	return end;
}

/* The part of a range in one mapping. */
static int prefetch(const struct steered *map, char *start, char *end)
{
	int err = populate(start, end);
	char *last = err == -EFAULT ? end_of_file(map, start, end) : end;

	return last < end ? populate(start, last) : err;
}

int steered_prefetch(char *start, char *end)
{
	struct steered map;
	int err = 0;
	char *to;

	for (; start < end && !err; start = to) {
		err = copy_of(start, &map);
		if (err)
			return err;
		to = end < map.end ? end : map.end;
		err = prefetch(&map, start, to);
	}
	return err ? fail(err == -ENOMEM ? -EINVAL : -EIO, "a part of the range cannot be read") :
		     0;
}

/* --- numbers ---------------------------------------------------------------------- */

/* What smaps tells of the areas in a range; kB. */
struct seen {
	unsigned long rss, dirty, huge;
};

static void look(const char *start, const char *end, struct seen *seen)
{
	static const struct {
		const char *title;
		size_t field;
	} lines[] = {
		{ "Rss:", offsetof(struct seen, rss) },
		{ "Shared_Dirty:", offsetof(struct seen, dirty) },
		{ "Private_Dirty:", offsetof(struct seen, dirty) },
		{ "AnonHugePages:", offsetof(struct seen, huge) },
		{ "ShmemPmdMapped:", offsetof(struct seen, huge) },
		{ "FilePmdMapped:", offsetof(struct seen, huge) },
	};
	FILE *smaps = fopen("/proc/self/smaps", "re");
	unsigned long from, to, kb;
	bool inside = false;
	char line[512];
	size_t i;

	while (smaps && fgets(line, sizeof(line), smaps)) {
		if (sscanf(line, "%lx-%lx ", &from, &to) == 2) {
			inside = from < (uintptr_t)end && to > (uintptr_t)start;
			continue;
		}
		for (i = 0; inside && i < sizeof(lines) / sizeof(lines[0]); i++) {
			size_t n = strlen(lines[i].title);

			if (!strncmp(line, lines[i].title, n) && sscanf(line + n, "%lu", &kb) == 1)
				*(unsigned long *)((char *)seen + lines[i].field) += kb;
		}
	}
	if (smaps)
		fclose(smaps);
}

/* What was decided for it last, in words. */
static void tell_why(const char *start, struct hugemap_stat *stat)
{
	const struct steer_page *page = steer_page();
	size_t i;

	for (i = 0; page && i < STEER_PAGE_MAPS; i++)
		if (page->maps[i].id && !page->maps[i].ended &&
		    page->maps[i].start == (uintptr_t)start)
			snprintf(stat->reason, sizeof(stat->reason), "%.*s",
				 (int)sizeof(page->maps[i].why), page->maps[i].why);
}

int steered_stat(const void *addr, struct hugemap_stat *stat)
{
	struct seen seen = { 0 };
	struct steered map;
	int err = copy_of(addr, &map);

	if (err)
		return err;
	stat->engine = map.kernel_engine ? HUGEMAP_ENGINE_KERNEL : HUGEMAP_ENGINE_STEER;
	look(map.start, map.end, &seen);
	stat->mapped_bytes = (u64)(map.end - map.start);
	stat->resident_bytes = (u64)seen.rss << 10;
	stat->dirty_bytes = (u64)seen.dirty << 10;
	stat->huge_pages = seen.huge >> (HM_BLOCK_SHIFT - 10);
	stat->base_pages = (seen.rss - seen.huge) >> (HM_PAGE_SHIFT - 10);
	if (hugemap_run_version)
		snprintf(stat->reason, sizeof(stat->reason), "hugemap run steers it");
	else if (!map.kernel_engine)
		tell_why(map.start, stat);
	return 0;
}

/* --- fork --------------------------------------------------------------------------- */

void steered_lock(void)
{
	pthread_mutex_lock(&lock);
}

void steered_unlock(void)
{
	pthread_mutex_unlock(&lock);
}
