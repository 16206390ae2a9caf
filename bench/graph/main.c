// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * hugemap-graph make FILE SCALE DEGREE
 * hugemap-graph bfs|pagerank FILE none|random|hugepage|memory THREADS SECONDS
 *
 * Make the file of a graph, or run an algorithm on it and print the result as JSON. `hugemap bench
 * graph` starts it, in a memory group and if necessary by `hugemap run`. All arrays are in mapped
 * files; with "memory" they are in memory of the process, which Linux swaps if it must, and the
 * graph is checked before the run. After some seconds a run stops unfinished.
 */
#include "graph.h"
#include "usage.h"

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIECE (1u << 20)

struct algorithm {
	const char *name;
	uint64_t (*run)(const struct graph *graph, const struct work *work, unsigned int threads);
};

static const struct algorithm algorithms[] = {
	{ "bfs", graph_bfs },
	{ "pagerank", graph_pagerank },
};

static int main_advice(const char *way)
{
	if (!strcmp(way, "random"))
		return MADV_RANDOM;
	return strcmp(way, "hugepage") ? MADV_NORMAL : MADV_HUGEPAGE;
}

/* Map a file, or with @fd -1 memory of the process. */
static void *main_map(size_t bytes, int protection, int fd, int advice)
{
	void *at = mmap(NULL, bytes, protection, fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED,
			fd, 0);

	if (at == MAP_FAILED)
		err(1, "mmap");
	if (advice != MADV_NORMAL && madvise(at, bytes, advice) < 0)
		err(1, "madvise");
	return at;
}

/* Read the file into memory of the process, and leave nothing of it in the page cache. */
static const void *main_read(int fd, size_t bytes)
{
	char *at = main_map(bytes, PROT_READ | PROT_WRITE, -1, MADV_NORMAL);
	size_t done = 0;
	ssize_t n;

	while (done < bytes) {
		n = pread(fd, at + done, bytes - done < PIECE ? bytes - done : PIECE, (off_t)done);
		if (n <= 0)
			err(1, "read");
		done += (size_t)n;
		posix_fadvise(fd, 0, (off_t)done, POSIX_FADV_DONTNEED);
	}
	return at;
}

static void main_check(const struct graph *graph, const struct graph_header *header)
{
	uint64_t digest = 0, i;

	for (i = 0; i < header->neighbors; i++)
		digest += graph_hash(i, graph->neighbors[i]);
	if (digest != header->digest)
		errx(1, "the file has another graph than was stored");
}

static void main_load(const char *path, const char *way, struct graph *graph)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct graph_header header;
	struct stat st;
	size_t bytes;

	if (fd < 0 || fstat(fd, &st) < 0)
		err(1, "%s", path);
	if (pread(fd, &header, sizeof(header), 0) != sizeof(header) ||
	    header.magic != GRAPH_MAGIC ||
	    (uint64_t)st.st_size != graph_bytes(header.vertices, header.neighbors))
		errx(1, "%s: not a graph", path);
	bytes = (size_t)st.st_size;
	if (strcmp(way, "memory")) {
		graph_lay_out(graph, main_map(bytes, PROT_READ, fd, main_advice(way)));
	} else {
		graph_lay_out(graph, main_read(fd, bytes));
		main_check(graph, &header);
	}
	close(fd);
}

/* The arrays of the algorithm are in a file without a name, beside the graph. */
static void main_make_work(const char *path, const char *way, uint64_t vertices, struct work *work)
{
	size_t bytes = vertices * GRAPH_WORK_BYTES;
	char name[PATH_MAX];
	int fd = -1;

	if (strcmp(way, "memory")) {
		snprintf(name, sizeof(name), "%s.XXXXXX", path);
		fd = mkostemp(name, O_CLOEXEC);
		if (fd < 0)
			err(1, "%s", name);
		unlink(name);
		errno = posix_fallocate(fd, 0, (off_t)bytes);
		if (errno)
			err(1, "%s: space for %zu MB", name, bytes >> 20);
	}
	work->values = main_map(bytes, PROT_READ | PROT_WRITE, fd, main_advice(way));
	work->other = work->values + vertices;
	if (fd >= 0)
		close(fd);
}

/* The same for every number of threads: a vertex has only one level, and only one score. */
static uint64_t main_digest(const struct work *work, uint64_t vertices)
{
	uint64_t digest = 0, i;

	for (i = 0; i < vertices; i++)
		digest += random_mix(i << 32 | work->values[i]);
	return digest;
}

static void main_run(const struct algorithm *algorithm, const char *path, const char *way,
		     unsigned int threads, unsigned int limit)
{
	struct usage_counts before, after;
	uint64_t start, edges;
	struct graph graph;
	struct work work;
	double seconds;

	main_load(path, way, &graph);
	main_make_work(path, way, graph.vertices, &work);
	usage_read(&before);
	start = usage_now();
	team_deadline = start + limit * 1000000000ull;
	edges = algorithm->run(&graph, &work, threads);
	seconds = (double)(usage_now() - start) / 1e9;
	usage_read(&after);
	printf("{\"edges\": %llu, \"seconds\": %.6f, ", (unsigned long long)edges, seconds);
	if (!team_was_late())
		printf("\"digest\": \"%016llx\", ",
		       (unsigned long long)main_digest(&work, graph.vertices));
	usage_print(&before, &after);
	printf("}\n");
}

int main(int argc, char **argv)
{
	unsigned int i;

	if (argc == 5 && !strcmp(argv[1], "make")) {
		graph_make(argv[2], (unsigned int)atoi(argv[3]), (unsigned int)atoi(argv[4]));
		return 0;
	}
	for (i = 0; argc == 6 && i < sizeof(algorithms) / sizeof(algorithms[0]); i++)
		if (!strcmp(argv[1], algorithms[i].name)) {
			main_run(&algorithms[i], argv[2], argv[3], (unsigned int)atoi(argv[4]),
				 (unsigned int)atoi(argv[5]));
			return fflush(stdout) ? 1 : 0;
		}
	fputs("hugemap-graph is started by `hugemap bench graph`\n", stderr);
	return 2;
}
