// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * hugemap-exercise: see exercise.h. Options, processes and threads, and pauses in
 * which a command is run: a remount, or the caches being dropped.
 */
#include "exercise.h"

#include <errno.h>
#include <getopt.h>
#include <libgen.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOOK_EVERY 7 /* operations; --anew */
#define PROGRESS 10000 /* operations; the first worker says how far it is */

/* Shared by all processes: where they wait for each other around the hook. */
struct meeting {
	pthread_barrier_t barrier;
	int hook_status;
	atomic_ulong looks, others; /* see look() */
};

static struct meeting *meeting;

/* Where the threads of this process wait for each other to map anew. */
static pthread_barrier_t anew;
static atomic_ulong anew_at; /* the operation before which somebody wanted it last */

static const char usage[] =
	"usage: hugemap-exercise [options] FILE\n"
	"  --seed N           the run is the same for the same seed and options (1)\n"
	"  --ops N            operations of each worker (10000)\n"
	"  --size BYTES       largest size of the file, K, M or G (16M)\n"
	"  --processes N      each with a file of its own: FILE.0, FILE.1, ... (1)\n"
	"  --threads N        in each process, each with pages of its own of one file (1)\n"
	"  --verify-lower DIR where FILE lies below: compared after each sync\n"
	"  --hook COMMAND     run it while all files are closed ...\n"
	"  --hook-every N     ... every N operations (10000)\n"
	"  --hook-open        or while they are open and mapped\n"
	"  --pollute          store past the end of the file too, in its last page\n"
	"  --without A,B      leave out operations; --list names them\n"
	"  --rarely A,B       do these a twentieth as often\n"
	"  --anew N           every N operations map the file anew if the kernel serves its\n"
	"                     mappings; and say how often it was somebody else\n"
	"  --log N            operations printed on a failure (50)\n"
	"  --keep             leave the files\n"
	"  --verbose          each operation, as it is done\n";

static uint64_t number(const char *text)
{
	char *end;
	uint64_t n = strtoull(text, &end, 0);

	switch (*end) {
	case 'G':
		n <<= 10;
		__attribute__((fallthrough));
	case 'M':
		n <<= 10;
		__attribute__((fallthrough));
	case 'K':
		n <<= 10;
		end++;
	}
	if (end == text || *end) {
		fprintf(stderr, "not a number: %s\n", text);
		exit(2);
	}
	return n;
}

static void parse(int argc, char **argv, struct options *o)
{
	enum {
		SEED = 256,
		OPS,
		SIZE,
		PROCESSES,
		THREADS,
		LOWER,
		HOOK,
		EVERY,
		OPEN,
		POLLUTE,
		WITHOUT,
		RARELY,
		ANEW,
		LOGGED,
		KEEP,
		VERBOSE,
		LIST,
		HELP
	};
	static const struct option all[] = {
		{ "seed", 1, NULL, SEED },
		{ "ops", 1, NULL, OPS },
		{ "size", 1, NULL, SIZE },
		{ "processes", 1, NULL, PROCESSES },
		{ "threads", 1, NULL, THREADS },
		{ "verify-lower", 1, NULL, LOWER },
		{ "hook", 1, NULL, HOOK },
		{ "hook-every", 1, NULL, EVERY },
		{ "hook-open", 0, NULL, OPEN },
		{ "pollute", 0, NULL, POLLUTE },
		{ "without", 1, NULL, WITHOUT },
		{ "rarely", 1, NULL, RARELY },
		{ "anew", 1, NULL, ANEW },
		{ "log", 1, NULL, LOGGED },
		{ "keep", 0, NULL, KEEP },
		{ "verbose", 0, NULL, VERBOSE },
		{ "list", 0, NULL, LIST },
		{ "help", 0, NULL, HELP },
		{ NULL, 0, NULL, 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "", all, NULL)) != -1) {
		switch (c) {
		case SEED:
			o->seed = number(optarg);
			break;
		case OPS:
			o->ops = number(optarg);
			break;
		case SIZE:
			o->size = number(optarg);
			break;
		case PROCESSES:
			o->processes = (unsigned int)number(optarg);
			break;
		case THREADS:
			o->threads = (unsigned int)number(optarg);
			break;
		case LOWER:
			o->lower = optarg;
			break;
		case HOOK:
			o->hook = optarg;
			break;
		case EVERY:
			o->hook_every = number(optarg);
			break;
		case OPEN:
			o->hook_open = true;
			break;
		case POLLUTE:
			o->pollute = true;
			break;
		case WITHOUT:
			o->without = optarg;
			break;
		case RARELY:
			o->rarely = optarg;
			break;
		case ANEW:
			o->anew = number(optarg);
			break;
		case LOGGED:
			o->log = (unsigned int)number(optarg);
			break;
		case KEEP:
			o->keep = true;
			break;
		case VERBOSE:
			o->verbose = true;
			break;
		case LIST:
			list_operations();
			exit(0);
		case HELP:
			fputs(usage, stdout);
			exit(0);
		default:
			fputs(usage, stderr);
			exit(2);
		}
	}
	if (optind != argc - 1 || !o->processes || o->processes > 64 || !o->threads ||
	    o->threads > 64 || o->size < PAGE || !o->hook_every ||
	    (o->without && !known_operations(o->without)) ||
	    (o->rarely && !known_operations(o->rarely))) {
		fputs(usage, stderr);
		exit(2);
	}
	o->path = argv[optind];
}

static void pause_for_hook(struct worker *w)
{
	note(w, "hook", 0, 0, w->opts->hook_open);
	if (!w->opts->hook_open)
		close_files(w);
	if (pthread_barrier_wait(&meeting->barrier) == PTHREAD_BARRIER_SERIAL_THREAD)
		meeting->hook_status = system(w->opts->hook);
	pthread_barrier_wait(&meeting->barrier);
	if (meeting->hook_status)
		fail(w, "the hook ended with status %#x: %s", meeting->hook_status, w->opts->hook);
	if (!w->opts->hook_open)
		open_files(w);
	verify(w);
}

/* Who serves the mappings that this worker keeps? That is counted. */
static enum server look(struct worker *w)
{
	enum server server = served_by(w);

	if (server != BY_NOBODY)
		atomic_fetch_add(&meeting->looks, 1);
	if (server == BY_OTHERS)
		atomic_fetch_add(&meeting->others, 1);
	return server;
}

/*
 * A library that has left a file to the kernel can begin again once no mapping of it is
 * left: so all threads let theirs go at the same time.
 */
static void begin_anew(struct worker *w)
{
	bool wanted;

	if (look(w) == BY_KERNEL)
		atomic_store(&anew_at, w->op);
	pthread_barrier_wait(&anew);
	wanted = atomic_load(&anew_at) == w->op;
	if (wanted)
		unmap_all(w);
	pthread_barrier_wait(&anew);
	if (wanted)
		keep_some(w);
}

static void *work(void *arg)
{
	struct worker *w = arg;

	open_files(w);
	for (w->op = 1; w->op <= w->opts->ops; w->op++) {
		operate(w);
		if (w->opts->anew && w->op % w->opts->anew == 0)
			begin_anew(w);
		else if (w->opts->anew && w->op % LOOK_EVERY == 0)
			look(w);
		if (w->op % PROGRESS == 0 && !w->process && !w->thread)
			fprintf(stderr, "%llu of %llu operations\n", (unsigned long long)w->op,
				(unsigned long long)w->opts->ops);
		if (w->opts->hook && w->op % w->opts->hook_every == 0)
			pause_for_hook(w);
	}
	pipes_end(w);
	verify(w);
	if (fsync(w->fd))
		fail(w, "fsync at the end: %s", strerror(errno));
	check_below(w, "after the last fsync, below", 0, w->model->size);
	close_files(w);
	return NULL;
}

static struct worker *new_worker(const struct options *o, struct model *model, unsigned int process,
				 unsigned int thread)
{
	struct worker *w = calloc(1, sizeof(*w));
	char *copy = strdup(o->path);

	if (!w || !copy || posix_memalign((void **)&w->buf, PAGE, LARGEST + PAGE)) {
		fputs("out of memory\n", stderr);
		exit(2);
	}
	w->opts = o;
	w->model = model;
	w->process = process;
	w->thread = thread;
	w->rng = o->seed * 0x2545f4914f6cdd1dull + process * 64 + thread;
	snprintf(w->path, sizeof(w->path), "%s.%u", o->path, process);
	snprintf(w->other, sizeof(w->other), "%s.%u.%u.other", o->path, process, thread);
	if (o->lower)
		snprintf(w->lower, sizeof(w->lower), "%s/%s.%u", o->lower, basename(copy), process);
	if (o->lower)
		snprintf(w->outside, sizeof(w->outside), "%s/outside.%u.%u", o->lower, process,
			 thread);
	free(copy);
	return w;
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

static int run_process(const struct options *o, unsigned int process)
{
	struct model model = { .polluted = UINT64_MAX };
	struct worker *workers[64];
	pthread_t threads[64];
	unsigned int i;

	/* Room behind the largest size: the zeros past the end are compared too. */
	model.bytes = mmap(NULL, round_up(o->size, BLOCK) + 2 * LARGEST, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (model.bytes == MAP_FAILED) {
		perror("mmap of the model");
		return 2;
	}
	for (i = 0; i < o->threads; i++)
		workers[i] = new_worker(o, &model, process, i);
	pthread_barrier_init(&anew, NULL, o->threads);
	prepare(workers[0]);
	for (i = 1; i < o->threads; i++) {
		if (pthread_create(&threads[i], NULL, work, workers[i])) {
			fputs("no thread\n", stderr);
			return 2;
		}
	}
	work(workers[0]);
	for (i = 1; i < o->threads; i++)
		pthread_join(threads[i], NULL);
	for (i = 0; i < o->threads; i++) {
		unlink(workers[i]->other);
		if (workers[i]->outside[0])
			unlink(workers[i]->outside);
		free(workers[i]->buf);
		if (!o->keep && !i)
			unlink(workers[i]->path);
		free(workers[i]);
	}
	return 0;
}

static int wait_for_all(const pid_t *pids, unsigned int n)
{
	unsigned int left, i;
	int result = 0;

	for (left = n; left; left--) {
		int status;
		pid_t pid = wait(&status);

		if (pid < 0) {
			perror("wait");
			return 2;
		}
		if (!status)
			continue;
		if (WIFSIGNALED(status) && !result)
			fprintf(stderr, "FAILED: process %d was killed by signal %d (%s)\n",
				(int)pid, WTERMSIG(status), strsignal(WTERMSIG(status)));
		/* The rest may wait for it at the barrier for ever. */
		if (!result)
			for (i = 0; i < n; i++)
				if (pids[i] != pid)
					kill(pids[i], SIGKILL);
		result = result ? result : 1;
	}
	return result;
}

int main(int argc, char **argv)
{
	struct options o = {
		.program = "hugemap-exercise",
		.more = "",
		.seed = 1,
		.ops = 10000,
		.size = 16 << 20,
		.processes = 1,
		.threads = 1,
		.log = 50,
		.hook_every = 10000,
	};
	pthread_barrierattr_t attr;
	pid_t pids[64];
	unsigned int i;
	int result;

	if (argc > 1 && !strcmp(argv[1], "--child"))
		return child_main(argc, argv);
	parse(argc, argv, &o);
	meeting = mmap(NULL, sizeof(*meeting), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		       -1, 0);
	if (meeting == MAP_FAILED) {
		perror("mmap");
		return 2;
	}
	pthread_barrierattr_init(&attr);
	pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(&meeting->barrier, &attr, o.processes * o.threads);
	/* Always in a child, so that a SIGBUS is reported like any other failure. */
	for (i = 0; i < o.processes; i++) {
		pids[i] = fork();
		if (pids[i] < 0) {
			perror("fork");
			return 2;
		}
		if (!pids[i])
			_exit(run_process(&o, i));
	}
	result = wait_for_all(pids, o.processes);
	if (!result)
		printf("%llu operations by each of %u processes with %u threads, "
		       "seed %llu: all bytes as expected\n",
		       (unsigned long long)o.ops, o.processes, o.threads,
		       (unsigned long long)o.seed);
	if (!result && o.anew)
		printf("%lu looks at who serves the mappings: %lu times not the kernel\n",
		       atomic_load(&meeting->looks), atomic_load(&meeting->others));
	return result;
}
