// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* PageRank: each vertex adds up the contributions of its neighbors, some times. */
#include "graph.h"

#define STEP 1024u
#define ITERATIONS 3u
#define DAMPING 0.85f

/**
 * struct ranking - scores and contributions of all vertices
 * @graph: see struct graph
 * @scores: see struct work
 * @contributions: see struct work
 * @next: the next vertex of the first and of the second half of an iteration
 * @left: number of iterations that are left
 * @edges: number of edges that were followed
 */
struct ranking {
	const struct graph *graph;
	float *scores, *contributions;
	uint64_t next[2];
	unsigned int left;
	uint64_t edges;
};

static void pagerank_contribute(struct ranking *ranking)
{
	const uint64_t *offsets = ranking->graph->offsets;
	uint64_t v, end, n = ranking->graph->vertices;

	while (!team_is_late() && team_take(&ranking->next[0], n, STEP, &v, &end))
		for (; v < end; v++)
			ranking->contributions[v] =
				offsets[v + 1] > offsets[v] ?
					ranking->scores[v] / (float)(offsets[v + 1] - offsets[v]) :
					0;
}

static void pagerank_collect(struct ranking *ranking)
{
	const struct graph *graph = ranking->graph;
	float base = (1 - DAMPING) / (float)graph->vertices;
	uint64_t v, end, i, edges = 0;

	while (team_take(&ranking->next[1], graph->vertices, STEP, &v, &end))
		for (; v < end && !team_is_late(); v++) {
			float sum = 0;

			edges += graph->offsets[v + 1] - graph->offsets[v];
			for (i = graph->offsets[v]; i < graph->offsets[v + 1]; i++)
				sum += ranking->contributions[graph->neighbors[i]];
			ranking->scores[v] = base + DAMPING * sum;
		}
	__atomic_fetch_add(&ranking->edges, edges, __ATOMIC_RELAXED);
}

static void *pagerank_main(void *arg)
{
	struct ranking *ranking = arg;

	while (ranking->left) {
		team_wait();
		pagerank_contribute(ranking);
		if (team_wait())
			ranking->next[1] = 0;
		team_wait();
		pagerank_collect(ranking);
		if (team_wait()) {
			ranking->next[0] = 0;
			ranking->left = team_is_late() ? 0 : ranking->left - 1;
		}
		team_wait();
	}
	return NULL;
}

uint64_t graph_pagerank(const struct graph *graph, const struct work *work, unsigned int threads)
{
	struct ranking ranking = {
		.graph = graph,
		.scores = (float *)work->values,
		.contributions = (float *)work->other,
		.left = ITERATIONS,
	};
	uint64_t v;

	for (v = 0; v < graph->vertices; v++)
		ranking.scores[v] = 1 / (float)graph->vertices;
	team_run(threads, pagerank_main, &ranking);
	return ranking.edges;
}
