// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * A Kronecker graph, with the parameters of Graph500: a few vertices have very many neighbors. The
 * edges are computed twice, once to count the neighbors of each vertex, and once to store them.
 */
#include "graph.h"

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* The quadrants of the matrix, in 1/256: 0.57, 0.19, 0.19, and the rest. */
#define QUADRANT_A 146u
#define QUADRANT_B (QUADRANT_A + 49u)
#define QUADRANT_C (QUADRANT_B + 49u)

#define SEED 0x2545f4914f6cdd1dull

/* A bijection, so that the vertices with many neighbors are everywhere in the file. */
static uint32_t make_label(uint64_t vertex, unsigned int scale)
{
	uint64_t mask = (1ull << scale) - 1;
	unsigned int i;

	for (i = 0; i < 2; i++) {
		vertex = vertex * 0x9e3779b97f4a7c15ull & mask;
		vertex ^= vertex >> (scale + 1) / 2;
	}
	return (uint32_t)vertex;
}

/* The two vertices of an edge. */
static void make_edge(uint64_t edge, unsigned int scale, uint32_t ends[2])
{
	uint64_t from = 0, to = 0, bits = 0;
	unsigned int i, draw;

	for (i = 0; i < scale; i++, bits >>= 8) {
		if (i % 8 == 0)
			bits = random_mix(SEED + edge * 4 + i / 8);
		draw = bits & 0xff;
		from = from << 1 | (draw >= QUADRANT_B);
		to = to << 1 | ((draw >= QUADRANT_A && draw < QUADRANT_B) || draw >= QUADRANT_C);
	}
	ends[0] = make_label(from, scale);
	ends[1] = make_label(to, scale);
}

/* Count the neighbors of each vertex v in offsets[v + 1], then add the counts up. */
static uint64_t make_offsets(uint64_t *offsets, uint64_t edges, unsigned int scale)
{
	uint64_t i, vertices = 1ull << scale;
	uint32_t ends[2];

	for (i = 0; i < edges; i++) {
		make_edge(i, scale, ends);
		if (ends[0] == ends[1])
			continue;
		offsets[ends[0] + 1]++;
		offsets[ends[1] + 1]++;
	}
	for (i = 0; i < vertices; i++)
		offsets[i + 1] += offsets[i];
	return offsets[vertices];
}

/* Returns the digest. */
static uint64_t make_neighbors(uint32_t *neighbors, uint64_t *next, uint64_t edges,
			       unsigned int scale)
{
	uint64_t i, at, digest = 0;
	uint32_t ends[2];
	unsigned int side;

	for (i = 0; i < edges; i++) {
		make_edge(i, scale, ends);
		if (ends[0] == ends[1])
			continue;
		for (side = 0; side < 2; side++) {
			at = next[ends[side]]++;
			neighbors[at] = ends[!side];
			digest += graph_hash(at, ends[!side]);
		}
	}
	return digest;
}

void graph_make(const char *path, unsigned int scale, unsigned int degree)
{
	uint64_t vertices = 1ull << scale, edges = vertices * degree, i;
	uint64_t *next = calloc(vertices + 1, sizeof(*next));
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	struct graph graph;
	uint64_t neighbors;
	size_t bytes;
	void *at;

	if (!next)
		errx(1, "too little memory");
	if (fd < 0)
		err(1, "%s", path);
	neighbors = make_offsets(next, edges, scale);
	bytes = graph_bytes(vertices, neighbors);
	errno = posix_fallocate(fd, 0, (off_t)bytes);
	if (errno)
		err(1, "%s: space for %zu MB", path, bytes >> 20);
	at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		err(1, "mmap");
	*(struct graph_header *)at = (struct graph_header){
		.magic = GRAPH_MAGIC,
		.vertices = vertices,
		.neighbors = neighbors,
	};
	graph_lay_out(&graph, at);
	for (i = 0; i <= vertices; i++)
		((uint64_t *)graph.offsets)[i] = next[i];
	((struct graph_header *)at)->digest =
		make_neighbors((uint32_t *)graph.neighbors, next, edges, scale);
	if (msync(at, bytes, MS_SYNC) < 0 || munmap(at, bytes) < 0 || close(fd) < 0)
		err(1, "%s", path);
	free(next);
}
