// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * hugemap-exercise-pool: see pool.h.
 */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ops.h"
#include "pool.h"

#define PROGRESS 20000 /* operations; the first worker says how far it is */

struct hugemap_pool *pool;

const struct operation operations[] = {
	{ "pread", 60, op_pread },
	{ "pwrite", 60, op_pwrite },
	{ "read-self", 10, op_read_self },
	{ "write-self", 10, op_write_self },
	{ "keep", 20, op_keep },
	{ "kept-read", 150, op_kept_read },
	{ "kept-write", 250, op_kept_write },
	{ "fresh-read", 20, op_fresh_read },
	{ "fresh-write", 30, op_fresh_write },
	{ "stream", 10, op_stream },
	{ "unmap", 6, op_unmap },
	{ "remap", 6, op_remap },
	{ "sync", 25, op_sync },
	{ "flush", 6, op_flush },
	{ "advise", 25, op_advise },
	{ "prefetch", 8, op_prefetch },
	{ "truncate", 12, op_truncate },
	{ "punch", 12, op_punch },
	{ "direct-into", 25, op_direct_into },
	{ "direct-from", 15, op_direct_from },
	{ "pin", 8, op_pin },
	{ "limit", 3, op_limit },
	{ "verify", 1, op_verify },
	{ "anew", 2, op_anew },
};
const unsigned int noperations = sizeof(operations) / sizeof(operations[0]);

static const char usage[] =
	"usage: hugemap-exercise-pool [options] FILE\n"
	"  --seed N       the run is the same for the same seed and options (1)\n"
	"  --ops N        operations of each thread (10000)\n"
	"  --size BYTES   largest size of the file (16777216)\n"
	"  --threads N    each with pages of its own (1)\n"
	"  --without A,B  leave out operations; --list names them\n"
	"  --log N        operations printed on a failure (50)\n"
	"  --verbose      each operation, as it is done\n";

/* A small pool, and everything in it early and soon. */
void pool_begin(uint64_t seed)
{
	struct hugemap_pool_options options = { .size = sizeof(options) };
	uint64_t random = seed * 0x9e3779b97f4a7c15ull;
	int err;

	options.bytes = BLOCK * (4 + (random >> 60) % 8);
	options.dirty_ratio = random >> 58 & 1 ? 0 : 10;
	options.dirty_expire_ms = 1 + (uint32_t)(random >> 40) % 50;
	options.evict_batch = random >> 57 & 1 ? 0 : 1;
	options.no_readahead = !(random >> 55 & 3);
	options.handlers = 1 + (uint32_t)(random >> 53 & 3) % 3;
	options.io = random >> 51 & 3 ? HUGEMAP_IO_AUTO : HUGEMAP_IO_THREADS;
	options.queue_depth = random >> 50 & 1 ? 0 : 4;
	err = hugemap_pool_create(&options, &pool);
	if (err) {
		fprintf(stderr, "no pool: %s (%s)\n", strerror(-err), hugemap_reason());
		exit(err == -EPERM || err == -ENOSYS || err == -EOPNOTSUPP ? 77 : 2);
	}
}

void pool_end(void)
{
	int err = hugemap_pool_destroy(pool);

	if (err) {
		fprintf(stderr, "FAILED: the pool stays: %s\n", strerror(-err));
		_exit(1);
	}
}

static uint64_t number(const char *text)
{
	char *end;
	uint64_t n = strtoull(text, &end, 0);

	if (end == text || *end) {
		fprintf(stderr, "not a number: %s\n", text);
		exit(2);
	}
	return n;
}

static void parse(int argc, char **argv, struct options *o)
{
	static const struct option all[] = {
		{ "seed", 1, NULL, 's' },    { "ops", 1, NULL, 'o' },	  { "size", 1, NULL, 'z' },
		{ "threads", 1, NULL, 't' }, { "without", 1, NULL, 'w' }, { "log", 1, NULL, 'l' },
		{ "verbose", 0, NULL, 'v' }, { "list", 0, NULL, 'L' },	  { NULL, 0, NULL, 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "", all, NULL)) != -1) {
		switch (c) {
		case 's':
			o->seed = number(optarg);
			break;
		case 'o':
			o->ops = number(optarg);
			break;
		case 'z':
			o->size = number(optarg);
			break;
		case 't':
			o->threads = (unsigned int)number(optarg);
			break;
		case 'w':
			o->without = optarg;
			break;
		case 'l':
			o->log = (unsigned int)number(optarg);
			break;
		case 'v':
			o->verbose = true;
			break;
		case 'L':
			list_operations();
			exit(0);
		default:
			fputs(usage, stderr);
			exit(2);
		}
	}
	if (optind != argc - 1 || !o->threads || o->threads > 16 || o->size < PAGE ||
	    (o->without && !known_operations(o->without))) {
		fputs(usage, stderr);
		exit(2);
	}
	o->path = argv[optind];
}

static void *work(void *arg)
{
	struct worker *w = arg;

	open_files(w);
	for (w->op = 1; w->op <= w->opts->ops; w->op++) {
		operate(w);
		if (w->op % PROGRESS == 0 && !w->thread)
			fprintf(stderr, "%llu of %llu operations\n", (unsigned long long)w->op,
				(unsigned long long)w->opts->ops);
	}
	verify(w);
	close_files(w);
	return NULL;
}

/* Threads start on a file of full size, which none of them changes. */
static void prepare(struct worker *w)
{
	unlink(w->path);
	if (w->opts->threads == 1)
		return;
	open_files(w);
	if (ftruncate(w->fd, (off_t)w->opts->size))
		fail(w, "ftruncate: %s", strerror(errno));
	resized(w, w->opts->size);
	close_files(w);
}

int main(int argc, char **argv)
{
	struct options o = {
		.program = "hugemap-exercise-pool",
		.more = "",
		.seed = 1,
		.ops = 10000,
		.size = 16 << 20,
		.processes = 1,
		.threads = 1,
		.log = 50,
	};
	struct model model = { .polluted = UINT64_MAX };
	pthread_t threads[16];
	struct worker *all;
	unsigned int i;

	parse(argc, argv, &o);
	o.lower = o.path;
	signal(SIGXFSZ, SIG_IGN);
	/* Room behind the largest size: the zeros past the end are compared too. */
	model.bytes = mmap(NULL, round_up(o.size, BLOCK) + 2 * LARGEST, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	all = calloc(o.threads, sizeof(*all));
	if (model.bytes == MAP_FAILED || !all) {
		fputs("out of memory\n", stderr);
		return 2;
	}
	for (i = 0; i < o.threads; i++) {
		struct worker *w = &all[i];

		w->opts = &o;
		w->model = &model;
		w->thread = i;
		w->rng = o.seed * 0x2545f4914f6cdd1dull + i;
		snprintf(w->path, sizeof(w->path), "%s", o.path);
		snprintf(w->lower, sizeof(w->lower), "%s", o.path);
		snprintf(w->other, sizeof(w->other), "%s.%u.other", o.path, i);
		if (posix_memalign((void **)&w->buf, PAGE, LARGEST + PAGE)) {
			fputs("out of memory\n", stderr);
			return 2;
		}
	}
	pool_begin(o.seed);
	prepare(&all[0]);
	for (i = 1; i < o.threads; i++) {
		if (pthread_create(&threads[i], NULL, work, &all[i])) {
			fputs("no thread\n", stderr);
			return 2;
		}
	}
	work(&all[0]);
	for (i = 1; i < o.threads; i++)
		pthread_join(threads[i], NULL);
	pool_end();
	for (i = 0; i < o.threads; i++) {
		unlink(all[i].other);
		free(all[i].buf);
	}
	unlink(o.path);
	free(all);
	printf("%llu operations by each of %u threads, seed %llu: all bytes as expected\n",
	       (unsigned long long)o.ops, o.threads, (unsigned long long)o.seed);
	return 0;
}
