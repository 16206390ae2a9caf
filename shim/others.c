// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Other processes, by what /proc shows of them: does one of them have a file open,
 * or mapped?
 */
#include "shim.h"
#include "own.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <linux/fs.h>
#include <linux/kcmp.h>

#ifndef PROCMAP_QUERY
/* Linux 6.11: one mapping at a time, in numbers. */
struct procmap_query {
	uint64_t size, query_flags, query_addr;
	uint64_t vma_start, vma_end, vma_flags, vma_page_size, vma_offset, inode;
	uint32_t dev_major, dev_minor, vma_name_size, build_id_size;
	uint64_t vma_name_addr, build_id_addr;
};
#define PROCMAP_QUERY _IOWR('f', 17, struct procmap_query)
#define PROCMAP_QUERY_COVERING_OR_NEXT_VMA 0x10
#define PROCMAP_QUERY_FILE_BACKED_VMA 0x20
#endif

static bool is_link_to(int dirfd, const char *name, const struct stat *st)
{
	struct stat other;

	return !fstatat(dirfd, name, &other, 0) && same_file(&other, st);
}

/* By text, for kernels before 6.11. */
static bool map_is_listed(FILE *maps, const struct stat *st)
{
	char line[512];
	bool found = false;

	while (!found && fgets(line, sizeof(line), maps)) {
		unsigned long long inode;

		if (sscanf(line, "%*s %*s %*s %*s %llu", &inode) == 1)
			found = inode == st->st_ino;
	}
	return found;
}

/* Has a process mapped the file? By the inode's number alone: see proc(5). */
bool others_map(const char *pid, const struct stat *st)
{
	struct procmap_query query = {
		.size = sizeof(query),
		.query_flags = PROCMAP_QUERY_COVERING_OR_NEXT_VMA | PROCMAP_QUERY_FILE_BACKED_VMA,
	};
	bool found = false;
	char path[300];
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%s/maps", pid);
	maps = real->fopen(path, "re");
	if (!maps)
		return false;
	while (!found && !real->ioctl(fileno(maps), PROCMAP_QUERY, &query)) {
		found = query.inode == st->st_ino;
		query.query_addr = query.vma_end;
	}
	/* ENOENT: that was the last one; ESRCH: the process has no memory, or is gone. */
	if (!found && errno != ENOENT && errno != ESRCH)
		found = map_is_listed(maps, st);
	real->fclose(maps);
	return found;
}

static bool has_open(const char *pid, const struct stat *st)
{
	char path[300];
	struct dirent *entry;
	bool found = false;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%s/fd", pid);
	dir = opendir(path);
	if (!dir)
		return false;
	while (!found && (entry = readdir(dir)))
		if (entry->d_name[0] != '.')
			found = is_link_to(dirfd(dir), entry->d_name, st);
	real->closedir(dir);
	return found;
}

/* A kernel thread has no program, and one that ends has none any more: most of /proc. */
static bool is_program(const char *pid)
{
	char path[300], byte;

	snprintf(path, sizeof(path), "/proc/%s/exe", pid);
	return readlink(path, &byte, 1) >= 0 || errno != ENOENT;
}

/*
 * Our keeper shares our memory, and what it has is ours. A child that shares it, too, is
 * somebody else: it will execute a program and give that what it has.
 */
static bool is_keeper(const char *pid)
{
	char path[300], name[32] = "";
	FILE *comm;

	if (real->syscall(SYS_kcmp, shim_pid, atoi(pid), KCMP_VM, 0, 0) > 0)
		return false;
	snprintf(path, sizeof(path), "/proc/%s/comm", pid);
	comm = real->fopen(path, "re");
	if (comm) {
		if (!fgets(name, sizeof(name), comm))
			name[0] = '\0';
		real->fclose(comm);
	}
	return !strcmp(name, "hugemap-keeper\n");
}

/*
 * Does another process, of those that can be seen, have the file open or mapped? A
 * write lease would not tell: an open file that was inherited counts once.
 */
bool others_use(const struct stat *st)
{
	struct dirent *entry;
	bool found = false;
	DIR *proc = opendir("/proc");

	if (!proc)
		return true;
	while (!found && (entry = readdir(proc))) {
		const char *pid = entry->d_name;

		if (pid[0] < '0' || pid[0] > '9' || atoi(pid) == shim_pid || !is_program(pid))
			continue;
		found = (has_open(pid, st) || others_map(pid, st)) && !is_keeper(pid);
	}
	real->closedir(proc);
	return found;
}
