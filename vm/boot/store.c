// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * store FILE SEED BYTES [check]: map a file and store a number to each of its words, or check
 * these numbers. There is no sync: unmounting must write the data back. check_numbers() of
 * vm/boot.py expects the same numbers.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	uint64_t *words, seed;
	size_t bytes, i;
	struct stat st;
	int fd;

	if (argc < 4) {
		fprintf(stderr, "usage: store FILE SEED BYTES [check]\n");
		return 2;
	}
	seed = strtoull(argv[2], NULL, 10) << 32;
	bytes = strtoull(argv[3], NULL, 10);
	fd = open(argv[1], O_RDWR | O_CREAT, 0644);
	/* The size of a device is fixed. */
	if (fd < 0 || fstat(fd, &st) < 0 ||
	    (st.st_size < (off_t)bytes && ftruncate(fd, (off_t)bytes) < 0)) {
		perror(argv[1]);
		return 1;
	}
	words = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (words == MAP_FAILED) {
		perror("mmap");
		return 1;
	}
	for (i = 0; i < bytes / sizeof(*words); i++) {
		if (argc == 4) {
			words[i] = seed | i;
		} else if (words[i] != (seed | i)) {
			printf("%s: %#llx at %zu\n", argv[1], (unsigned long long)words[i],
			       i * sizeof(*words));
			return 1;
		}
	}
	return 0;
}
