// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * hugemap check: one run of the program.
 *
 * During a steered run, this process opens the page of each monitor thread in the run, as `hugemap
 * stat` does. The page stays readable after the process of the thread has ended.
 */
#include "check_run.h"
#include "attach_maps.h"
#include "cli.h"
#include "process.h"
#include "run_tally.h"
#include "system.h"
#include "tally.h"
#include "tell.h"
#include "types.h"
#include "uapi.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define FILE_MIN (4ull << 20) /* files of smaller mappings are left in the page cache */
#define LOOK_FIRST_MS 5
#define LOOK_MOST_MS 100
#define DEPTH_MAX 16 /* most generations of processes below this one */
#define CANNOT_EXECUTE 126

/* The monitor threads of a run: one for each program that was started and steered. */
struct check_watch {
	struct process **list;
	size_t count, room;
	struct check_files *files;
};

/* --- files --- */

static void check_add_file(struct check_files *files, const struct area *area)
{
	char **paths;
	size_t i;

	for (i = 0; i < files->count; i++)
		if (!strcmp(files->paths[i], area->path))
			return;
	paths = cli_grow(files->paths, files->count, &files->room, sizeof(*paths));
	if (!paths)
		return;
	files->paths = paths;
	paths[files->count] = strdup(area->path);
	if (!paths[files->count])
		return;
	if (!files->count++)
		files->dev = area->dev;
}

static void check_find_files(struct check_files *files, pid_t pid)
{
	struct areas areas;
	size_t i;

	if (!areas_read(pid, FILE_MIN, true, &areas))
		for (i = 0; i < areas.count; i++) {
			check_add_file(files, &areas.list[i]);
			files->hints |= areas.list[i].hints;
		}
	areas_free(&areas);
}

static uint64_t check_cached_bytes(int fd)
{
	struct steer_cachestat_range range = {};
	struct steer_cachestat state;

	if (syscall(SYS_cachestat, fd, &range, &state, 0))
		return 0; /* Linux before 6.5 lacks cachestat(2): the count is unknown */
	return state.nr_cache * PAGE_BYTES;
}

double check_drop(const struct check_files *files)
{
	uint64_t bytes = 0, left = 0;
	struct stat st;
	size_t i;

	for (i = 0; i < files->count; i++) {
		int fd = open(files->paths[i], O_RDONLY | O_CLOEXEC);

		if (fd < 0)
			continue; /* the program has deleted it */
		fdatasync(fd);
		posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
		left += check_cached_bytes(fd);
		if (!fstat(fd, &st))
			bytes += (uint64_t)st.st_size;
		close(fd);
	}
	return bytes ? (double)left / (double)bytes : 0;
}

void check_files_free(struct check_files *files)
{
	while (files->count)
		free(files->paths[--files->count]);
	free(files->paths);
	*files = (struct check_files){};
}

/* --- monitor threads --- */

/*
 * Return whether @new is the same program as @old. exec() ends the monitor thread, and that of the
 * new program counts from 0. A monitor thread that ends and starts again in the same program
 * continues its numbers.
 */
static bool check_goes_on(const struct process *old, const struct process *new)
{
	return old->pid == new->pid &&new->page.looks >= old->page.looks;
}

static void check_add_process(struct check_watch *watch, struct process *process)
{
	struct process **list;
	size_t i;

	for (i = 0; i < watch->count; i++) {
		if (!check_goes_on(watch->list[i], process))
			continue;
		process_close(watch->list[i]);
		free(watch->list[i]);
		watch->list[i] = process;
		return;
	}
	list = cli_grow(watch->list, watch->count, &watch->room, sizeof(*list));
	if (!list) {
		process_close(process);
		free(process);
		return;
	}
	watch->list = list;
	list[watch->count++] = process;
}

static void check_look_at(struct check_watch *watch, pid_t pid)
{
	struct process *process = malloc(sizeof(*process));

	if (watch->files)
		check_find_files(watch->files, pid);
	if (!process)
		return;
	if (!process_open(pid, process)) {
		check_add_process(watch, process);
		return;
	}
	process_close(process);
	free(process);
}

/* Look at a process and those below it, or send them @signal: the last generation first. */
static void check_look_below(struct check_watch *watch, pid_t pid, unsigned int depth, int signal)
{
	char path[64], name[400], line[4096], *word, *next;
	struct dirent *entry;
	DIR *tasks;

	if (!signal)
		check_look_at(watch, pid);
	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	tasks = depth < DEPTH_MAX ? opendir(path) : NULL;
	while (tasks && (entry = readdir(tasks))) {
		snprintf(name, sizeof(name), "%s/%s/children", path, entry->d_name);
		if (entry->d_name[0] == '.' || !read_line(name, line, sizeof(line)))
			continue;
		for (next = line; (word = strsep(&next, " "));)
			if (*word)
				check_look_below(watch, (pid_t)atoi(word), depth + 1, signal);
	}
	if (tasks)
		closedir(tasks);
	if (signal)
		kill(pid, signal);
}

static void check_add_page(struct check_result *result, const struct steer_page *page,
			   uint64_t *most)
{
	unsigned int i, act;

	for (i = 0; i < STEER_PAGE_MAPS; i++) {
		const struct steer_map *map = &page->maps[i];

		if (!map->id)
			continue;
		result->maps++;
		result->hinted |= map->pattern == STEER_HINTED;
		for (act = 0; act < STEER_ACTS; act++) {
			result->count[act] += map->count[act];
			result->amount[act] += map->amount[act];
		}
		if (map->why[0] && map->touched >= *most) {
			*most = map->touched;
			snprintf(result->why, sizeof(result->why), "%s", map->why);
		}
	}
	result->used_bytes += tell_mapped(page);
}

static void check_end_watch(struct check_watch *watch, struct check_result *result)
{
	uint64_t most = 0;
	size_t i;

	for (i = 0; i < watch->count; i++) {
		process_read_last(watch->list[i]);
		check_add_page(result, &watch->list[i]->page, &most);
		process_close(watch->list[i]);
		free(watch->list[i]);
	}
	free(watch->list);
}

/* --- signals --- */

/*
 * A signal that ends this process must end the run as well. A terminal sends SIGINT to both, but
 * kill(1) and systemd send SIGTERM or SIGHUP only to this process.
 */
struct check_stop {
	sigset_t set, before;
	int fd; /* readable when a signal of @set is pending */
};

static void check_block(struct check_stop *stop)
{
	static const int numbers[] = { SIGTERM, SIGHUP };
	struct sigaction action;
	size_t i;

	sigemptyset(&stop->set);
	for (i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		if (!sigaction(numbers[i], NULL, &action) && action.sa_handler != SIG_IGN)
			sigaddset(&stop->set, numbers[i]); /* nohup(1) ignores SIGHUP */
	sigprocmask(SIG_BLOCK, &stop->set, &stop->before);
	stop->fd = signalfd(-1, &stop->set, SFD_CLOEXEC);
}

/* The signal stays pending until here, and then ends this process. */
static void check_unblock(struct check_stop *stop)
{
	if (stop->fd >= 0)
		close(stop->fd);
	sigprocmask(SIG_SETMASK, &stop->before, NULL);
}

static void check_end_run(pid_t pid)
{
	sigset_t pending;

	sigpending(&pending);
	check_look_below(NULL, pid, 0, sigismember(&pending, SIGTERM) ? SIGTERM : SIGHUP);
	cli_progress_clear();
}

/* --- the run --- */

/* If this process is killed, the kernel ends the program of the run. */
static void check_follow_parent(pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		_exit(CANNOT_EXECUTE); /* the parent ended before the request */
}

/*
 * If `hugemap run` cannot steer the program, it writes a byte into this pipe: TALLY_OUTSIDE if it
 * helps the program from outside. It finds the pipe by an environment variable.
 */
struct check_tally {
	int read, write;
};

static void check_open_tally(struct check_tally *tally)
{
	int ends[2] = { -1, -1 };

	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK))
		ends[0] = ends[1] = -1;
	*tally = (struct check_tally){ ends[0], ends[1] };
}

/* In the program of the run. */
static void check_pass_tally(const struct check_tally *tally, pid_t parent)
{
	struct stat st;

	if (!fstat(tally->read, &st))
		run_tally_pass(parent, tally->read, &st);
}

/* Return whether `hugemap run` has reported that it does not help the program. */
static bool check_close_tally(const struct check_tally *tally)
{
	unsigned char byte;
	bool missed;

	if (tally->read < 0)
		return false;
	missed = read(tally->read, &byte, 1) == 1 && byte != TALLY_OUTSIDE;
	close(tally->read);
	close(tally->write);
	return missed;
}

_Noreturn static void check_exec(char **argv, bool steered)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	char **run;
	size_t n;

	dup2(null, STDIN_FILENO);
	dup2(null, STDOUT_FILENO);
	for (n = 0; argv[n]; n++)
		;
	run = calloc(n + 4, sizeof(*run));
	if (run && steered) {
		run[0] = (char *)"hugemap";
		run[1] = (char *)"run";
		run[2] = (char *)"--";
		memcpy(run + 3, argv, n * sizeof(*run));
		execv("/proc/self/exe", run);
	} else if (run) {
		/* `hugemap check` may itself run under `hugemap run`. */
		setenv("HUGEMAP_RUN_OFF", "1", 1);
		execvp(argv[0], argv);
	}
	_exit(CANNOT_EXECUTE);
}

int check_run(char **argv, bool steered, struct check_files *files, struct check_result *result)
{
	struct check_watch watch = { .files = files };
	int timeout = steered ? LOOK_FIRST_MS : -1, err;
	struct pollfd end[2] = { { .events = POLLIN }, { .events = POLLIN } };
	pid_t pid, self = getpid();
	double start = cli_now();
	struct check_tally tally;
	struct check_stop stop;
	struct rusage usage;

	*result = (struct check_result){};
	check_open_tally(&tally);
	check_block(&stop);
	pid = fork();
	err = errno;
	if (!pid) {
		check_follow_parent(self);
		check_unblock(&stop);
		check_pass_tally(&tally, self);
		check_exec(argv, steered);
	}
	if (pid < 0) {
		check_close_tally(&tally);
		check_unblock(&stop);
		return -err;
	}
	end[0].fd = (int)syscall(SYS_pidfd_open, pid, 0);
	end[1].fd = stop.fd;
	while (end[0].fd >= 0 && poll(end, 2, timeout) <= 0) {
		check_look_below(&watch, pid, 0, 0);
		timeout = timeout < LOOK_MOST_MS ? timeout * 2 : timeout;
	}
	if (end[1].revents)
		check_end_run(pid);
	check_unblock(&stop);
	while (wait4(pid, &result->status, 0, &usage) < 0 && errno == EINTR)
		;
	result->seconds = cli_now() - start;
	result->missed = check_close_tally(&tally);
	if (end[0].fd >= 0)
		close(end[0].fd);
	result->cpu_seconds = (double)usage.ru_utime.tv_sec + (double)usage.ru_stime.tv_sec +
			      (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
	result->major = (uint64_t)usage.ru_majflt;
	result->read_bytes = (uint64_t)usage.ru_inblock * 512;
	check_end_watch(&watch, result);
	return 0;
}
