// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * A program that test_start.py builds in many ways.
 *
 *	started [TEXT]		print TEXT, LD_PRELOAD, and whether the library of `hugemap run` is
 *				in this process; exit with 3
 *	started map FILE	the same, after FILE was mapped and read ten times
 *	started stride FILE OTHER
 *				touch a page of both files every 16 MB. Stop when three pages of
 *				FILE in a row were in memory before they were touched; print the
 *				number of such pages of both files. They are mapped anew every 4 GB,
 *				since the policy sometimes misses the pattern
 *	started alone		print the results of wait(2), without and with __WALL, and the
 *				number of descriptors, close standard output, and wait for the
 *				end of standard input
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define STRIDE (16l << 20)
#define ANEW (4l << 30)
#define WANTED 3

static int has_library(void)
{
	char line[1024];
	FILE *maps = fopen("/proc/self/maps", "r");
	int found = 0;

	while (maps && fgets(line, sizeof(line), maps))
		found |= !!strstr(line, "libhugemap-run");
	if (maps)
		fclose(maps);
	return found;
}

static char *map(const char *path, struct stat *st)
{
	int fd = open(path, O_RDONLY);
	char *at = MAP_FAILED;

	if (fd >= 0 && !fstat(fd, st))
		at = mmap(NULL, (size_t)st->st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		exit(1);
	close(fd);
	return at;
}

static void read_often(const char *path)
{
	struct stat st;
	char *at;
	int turn;
	long i;

	for (turn = 0; turn < 10; turn++) {
		at = map(path, &st);
		for (i = 0; i < st.st_size; i += 4096)
			*(volatile char *)(at + i);
		usleep(20000);
		munmap(at, (size_t)st.st_size);
	}
}

/* Returns whether the page was in memory before. */
static int touch(char *page)
{
	unsigned char in_memory;

	if (mincore(page, 4096, &in_memory))
		exit(1);
	*(volatile char *)page;
	return in_memory & 1;
}

static int stride(const char *path, const char *other)
{
	int count = 0, other_count = 0, row = 0;
	char *one = NULL, *two = NULL;
	struct stat st;
	long at = 0;

	for (; row < WANTED && (!at || at < st.st_size); at += STRIDE) {
		if (at && at % ANEW == 0) {
			munmap(one, (size_t)st.st_size);
			munmap(two, (size_t)st.st_size);
		}
		if (at % ANEW == 0) {
			one = map(path, &st);
			two = map(other, &st);
		}
		row = touch(one + at) ? row + 1 : 0;
		count += row > 0;
		other_count += touch(two + at);
		usleep(20000);
	}
	printf("%d %d\n", count, other_count);
	return 0;
}

static int alone(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int result = waitpid(-1, NULL, WNOHANG), error = errno, files = 0;
	int any = waitpid(-1, NULL, WNOHANG | __WALL);

	while (dir && readdir(dir))
		files++;
	printf("wait %d %s, any child %d, files %d, leads %d %d\n", result, strerror(error), any,
	       files, getpid() == getpgrp(), getpid() == getsid(0));
	fclose(stdout);
	while (getchar() != EOF)
		;
	return 0;
}

int main(int argc, char **argv)
{
	const char *preload = getenv("LD_PRELOAD");

	if (argc == 4 && !strcmp(argv[1], "stride"))
		return stride(argv[2], argv[3]);
	if (argc == 2 && !strcmp(argv[1], "alone"))
		return alone();
	if (argc == 3 && !strcmp(argv[1], "map"))
		read_often(argv[2]);
	printf("%s, LD_PRELOAD=%s, library %d\n", argc > 1 ? argv[1] : "", preload ? preload : "-",
	       has_library());
	fflush(stdout);
	return 3;
}
