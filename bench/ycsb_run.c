// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * A run of a workload of YCSB: a process of the program hugemap-ycsb (bench/ycsb/), in a memory
 * group, on a fresh copy of a loaded store.
 */
#include "undo.h"
#include "ycsb_state.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

/* A run hung if it takes so much longer than its time: the sync is slow on some disks. */
#define HANG_SECONDS 600

/* --- the directories of stores --- */

static void ycsb_path(const struct ycsb *ycsb, const char *name, char path[PATH_MAX])
{
	snprintf(path, PATH_MAX, "%s/%s", ycsb->place.top, name);
}

/* Drop the files of a store from the page cache; returns their size. */
static uint64_t ycsb_evict(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *entry;
	uint64_t bytes = 0;
	char name[2 * PATH_MAX];
	struct stat st;

	while (dir && (entry = readdir(dir))) {
		snprintf(name, sizeof(name), "%s/%s", path, entry->d_name);
		if (stat(name, &st) || !S_ISREG(st.st_mode) || !st.st_size)
			continue;
		bytes += (uint64_t)st.st_blocks * 512;
		files_evict(name, (uint64_t)st.st_size);
	}
	if (dir)
		closedir(dir);
	return bytes;
}

/*
 * Provide the store of a run in @path: the loaded one, a copy of it, or an empty directory. Returns
 * false if ycsb->place.result->error has the reason why not.
 */
static bool ycsb_provide(const struct ycsb *ycsb, unsigned int store, unsigned int workload,
			 char path[PATH_MAX])
{
	char master[PATH_MAX], *error = ycsb->place.result->error;
	char cp[] = "cp", recursive[] = "-r", reflink[] = "--reflink=auto";
	char *copy[6] = { cp, recursive, reflink, master, path, NULL };

	ycsb_path(ycsb, ycsb_store_names[store], master);
	if (workload == YCSB_C) {
		snprintf(path, PATH_MAX, "%s", master);
		return true;
	}
	ycsb_path(ycsb, "work", path);
	tree_remove(path);
	if (workload != YCSB_LOAD)
		return !spawn_wait(copy, error, sizeof(ycsb->place.result->error));
	if (!mkdir(path, 0700))
		return true;
	snprintf(error, sizeof(ycsb->place.result->error), "mkdir: %s", strerror(errno));
	return false;
}

/* --- a run --- */

/* A job on the store in a directory, by hugemap-ycsb. */
struct ycsb_run {
	struct ycsb *ycsb;
	const char *dir;
	struct ycsb_job job;
	enum mode mode;
};

/* Returns the JSON of the run. NULL: ycsb->place.result->error has the reason. @limit: 0 = none */
static json_t *ycsb_carry_out(struct ycsb_run *mine, uint64_t limit)
{
	struct ycsb *ycsb = mine->ycsb;
	char job[YCSB_JOB_TEXT];
	char *argv[] = { ycsb->program, (char *)mine->dir, job, NULL };
	struct program program = {
		.argv = argv,
		.steered = mine->mode == MODE_STEERED,
		.limit_bytes = limit,
		.read_ahead_kb = mine->mode == MODE_STOCK ? STOCK_READ_AHEAD_KB : 0,
		.timeout_s = HANG_SECONDS + (double)mine->job.milliseconds / 1e3 +
			     (double)mine->job.records / 1e3,
	};

	mine->job.pread = mine->mode == MODE_PREAD;
	mine->job.random = mine->mode == MODE_RANDOM;
	ycsb_job_print(&mine->job, job);
	return program_run(&ycsb->place, &program);
}

static bool ycsb_equal(const json_t *a, const char *key, const json_t *b, const char *other)
{
	return json_equal(json_object_get(a, key), json_object_get(b, other));
}

/* Does the store hold exactly the records that the run has inserted? */
static bool ycsb_check_load(const struct ycsb_run *loader, const json_t *loaded)
{
	struct ycsb_run run = *loader;
	json_t *found;
	bool ok;

	run.job.workload = YCSB_CHECK;
	run.mode = MODE_PLAIN;
	found = ycsb_carry_out(&run, 0);
	ok = ycsb_equal(found, "ops", loaded, "ops") &&
	     ycsb_equal(found, "digest", loaded, "digest");
	json_decref(found);
	return ok;
}

bool ycsb_make_master(struct ycsb *ycsb, unsigned int store)
{
	struct ycsb_run run = { .ycsb = ycsb, .job = ycsb->job };
	char path[PATH_MAX];
	json_t *loaded;
	bool ok;

	ycsb_path(ycsb, ycsb_store_names[store], path);
	run.dir = path;
	run.job.store = store;
	run.job.workload = YCSB_LOAD;
	run.job.operations = run.job.records;
	run.job.milliseconds = 0;
	run.job.settle = true;
	cli_progress("loading %s", ycsb_store_names[store]);
	loaded = mkdir(path, 0700) ? NULL : ycsb_carry_out(&run, 0);
	ok = loaded && ycsb_check_load(&run, loaded);
	if (!ok)
		program_error(&ycsb->place, "load, %s, without a limit: %s",
			      ycsb_store_names[store],
			      loaded ? "the store has other records" : ycsb->place.result->error);
	json_decref(loaded);
	ycsb->store_bytes[store] = ycsb_evict(path);
	return ok;
}

bool ycsb_is_warm(const struct ycsb *ycsb, unsigned int workload, unsigned int store)
{
	return workload != YCSB_LOAD && ycsb->store_bytes[store] <= ycsb->pool;
}

json_t *ycsb_run_once(struct ycsb *ycsb, enum mode mode, unsigned int workload, unsigned int store,
		      unsigned int turn)
{
	const char *name = ycsb_workload_names[workload], *why = NULL;
	struct ycsb_run run = { .ycsb = ycsb, .job = ycsb->job, .mode = mode };
	json_t *result = NULL;
	char path[PATH_MAX];

	cli_progress("%s, %s, turn %u of %u: %s", name, ycsb_store_names[store], turn + 1,
		     ycsb->runs, ycsb_mode_names[mode]);
	run.dir = path;
	run.job.store = store;
	run.job.workload = workload;
	run.job.seed = turn + 1;
	run.job.warm = ycsb_is_warm(ycsb, workload, store);
	if (workload == YCSB_LOAD)
		run.job.operations = run.job.records;
	if (ycsb_provide(ycsb, store, workload, path)) {
		ycsb_evict(path);
		result = ycsb_carry_out(&run, ycsb->pool + ALLOWANCE);
	}
	if (!result)
		why = ycsb->place.result->error;
	else if (!ycsb_equal(result, "digest", result, "expected"))
		why = "an answer was wrong";
	else if (workload == YCSB_LOAD && !ycsb_check_load(&run, result))
		why = "the store has other records than were inserted";
	if (!why)
		return result;
	program_error(&ycsb->place, "%s, %s, %s: %s", name, ycsb_store_names[store],
		      ycsb_mode_names[mode], why);
	json_decref(result);
	return NULL;
}
