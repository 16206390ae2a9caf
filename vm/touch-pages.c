// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * touch-pages FILE: map a file, read a byte of every page, and print the number of faults and
 * the time. For the guest of `make vm`.
 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static long faults(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_minflt + usage.ru_majflt;
}

int main(int argc, char **argv)
{
	const volatile char *at;
	struct stat st;
	double begin;
	long before;
	int fd;

	if (argc != 2) {
		fprintf(stderr, "usage: touch-pages FILE\n");
		return 2;
	}
	fd = open(argv[1], O_RDONLY);
	if (fd < 0 || fstat(fd, &st) || st.st_size == 0) {
		perror(argv[1]);
		return 1;
	}
	at = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED) {
		perror("mmap");
		return 1;
	}
	begin = now();
	before = faults();
	for (off_t offset = 0; offset < st.st_size; offset += 4096)
		(void)at[offset];
	printf("%ld MiB, %ld faults, %.2f s\n", (long)(st.st_size >> 20), faults() - before,
	       now() - begin);
	return 0;
}
