// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * hugemap doctor: what steering the page cache finds here, by trying: calls of the
 * kernel, and huge folios on the file systems that matter.
 */
#include "call.h"
#include "cache.h"
#include "doctor.h"
#include "look.h"
#include "uapi.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define TRIAL_BYTES (2 * (size_t)HM_BLOCK_SIZE)

/* --- calls --- */

static bool try_scan(void)
{
	static uint64_t buffer[LOOK_BYTES / 8];
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	struct looker looker = {};

	if (fd < 0)
		return false;
	looker_open(&looker, fd, buffer);
	close(fd);
	return looker.scan;
}

static bool try_cachestat(void)
{
	struct steer_cachestat_range range = { .len = HM_PAGE_SIZE };
	struct steer_cachestat stat;
	/* Of files of others it is refused. */
	int fd = memfd_create("trial", MFD_CLOEXEC);
	bool works = fd >= 0 && call(SYS_cachestat, fd, (long)&range, (long)&stat, 0, 0, 0) >= 0;

	if (fd >= 0)
		close(fd);
	return works;
}

static bool try_process_madvise(void)
{
	static char nothing;
	struct iovec vec = { .iov_base = &nothing };
	int fd = (int)call(SYS_pidfd_open, getpid(), 0, 0, 0, 0, 0);
	bool works = fd >= 0 &&
		     call(SYS_process_madvise, fd, (long)&vec, 1, MADV_WILLNEED, 0, 0) >= 0;

	if (fd >= 0)
		close(fd);
	return works;
}

/* Memory in which a 2 MB page has room for sure; NULL if there is none. */
static char *take_aligned(size_t bytes, void **at, size_t *length)
{
	*length = bytes + HM_BLOCK_SIZE;
	*at = mmap(NULL, *length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (*at == MAP_FAILED)
		return NULL;
	return (char *)(((uintptr_t)*at + HM_BLOCK_SIZE - 1) / HM_BLOCK_SIZE * HM_BLOCK_SIZE);
}

static bool try_populate(void)
{
	size_t length;
	void *at;
	char *block = take_aligned(HM_BLOCK_SIZE, &at, &length);
	bool works = block && madvise(block, HM_PAGE_SIZE, MADV_POPULATE_READ) == 0;

	if (block)
		munmap(at, length);
	return works;
}

void check_steering(const struct patient *patient, struct finding *finding)
{
	bool scan = try_scan(), cachestat = try_cachestat(), madvise_other = try_process_madvise();
	bool populate = try_populate(), pagemap = !access("/proc/self/pagemap", R_OK);
	char missing[128] = "";

	finding->details = json_pack("{s:b, s:b, s:b, s:b, s:b}", "pagemap", pagemap,
				     "pagemap_scan", scan, "cachestat", cachestat,
				     "process_madvise", madvise_other, "populate_read", populate);
	if (!pagemap) {
		found(finding, WEAK,
		      "/proc/self/pagemap cannot be read: nobody can see what a program touches, so "
		      "mappings are plain Linux's");
		return;
	}
	snprintf(missing, sizeof(missing), "%s%s%s%s", scan ? "" : ", PAGEMAP_SCAN (Linux 6.7)",
		 cachestat ? "" : ", cachestat (6.5)",
		 madvise_other ? "" : ", process_madvise (5.10)",
		 populate ? "" : ", MADV_POPULATE_READ (5.14)");
	if (missing[0])
		found(finding, WEAK, "the page cache can be steered, but without %s", missing + 2);
	else
		found(finding, GOOD,
		      "all calls that steer the page cache work: PAGEMAP_SCAN, cachestat, "
		      "process_madvise, MADV_POPULATE_READ");
}

/* --- huge folios --- */

/* A file without a name, of which nothing is cached; or -errno. */
static int make_file(const char *dir)
{
	char path[4200], *block;
	int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	ssize_t n;

	if (fd < 0) {
		snprintf(path, sizeof(path), "%s/.hugemap-doctor-XXXXXX", dir);
		fd = mkostemp(path, O_CLOEXEC);
		if (fd < 0)
			return -errno;
		unlink(path);
	}
	block = calloc(1, TRIAL_BYTES);
	n = block ? write(fd, block, TRIAL_BYTES) : -1;
	free(block);
	if (n != (ssize_t)TRIAL_BYTES) {
		close(fd);
		return -ENOSPC;
	}
	fsync(fd);
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	return fd;
}

/* 1: huge folios came, 0: they did not, or -errno. */
static int try_directory(const char *dir)
{
	int fd = make_file(dir), huge = 0;
	size_t length, i;
	char *to;
	void *at;

	if (fd < 0)
		return fd;
	to = take_aligned(TRIAL_BYTES, &at, &length);
	if (!to) {
		close(fd);
		return -ENOMEM;
	}
	if (mmap(to, TRIAL_BYTES, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0) != MAP_FAILED) {
		madvise(to, TRIAL_BYTES, MADV_HUGEPAGE);
		for (i = 0; i < TRIAL_BYTES; i += HM_PAGE_SIZE)
			*(volatile char *)(to + i);
		huge = smaps_bytes(to, TRIAL_BYTES, "FilePmdMapped:") +
			       smaps_bytes(to, TRIAL_BYTES, "ShmemPmdMapped:") >
		       0;
	}
	munmap(at, length);
	close(fd);
	return huge;
}

struct places {
	json_t *list;
	dev_t seen[8];
	size_t count;
	char huge[100], small[100], closed[100];
};

static void add_name(char text[100], const char *dir, const char *type)
{
	size_t used = strlen(text);

	snprintf(text + used, 100 - used, "%s%.40s (%s)", used ? ", " : "", dir, type);
}

static int try_place(struct places *places, const char *dir)
{
	struct volume volume;
	size_t i;
	int huge;

	if (!dir || volume_find(dir, &volume))
		return -ENOENT;
	for (i = 0; i < places->count; i++)
		if (places->seen[i] == volume.dev)
			return -EEXIST;
	huge = try_directory(volume.dir);
	if (huge >= 0)
		places->seen[places->count++] = volume.dev;
	add_name(huge > 0 ? places->huge :
		 huge < 0 ? places->closed :
			    places->small,
		 volume.dir, volume.type);
	json_array_append_new(places->list, json_pack("{s:s, s:s, s:o}", "dir", volume.dir,
						      "file_system", volume.type, "huge_folios",
						      huge < 0 ? json_null() : json_boolean(huge)));
	return huge;
}

void check_huge_files(const struct patient *patient, struct finding *finding)
{
	struct places places = { .list = json_array() };
	int here = try_place(&places, patient->volume->dir);

	try_place(&places, getenv("HOME"));
	try_place(&places, "/tmp");
	finding->details = json_pack("{s:o}", "places", places.list);
	if (places.closed[0] && !places.huge[0] && !places.small[0])
		found(finding, WEAK, "could not be tried: no file can be made in %s",
		      places.closed);
	else
		found(finding, here == 0 ? WEAK : GOOD, "%s%s%s%s%s%s",
		      places.huge[0] ? "come on " : "", places.huge,
		      places.huge[0] && places.small[0] ? "; " : "",
		      places.small[0] ? "do not come on " : "", places.small,
		      places.closed[0] ? "; elsewhere no file can be made" : "");
}
