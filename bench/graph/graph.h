/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * An undirected graph in a file, as compressed sparse rows: a header, then for each vertex the
 * position of its first neighbor, then the neighbors of all vertices. Each edge is there twice.
 */
#ifndef GRAPH_GRAPH_H
#define GRAPH_GRAPH_H

#include "random.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GRAPH_MAGIC 0x3148505247504d48ull
#define GRAPH_HEADER_BYTES 4096u
#define GRAPH_UNREACHED UINT32_MAX

/**
 * struct graph_header - the first bytes of the file
 * @magic: GRAPH_MAGIC
 * @vertices: number of vertices
 * @neighbors: number of neighbors of all vertices, twice that of the edges
 * @digest: the sum of graph_hash() of all neighbors
 */
struct graph_header {
	uint64_t magic, vertices, neighbors, digest;
};

/* A neighbor that is stored at a position of struct graph.neighbors. */
static inline uint64_t graph_hash(uint64_t position, uint32_t neighbor)
{
	return random_mix(position << 32 ^ position >> 32 ^ neighbor);
}

/**
 * struct graph - a graph in memory
 * @vertices: see struct graph_header
 * @offsets: of the first neighbor of each vertex in @neighbors, and the end of the last
 * @neighbors: vertices
 */
struct graph {
	uint64_t vertices;
	const uint64_t *offsets;
	const uint32_t *neighbors;
};

/**
 * struct work - arrays that an algorithm writes; one element for each vertex
 * @values: bfs: the level, or GRAPH_UNREACHED; pagerank: the score, a float
 * @other: bfs: the queue; pagerank: the contribution of a vertex to its neighbors, a float
 */
struct work {
	uint32_t *values, *other;
};

/* The size of the file; the work of an algorithm has GRAPH_WORK_BYTES for each vertex. */
#define GRAPH_WORK_BYTES 8u
static inline size_t graph_bytes(uint64_t vertices, uint64_t neighbors)
{
	return GRAPH_HEADER_BYTES + (vertices + 1) * sizeof(uint64_t) +
	       neighbors * sizeof(uint32_t);
}

/* Lay a graph out in memory that has the bytes of its file. */
static inline void graph_lay_out(struct graph *graph, const void *at)
{
	graph->vertices = ((const struct graph_header *)at)->vertices;
	graph->offsets = (const uint64_t *)((const char *)at + GRAPH_HEADER_BYTES);
	graph->neighbors = (const uint32_t *)(graph->offsets + graph->vertices + 1);
}

/* make.c: make the file of a Kronecker graph with 2^scale vertices. */
void graph_make(const char *path, unsigned int scale, unsigned int degree);

/*
 * bfs.c, pagerank.c: run an algorithm with some threads, or its beginning if the time is over.
 * Returns the number of edges that it has followed.
 */
uint64_t graph_bfs(const struct graph *graph, const struct work *work, unsigned int threads);
uint64_t graph_pagerank(const struct graph *graph, const struct work *work, unsigned int threads);

/* team.c: threads that work on ranges of the same array */

#define TEAM_MAX 64u

/* The time, as of usage_now(), at which an algorithm stops; 0 = never. */
extern uint64_t team_deadline;
/* Returns true when the time is over. */
bool team_is_late(void);
/* Has team_is_late() returned true? Then the algorithm may not have finished. */
bool team_was_late(void);
/* Run @member in some threads, and wait until all have returned. */
void team_run(unsigned int threads, void *(*member)(void *arg), void *arg);
/* Wait until all threads of the team are here. Returns true in one of them. */
bool team_wait(void);
/*
 * Take the next range of at most @step elements, from *next on. Returns false if all elements up to
 * @end are taken.
 */
bool team_take(uint64_t *next, uint64_t end, uint64_t step, uint64_t *from, uint64_t *to);

#endif /* GRAPH_GRAPH_H */
