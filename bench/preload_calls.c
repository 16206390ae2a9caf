// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Measure the time that `hugemap run` adds to calls, in nanoseconds for each call. The program
 * runs alone and under the library in turns. The best of all turns counts, because other work of
 * the machine can only add time.
 *
 *	preload-calls LIBRARY [FILE]	FILE: of 64 MB; mapped, and so steered, during the calls.
 *					Its own mmap() and munmap() are measured too
 *
 * It starts itself as a child, once for each turn.
 */
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TURNS 7
#define LOOPS 200000
#define PAGE 4096ul
#define FILE_BYTES (64ul << 20)
#define FILE_LOOPS 2000

static char *memory;
static int file = -1;

static void calls_madvise(void)
{
	madvise(memory, PAGE, MADV_NORMAL);
}

static void calls_mmap(void)
{
	void *at = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	munmap(at, PAGE);
}

static void calls_mremap(void)
{
	memory = mremap(memory, PAGE, PAGE, 0);
}

static const struct {
	const char *name;
	void (*run)(void);
} calls[] = {
	{ "madvise", calls_madvise }, { "mmap+munmap", calls_mmap }, { "mremap", calls_mremap },
	{ "mmap, file", NULL },	      { "munmap, file", NULL },
};

#define CALLS (sizeof(calls) / sizeof(calls[0]))

static double calls_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

/* Take the best of several measurements: other work of the machine can only add time. */
static double calls_measure(void (*run)(void))
{
	double best = 0;
	int round, i;

	for (round = 0; round < 5; round++) {
		double start = calls_now(), ns;

		for (i = 0; i < LOOPS / 5; i++)
			run();
		ns = (calls_now() - start) / (LOOPS / 5);
		if (!round || ns < best)
			best = ns;
	}
	return best;
}

static int calls_compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* The medians of the calls for one mapping of the file. */
static void calls_measure_file(double *map_ns, double *unmap_ns)
{
	static double map[FILE_LOOPS], unmap[FILE_LOOPS];
	double start, middle;
	void *at;
	int i;

	for (i = 0; i < FILE_LOOPS; i++) {
		start = calls_now();
		at = mmap(NULL, FILE_BYTES, PROT_READ, MAP_SHARED, file, 0);
		middle = calls_now();
		munmap(at, FILE_BYTES);
		unmap[i] = calls_now() - middle;
		map[i] = middle - start;
		/* A program does something else between its mappings. */
		usleep(200);
	}
	qsort(map, FILE_LOOPS, sizeof(double), calls_compare);
	qsort(unmap, FILE_LOOPS, sizeof(double), calls_compare);
	*map_ns = map[FILE_LOOPS / 2];
	*unmap_ns = unmap[FILE_LOOPS / 2];
}

/* In the child: print one number per line. */
static int calls_child(const char *path)
{
	double map_ns = 0, unmap_ns = 0;
	size_t i;

	memory = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (path) {
		char *map;

		file = open(path, O_RDWR | O_CLOEXEC);
		map = mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
		if (file < 0 || map == MAP_FAILED)
			return 1;
		calls_measure_file(&map_ns, &unmap_ns);
	}
	for (i = 0; i < CALLS && calls[i].run; i++)
		printf("%f\n", calls_measure(calls[i].run));
	printf("%f\n%f\n", map_ns, unmap_ns);
	return 0;
}

static bool calls_turn(const char *self, const char *library, const char *path, double *ns)
{
	int pipe_fds[2];
	FILE *from;
	size_t i;
	int status;
	pid_t pid;

	if (pipe(pipe_fds) < 0)
		return false;
	pid = fork();
	if (!pid) {
		dup2(pipe_fds[1], STDOUT_FILENO);
		if (library)
			setenv("LD_PRELOAD", library, 1);
		execl(self, self, "--child", path, NULL);
		_exit(1);
	}
	close(pipe_fds[1]);
	from = fdopen(pipe_fds[0], "r");
	for (i = 0; i < CALLS; i++)
		if (fscanf(from, "%lf", &ns[i]) != 1)
			ns[i] = 0;
	fclose(from);
	waitpid(pid, &status, 0);
	return !status;
}

int main(int argc, char **argv)
{
	static double plain[CALLS][TURNS], under[CALLS][TURNS];
	double ns[CALLS];
	const char *path;
	size_t i;
	int t;

	if (argc > 1 && !strcmp(argv[1], "--child"))
		return calls_child(argc > 2 ? argv[2] : NULL);
	if (argc < 2) {
		fprintf(stderr, "usage: preload-calls LIBRARY [FILE]\n");
		return 2;
	}
	path = argc > 2 ? argv[2] : NULL;
	for (t = 0; t < TURNS; t++) {
		if (!calls_turn("/proc/self/exe", NULL, path, ns))
			return 1;
		for (i = 0; i < CALLS; i++)
			plain[i][t] = ns[i];
		if (!calls_turn("/proc/self/exe", argv[1], path, ns))
			return 1;
		for (i = 0; i < CALLS; i++)
			under[i][t] = ns[i];
	}
	printf("%-12s %10s %10s %10s\n", "call", "plain, ns", "under, ns", "more, ns");
	for (i = 0; i < CALLS; i++) {
		qsort(plain[i], TURNS, sizeof(double), calls_compare);
		qsort(under[i], TURNS, sizeof(double), calls_compare);
		printf("%-12s %10.0f %10.0f %10.0f\n", calls[i].name, plain[i][0], under[i][0],
		       under[i][0] - plain[i][0]);
	}
	return 0;
}
