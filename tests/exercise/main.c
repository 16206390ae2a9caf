// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * hugemap-exercise: see exercise.h. Options, processes and threads, and pauses in which a
 * hook command runs, which remounts or drops caches.
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

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define WORKERS 64u /* most processes, and most threads of each */
#define PROGRESS 10000 /* operations between two lines of progress by the first worker */

/* Shared by all processes, which wait for each other before and after the hook. */
struct meeting {
	pthread_barrier_t barrier;
	int hook_status;
};

static struct meeting *meeting;

/* The threads of this process wait here until all have unmapped the file. */
static pthread_barrier_t unmap_barrier;

static const char usage[] =
	"usage: %s [options] FILE\n"
	"  --seed N           seed of the random numbers; the same seed repeats a run (1)\n"
	"  --ops N            operations of each worker (10000)\n"
	"  --size BYTES       largest size of the file, with K, M or G (16M)\n"
	"  --processes N      processes, each with its own file: FILE.0, FILE.1, ... (1)\n"
	"  --threads N        threads of each process, each with its own pages of the file (1)\n"
	"  --verify-lower DIR compare the file in DIR of the lower file system after each sync\n"
	"  --hook COMMAND     run COMMAND while all files are closed ...\n"
	"  --hook-every N     ... every N operations (10000)\n"
	"  --hook-open        run it while the files are open and mapped\n"
	"  --pollute          store past the end of the file too, in its last page\n"
	"  --without A,B      leave out operations; --list prints their names\n"
	"  --rarely A,B       run these operations a twentieth as often\n"
	"  --anew N           let all threads unmap everything every N operations\n"
	"  --log N            newest operations printed on a failure (50)\n"
	"  --keep             do not delete the files\n"
	"  --verbose          print each operation before it runs\n";

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
	bool list = false, help = false;
	const struct {
		const char *name;
		uint64_t *number;
		const char **text;
		bool *flag;
	} all[] = {
		{ "seed", .number = &o->seed },
		{ "ops", .number = &o->ops },
		{ "size", .number = &o->size },
		{ "processes", .number = &o->processes },
		{ "threads", .number = &o->threads },
		{ "verify-lower", .text = &o->lower },
		{ "hook", .text = &o->hook },
		{ "hook-every", .number = &o->hook_every },
		{ "hook-open", .flag = &o->hook_open },
		{ "pollute", .flag = &o->pollute },
		{ "without", .text = &o->without },
		{ "rarely", .text = &o->rarely },
		{ "anew", .number = &o->unmap_every },
		{ "log", .number = &o->log },
		{ "keep", .flag = &o->keep_files },
		{ "verbose", .flag = &o->verbose },
		{ "list", .flag = &list },
		{ "help", .flag = &help },
	};
	struct option known[COUNT(all) + 1] = { 0 };
	int which, end;

	for (which = 0; which < (int)COUNT(all); which++)
		known[which] = (struct option){ all[which].name, !all[which].flag, NULL, 0 };
	while (!(end = getopt_long(argc, argv, "", known, &which))) {
		if (all[which].number)
			*all[which].number = number(optarg);
		else if (all[which].text)
			*all[which].text = optarg;
		else
			*all[which].flag = true;
	}
	if (list)
		list_operations();
	if (help)
		printf(usage, PROGRAM);
	if (list || help)
		exit(0);
	if (end != -1 || optind != argc - 1 || !o->processes || o->processes > WORKERS ||
	    !o->threads || o->threads > WORKERS || o->size < PAGE || !o->hook_every ||
	    (o->without && !are_operations(o->without)) ||
	    (o->rarely && !are_operations(o->rarely))) {
		fprintf(stderr, usage, PROGRAM);
		exit(2);
	}
	o->path = argv[optind];
}

static void pause_for_hook(struct worker *w)
{
	log_operation(w, "hook", 0, 0, w->opts->hook_open);
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

/* Have a moment without any mapping, in which the monitor thread of steering ends. */
static void unmap_together(struct worker *w)
{
	unmap_all(w);
	pthread_barrier_wait(&unmap_barrier);
	map_some(w);
}

static void *work(void *arg)
{
	struct worker *w = arg;

	open_files(w);
	for (w->op = 1; w->op <= w->opts->ops; w->op++) {
		operate(w);
		if (w->opts->unmap_every && w->op % w->opts->unmap_every == 0)
			unmap_together(w);
		if (w->op % PROGRESS == 0 && !w->process && !w->thread)
			fprintf(stderr, "%llu of %llu operations\n", (unsigned long long)w->op,
				(unsigned long long)w->opts->ops);
		if (w->opts->hook && w->op % w->opts->hook_every == 0)
			pause_for_hook(w);
	}
	after_all(w);
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
	if (o->lower) {
		snprintf(w->lower, sizeof(w->lower), "%s/%s.%u", o->lower, basename(copy), process);
		snprintf(w->outside, sizeof(w->outside), "%s/outside.%u.%u", o->lower, process,
			 thread);
	}
	free(copy);
	return w;
}

/* Several threads start on a file of full size, which none of them changes. */
static void prepare(struct worker *w)
{
	unlink(w->path);
	if (w->opts->threads == 1)
		return;
	open_files(w);
	resize_file(w, w->opts->size);
	close_files(w);
}

static int run_process(const struct options *o, unsigned int process)
{
	struct model model = { .polluted = UINT64_MAX };
	struct worker *workers[WORKERS];
	pthread_t threads[WORKERS];
	unsigned int i;

	/* The zeros past the largest size are compared too. */
	model.bytes = mmap(NULL, round_up(o->size, BLOCK) + 2 * LARGEST, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (model.bytes == MAP_FAILED) {
		perror("mmap of the model");
		return 2;
	}
	for (i = 0; i < o->threads; i++)
		workers[i] = new_worker(o, &model, process, i);
	pthread_barrier_init(&unmap_barrier, NULL, (unsigned int)o->threads);
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
		if (!o->keep_files && !i)
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
		/* The other processes may wait for this one at the barrier for ever. */
		if (!result)
			for (i = 0; i < n; i++)
				if (pids[i] != pid)
					kill(pids[i], SIGKILL);
		if (!result)
			result = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
	}
	return result;
}

/* A single one runs in this process, because not every sanitizer follows fork(). */
static int run_processes(const struct options *o)
{
	pid_t pids[WORKERS];
	unsigned int i;

	if (o->processes == 1)
		return run_process(o, 0);
	for (i = 0; i < o->processes; i++) {
		pids[i] = fork();
		if (pids[i] < 0) {
			perror("fork");
			return 2;
		}
		if (!pids[i])
			_exit(run_process(o, i));
	}
	return wait_for_all(pids, i);
}

int main(int argc, char **argv)
{
	struct options o = {
		.seed = 1,
		.ops = 10000,
		.size = 16 << 20,
		.processes = 1,
		.threads = 1,
		.log = 50,
		.hook_every = 10000,
	};
	pthread_barrierattr_t attr;
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
	pthread_barrier_init(&meeting->barrier, &attr, (unsigned int)(o.processes * o.threads));
	result = run_processes(&o);
	if (!result)
		printf("%llu operations by each of %llu processes with %llu threads, "
		       "seed %llu: all bytes as expected\n",
		       (unsigned long long)o.ops, (unsigned long long)o.processes,
		       (unsigned long long)o.threads, (unsigned long long)o.seed);
	return result;
}
