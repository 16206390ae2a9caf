// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Breadth-first search: level by level, top down. All threads take vertices of the queue, and
 * append the neighbors that no thread has reached before.
 */
#include "graph.h"

#include <string.h>

#define STEP 64u
#define FOUND_MAX 256u

/**
 * struct search - a search
 * @graph: see struct graph
 * @work: see struct work
 * @level: of the vertices that are being visited
 * @next: the next of these in the queue
 * @end: their end in the queue
 * @tail: the end of the queue
 * @edges: number of edges that were followed
 */
struct search {
	const struct graph *graph;
	const struct work *work;
	uint32_t level;
	uint64_t next, end, tail, edges;
};

/* Vertices that a thread has reached, and not appended to the queue yet. */
struct found {
	unsigned int n;
	uint32_t vertices[FOUND_MAX];
};

static void bfs_append(struct search *search, struct found *found)
{
	uint64_t at = __atomic_fetch_add(&search->tail, found->n, __ATOMIC_RELAXED);

	memcpy(search->work->other + at, found->vertices, found->n * sizeof(found->vertices[0]));
	found->n = 0;
}

static bool bfs_reach(struct search *search, uint32_t vertex)
{
	uint32_t *level = &search->work->values[vertex], unreached = GRAPH_UNREACHED;

	return __atomic_load_n(level, __ATOMIC_RELAXED) == GRAPH_UNREACHED &&
	       __atomic_compare_exchange_n(level, &unreached, search->level + 1, false,
					   __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

static void bfs_visit(struct search *search, uint32_t vertex, struct found *found)
{
	const struct graph *graph = search->graph;
	uint64_t i;

	for (i = graph->offsets[vertex]; i < graph->offsets[vertex + 1]; i++) {
		if (!bfs_reach(search, graph->neighbors[i]))
			continue;
		if (found->n == FOUND_MAX)
			bfs_append(search, found);
		found->vertices[found->n++] = graph->neighbors[i];
	}
}

static void *bfs_main(void *arg)
{
	struct search *search = arg;
	const struct graph *graph = search->graph;
	struct found found = {};
	uint64_t from, to, edges = 0;

	while (search->next < search->end) {
		team_wait();
		while (team_take(&search->next, search->end, STEP, &from, &to))
			for (; from < to && !team_is_late(); from++) {
				uint32_t vertex = search->work->other[from];

				edges += graph->offsets[vertex + 1] - graph->offsets[vertex];
				bfs_visit(search, vertex, &found);
			}
		bfs_append(search, &found);
		if (team_wait()) {
			search->level++;
			search->next = search->end;
			search->end = team_is_late() ? search->next : search->tail;
		}
		team_wait();
	}
	__atomic_fetch_add(&search->edges, edges, __ATOMIC_RELAXED);
	return NULL;
}

/* The search starts at the first vertex that has neighbors. */
uint64_t graph_bfs(const struct graph *graph, const struct work *work, unsigned int threads)
{
	struct search search = { .graph = graph, .work = work, .end = 1, .tail = 1 };
	uint32_t source = 0;

	while (graph->offsets[source] == graph->offsets[source + 1])
		source++;
	memset(work->values, 0xff, graph->vertices * sizeof(*work->values));
	work->values[source] = 0;
	work->other[0] = source;
	team_run(threads, bfs_main, &search);
	return search.edges;
}
