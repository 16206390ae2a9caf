// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Measure the cost of `hugemap run` for calls, for the start of a process, and the CPU time of the
 * monitor thread. Each turn starts this program as a child twice, alone and under the library. The
 * table has the medians, and the median of the differences of a turn.
 *
 *	preload-calls LIBRARY FILE	FILE is created with 512 MB, and removed
 */
#include <fcntl.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TURNS 9
#define PAGE 4096ul
#define SMALL (16 * PAGE)
#define FILE_BYTES (512ul << 20)
#define PIECE_BYTES (16ul << 20)
#define STORED_BYTES (1ul << 30)
#define SAMPLES 200
#define WATCHED_NS 1500000000.0

static int calls_fd;
static char *calls_memory;

static double calls_clock(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

static double calls_now(void)
{
	return calls_clock(CLOCK_MONOTONIC);
}

static int calls_compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double calls_median(double *values, int n)
{
	qsort(values, (size_t)n, sizeof(*values), calls_compare);
	return values[n / 2];
}

static void *calls_map(size_t bytes, int fd, off_t offset)
{
	int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, fd, offset);

	if (at == MAP_FAILED) {
		perror("mmap");
		exit(1);
	}
	return at;
}

/* The medians of mmap() and of munmap() in ns. */
static void calls_pairs(size_t bytes, int fd, double *map_ns, double *unmap_ns)
{
	double map[SAMPLES], unmap[SAMPLES], start;
	char *at;
	int i;

	for (i = 0; i < SAMPLES; i++) {
		start = calls_now();
		at = calls_map(bytes, fd, 0);
		map[i] = calls_now() - start;
		*(volatile char *)at;
		start = calls_now();
		munmap(at, bytes);
		unmap[i] = calls_now() - start;
	}
	*map_ns = calls_median(map, SAMPLES);
	*unmap_ns = calls_median(unmap, SAMPLES);
}

static void calls_madvise(void)
{
	madvise(calls_memory, PAGE, MADV_NORMAL);
}

static void calls_mremap(void)
{
	calls_memory = mremap(calls_memory, PAGE, PAGE, 0);
}

static void calls_fork(void)
{
	pid_t pid = fork();

	if (!pid)
		_exit(0);
	waitpid(pid, NULL, 0);
}

/* Times in ns: without the library, with it, and the median of the differences. */
struct calls_start {
	double plain, under, more;
};

static double calls_start_once(char *const argv[], char *const environment[])
{
	double start = calls_now();
	pid_t pid;

	if (!posix_spawn(&pid, argv[0], NULL, NULL, argv, environment))
		waitpid(pid, NULL, 0);
	return calls_now() - start;
}

/* This process is under the library. The environment says whether the new one is, in turns. */
static struct calls_start calls_start(char *const argv[])
{
	double plain[SAMPLES], under[SAMPLES], more[SAMPLES];
	char *preload = NULL, *with[] = { NULL, NULL }, *without[] = { NULL };
	int i;

	if (getenv("LD_PRELOAD") && asprintf(&preload, "LD_PRELOAD=%s", getenv("LD_PRELOAD")) < 0)
		exit(1);
	with[0] = preload;
	for (i = 0; i < SAMPLES; i++) {
		plain[i] = calls_start_once(argv, without);
		under[i] = calls_start_once(argv, with);
		more[i] = under[i] - plain[i];
	}
	free(preload);
	return (struct calls_start){ calls_median(plain, SAMPLES), calls_median(under, SAMPLES),
				     calls_median(more, SAMPLES) };
}

/* The median of samples of @loops calls each, in ns for one call. */
static double calls_measure(void (*run)(void), int loops)
{
	double samples[SAMPLES], start;
	int i, n;

	for (i = 0; i < SAMPLES; i++) {
		start = calls_now();
		for (n = 0; n < loops; n++)
			run();
		samples[i] = (calls_now() - start) / loops;
	}
	return calls_median(samples, SAMPLES);
}

/* Store to each page of 1 GB after the monitor thread has started. Returns ns for a page. */
static double calls_store(void)
{
	char *memory = calls_map(STORED_BYTES, -1, 0), *mapped;
	double start;
	size_t i;

	memset(memory, 1, STORED_BYTES);
	mapped = calls_map(FILE_BYTES, calls_fd, 0);
	usleep(100000);
	start = calls_now();
	for (i = 0; i < STORED_BYTES; i += PAGE)
		memory[i] = 2;
	start = (calls_now() - start) / (double)(STORED_BYTES / PAGE);
	munmap(mapped, FILE_BYTES);
	munmap(memory, STORED_BYTES);
	return start;
}

/* Take a page fault each ms. */
static void calls_fault(double ns)
{
	double start = calls_now();

	while (calls_now() - start < ns) {
		madvise(calls_memory, PAGE, MADV_DONTNEED);
		*calls_memory = 1;
		usleep(1000);
	}
}

/* The CPU time of all other threads, in percent, while this one takes a page fault each ms. */
static double calls_monitor(int mappings)
{
	char **at = calloc((size_t)mappings, sizeof(*at));
	double start, cpu, own;
	int i;

	for (i = 0; i < mappings; i++) {
		at[i] = calls_map(PIECE_BYTES, calls_fd,
				  (off_t)((size_t)i * PIECE_BYTES % FILE_BYTES));
		madvise(at[i], PIECE_BYTES, MADV_POPULATE_READ);
	}
	/* The monitor first spends the time that it has saved. */
	calls_fault(WATCHED_NS / 3);
	start = calls_now();
	cpu = calls_clock(CLOCK_PROCESS_CPUTIME_ID);
	own = calls_clock(CLOCK_THREAD_CPUTIME_ID);
	calls_fault(WATCHED_NS);
	cpu = calls_clock(CLOCK_PROCESS_CPUTIME_ID) - cpu;
	own = calls_clock(CLOCK_THREAD_CPUTIME_ID) - own;
	start = calls_now() - start;
	for (i = 0; i < mappings; i++)
		munmap(at[i], PIECE_BYTES);
	free(at);
	return 100 * (cpu - own) / start;
}

static char *const calls_true[] = { "/bin/true", NULL };
static char *const calls_shell[] = { "/bin/sh", "-c", ":", NULL };

static const struct {
	const char *name;
	char *const *argv;
} calls_starts[] = {
	{ "start of /bin/true", calls_true },
	{ "start of sh -c :", calls_shell },
};

#define STARTS (sizeof(calls_starts) / sizeof(calls_starts[0]))

static const struct {
	const char *name;
	const char *unit;
} calls_rows[] = {
	{ "fork", "ns" },
	{ "madvise of anonymous memory", "ns" },
	{ "mremap of anonymous memory", "ns" },
	{ "mmap of 64 KB of anonymous memory", "ns" },
	{ "munmap of it", "ns" },
	{ "mmap of 512 MB of a file, steered", "ns" },
	{ "munmap of it", "ns" },
	{ "store to a page of 1 GB, monitor started", "ns" },
	{ "monitor thread, 1 mapping of 16 MB", "%" },
	{ "monitor thread, 16 mappings", "%" },
	{ "monitor thread, 64 mappings", "%" },
	{ "monitor thread, 300 mappings", "%" },
};

#define ROWS (sizeof(calls_rows) / sizeof(calls_rows[0]))

/* In the child: one number a line, in the order of the rows. */
static int calls_child(const char *path)
{
	double value[ROWS];
	size_t i;

	calls_memory = calls_map(PAGE, -1, 0);
	calls_fd = open(path, O_RDWR | O_CLOEXEC);
	if (calls_fd < 0)
		return 1;
	value[0] = calls_measure(calls_fork, 1);
	value[1] = calls_measure(calls_madvise, 1000);
	value[2] = calls_measure(calls_mremap, 1000);
	calls_pairs(SMALL, -1, &value[3], &value[4]);
	calls_pairs(FILE_BYTES, calls_fd, &value[5], &value[6]);
	value[7] = calls_store();
	value[8] = calls_monitor(1);
	value[9] = calls_monitor(16);
	value[10] = calls_monitor(64);
	value[11] = calls_monitor(300);
	for (i = 0; i < ROWS; i++)
		printf("%f\n", value[i]);
	for (i = 0; i < STARTS; i++) {
		struct calls_start start = calls_start(calls_starts[i].argv);

		printf("%f %f %f\n", start.plain, start.under, start.more);
	}
	return 0;
}

static bool calls_turn(const char *library, const char *path, double *value,
		       struct calls_start *start)
{
	int pipe_fds[2], status;
	FILE *from;
	size_t i;
	pid_t pid;

	if (pipe(pipe_fds) < 0)
		return false;
	pid = fork();
	if (!pid) {
		dup2(pipe_fds[1], STDOUT_FILENO);
		if (library)
			setenv("LD_PRELOAD", library, 1);
		execl("/proc/self/exe", "preload-calls", "--child", path, NULL);
		_exit(1);
	}
	close(pipe_fds[1]);
	from = fdopen(pipe_fds[0], "r");
	for (i = 0; i < ROWS; i++)
		if (fscanf(from, "%lf", &value[i]) != 1)
			value[i] = 0;
	for (i = 0; i < STARTS; i++)
		if (fscanf(from, "%lf %lf %lf", &start[i].plain, &start[i].under, &start[i].more) !=
		    3)
			start[i] = (struct calls_start){};
	fclose(from);
	waitpid(pid, &status, 0);
	return !status;
}

static void calls_print(const char *name, const char *unit, double *plain, double *under,
			double *more)
{
	printf("%-42s %12.1f %12.1f %12.1f %s\n", name, calls_median(plain, TURNS),
	       calls_median(under, TURNS), calls_median(more, TURNS), unit);
}

int main(int argc, char **argv)
{
	static double plain[ROWS][TURNS], under[ROWS][TURNS], more[ROWS][TURNS];
	static double start_plain[STARTS][TURNS], start_under[STARTS][TURNS];
	static double start_more[STARTS][TURNS];
	struct calls_start start[STARTS];
	double value[2][ROWS];
	size_t i;
	int fd, t;

	if (argc != 3) {
		fprintf(stderr, "usage: preload-calls LIBRARY FILE\n");
		return 2;
	}
	if (!strcmp(argv[1], "--child"))
		return calls_child(argv[2]);
	fd = open(argv[2], O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, FILE_BYTES)) {
		perror(argv[2]);
		return 1;
	}
	for (t = 0; t < TURNS; t++) {
		if (!calls_turn(NULL, argv[2], value[0], start) ||
		    !calls_turn(argv[1], argv[2], value[1], start))
			break;
		for (i = 0; i < STARTS; i++) {
			start_plain[i][t] = start[i].plain;
			start_under[i][t] = start[i].under;
			start_more[i][t] = start[i].more;
		}
		for (i = 0; i < ROWS; i++) {
			plain[i][t] = value[0][i];
			under[i][t] = value[1][i];
			more[i][t] = value[1][i] - value[0][i];
		}
	}
	unlink(argv[2]);
	if (t < TURNS)
		return 1;
	printf("%-42s %12s %12s %12s\n", "", "plain", "under", "more");
	for (i = 0; i < STARTS; i++)
		calls_print(calls_starts[i].name, "ns", start_plain[i], start_under[i],
			    start_more[i]);
	for (i = 0; i < ROWS; i++)
		calls_print(calls_rows[i].name, calls_rows[i].unit, plain[i], under[i], more[i]);
	return 0;
}
