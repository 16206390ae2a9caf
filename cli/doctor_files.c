// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* hugemap doctor: try files in several directories. */
#include "doctor_check.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define HUGE_BYTES (2ul << 20)
#define TRIAL_BYTES (2 * HUGE_BYTES)

/* Make a file without a name and drop it from the page cache; returns its descriptor, or -errno. */
static int doctor_make_file(const char *dir)
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

/* --- huge folios --- */

/* Map a file in a directory: 1 = by huge pages, 0 = by base pages; or -errno. */
static int doctor_try_directory(const char *dir)
{
	const size_t length = TRIAL_BYTES + HUGE_BYTES;
	int fd = doctor_make_file(dir), huge = 0;
	char *to;
	void *at;
	size_t i;

	if (fd < 0)
		return fd;
	at = mmap(NULL, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED) {
		close(fd);
		return -ENOMEM;
	}
	to = (char *)(((uintptr_t)at + HUGE_BYTES - 1) / HUGE_BYTES * HUGE_BYTES);
	if (mmap(to, TRIAL_BYTES, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0) != MAP_FAILED) {
		madvise(to, TRIAL_BYTES, MADV_HUGEPAGE);
		for (i = 0; i < TRIAL_BYTES; i += PAGE_BYTES)
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
	char huge[100], small[100], denied[100];
};

static void doctor_add_name(char text[100], const char *dir, const char *type)
{
	size_t used = strlen(text);

	snprintf(text + used, 100 - used, "%s%.40s (%s)", used ? ", " : "", dir, type);
}

static int doctor_try_place(struct places *places, const char *dir)
{
	struct volume volume;
	size_t i;
	int huge;

	if (!dir || volume_find(dir, &volume))
		return -ENOENT;
	for (i = 0; i < places->count; i++)
		if (places->seen[i] == volume.dev)
			return -EEXIST;
	huge = doctor_try_directory(volume.dir);
	if (huge >= 0)
		places->seen[places->count++] = volume.dev;
	doctor_add_name(huge > 0 ? places->huge :
			huge < 0 ? places->denied :
				   places->small,
			volume.dir, volume.type);
	json_array_append_new(places->list, json_pack("{s:s, s:s, s:o}", "dir", volume.dir,
						      "file_system", volume.type, "huge_folios",
						      huge < 0 ? json_null() : json_boolean(huge)));
	return huge;
}

void check_huge_files(const struct machine *machine, struct finding *finding)
{
	struct places places = { .list = json_array() };
	int here = doctor_try_place(&places, machine->volume->dir);

	doctor_try_place(&places, getenv("HOME"));
	doctor_try_place(&places, "/tmp");
	finding->details = json_pack("{s:o}", "places", places.list);
	if (places.denied[0] && !places.huge[0] && !places.small[0])
		doctor_result(finding, GOOD, "not tried: no file can be made in %s", places.denied);
	else
		doctor_result(finding, here == 0 ? WEAK : GOOD, "%s%s%s%s%s%s",
			      places.huge[0] ? "come on " : "", places.huge,
			      places.huge[0] && places.small[0] ? "; " : "",
			      places.small[0] ? "do not come on " : "", places.small,
			      places.denied[0] ? "; elsewhere no file can be made" : "");
}

/* --- direct I/O --- */

/* Read a file with O_DIRECT; returns the alignment that reads need, or -errno. */
static int doctor_try_direct(int fd)
{
	static const int aligns[] = { 512, 4096, 65536 };
	char *buffer = aligned_alloc(65536, 65536), path[32];
	int direct, err = buffer ? -EINVAL : -ENOMEM;
	size_t i;

	/* The file has no name: open it again through its descriptor. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	direct = open(path, O_RDONLY | O_DIRECT | O_CLOEXEC);
	if (direct < 0)
		err = -errno;
	for (i = 0; direct >= 0 && buffer && err < 0 && i < sizeof(aligns) / sizeof(aligns[0]); i++)
		if (pread(direct, buffer, (size_t)aligns[i], 0) == aligns[i])
			err = aligns[i];
	if (direct >= 0)
		close(direct);
	free(buffer);
	return err;
}

void check_direct_io(const struct machine *machine, struct finding *finding)
{
	const struct volume *volume = machine->volume;
	int fd = doctor_make_file(volume->dir), align;

	if (fd < 0) {
		doctor_result(finding, GOOD, "not tried: no file can be made in %.100s (%s)",
			      volume->dir, strerror(-fd));
		finding->details = json_pack("{s:s, s:n}", "dir", volume->dir, "works");
		return;
	}
	align = doctor_try_direct(fd);
	close(fd);
	finding->details = json_pack("{s:s, s:s, s:s, s:b, s:i}", "dir", volume->dir, "file_system",
				     volume->type, "device", volume->device, "works", align > 0,
				     "align", align > 0 ? align : 0);
	if (align > 0)
		doctor_result(finding, GOOD, "works in %.100s (%s), in units of %d bytes",
			      volume->dir, volume->type, align);
	else
		doctor_result(
			finding, WEAK,
			"does not work in %.100s (%s): on a mount over it, data is in Linux's page "
			"cache, too; use ext4 or XFS",
			volume->dir, volume->type);
}
