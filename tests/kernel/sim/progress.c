// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Contests: a starved task and two competitors use the same file. Each sleep of the starved task
 * lasts until a competitor has finished an operation (sched_starve()), and locks are granted in the
 * order in which tasks ask for them, as in Linux. So an operation that starts again from the
 * beginning whenever another task was faster never ends.
 *
 * An operation of the starved task must end within SLEEPS_MAX sleeps. Most need less than 20.
 */
#include "world.h"

#include <stdio.h>
#include <string.h>

#define SLEEPS_MAX 150u
#define OPERATIONS 6u /* of the starved task */
/*
 * A change of the lower file yields to a store for HZ / 10. A sleep of the starved task lasts for
 * up to 13 steps of the clock, and must take less.
 */
#define TICK_MAX 4u
#define COMPETITORS 2u

/*
 * The starved task uses the first blocks, and the competitors the block after them. The file
 * fills one index node and one page of the next one, so appended data needs that second node.
 */
#define FILE_PAGES (HM_NODE_SLOTS * HM_BLOCK_PAGES + 1)
#define OWN_PAGES (6 * HM_BLOCK_PAGES)

enum {
	ENDED,
	FAILED, /* world_in_child() returns it, too */
	STARVED
};

struct racer {
	u32 nr; /* 0: the starved task */
	struct mm_struct *mm;
	u64 buffer[4 * WORDS];
};

struct operation {
	const char *name;
	void (*run)(struct racer *racer, u32 i);
};

static struct racer racers[1 + COMPETITORS];
static const struct operation *starved, *competing;
static u32 worst; /* sleeps of an operation */
static bool ended;

static struct file *file_of(const struct racer *racer)
{
	return w.file[0].fd[racer->nr % 2];
}

/* The page for operation @i. */
static u64 page_of(const struct racer *racer, u32 i)
{
	if (racer->nr)
		return OWN_PAGES + (i + racer->nr) % HM_BLOCK_PAGES;
	return (i * HM_BLOCK_PAGES + 3) % OWN_PAGES;
}

/* --- operations ---------------------------------------------------------------------- */

static void access_mapping(struct racer *racer, u32 i, bool write)
{
	unsigned long address = racer->mm->vma[0].vm_start + (page_of(racer, i) << PAGE_SHIFT);
	u64 *word;
	int err;

	while (!(word = mm_word(racer->mm, address, write))) {
		err = mm_fault(racer->mm, address,
			       FAULT_FLAG_USER | FAULT_FLAG_ALLOW_RETRY |
				       (write ? FAULT_FLAG_WRITE : 0));
		sim_check(!err, "a fault failed with %d", err);
	}
	if (write)
		*word = ++w.version;
}

static void run_load(struct racer *racer, u32 i)
{
	access_mapping(racer, i, false);
}

static void run_store(struct racer *racer, u32 i)
{
	access_mapping(racer, i, true);
}

static ssize_t transfer(struct racer *racer, struct file *file, loff_t pos, u32 words, bool write,
			int flags)
{
	struct kvec kvec = { racer->buffer, words * sizeof(u64) };
	struct kiocb iocb = { .ki_filp = file, .ki_pos = pos, .ki_flags = flags };
	struct iov_iter iter;
	ssize_t n;

	iov_iter_kvec(&iter, write ? ITER_SOURCE : ITER_DEST, &kvec, 1, kvec.iov_len);
	n = write ? file->f_op->write_iter(&iocb, &iter) : file->f_op->read_iter(&iocb, &iter);
	sim_check(n > 0 || n == -EFBIG, "a transfer failed with %zd", n);
	return n;
}

static loff_t pos_of(const struct racer *racer, u32 i)
{
	return (loff_t)(page_of(racer, i) << PAGE_SHIFT);
}

static void run_read(struct racer *racer, u32 i)
{
	transfer(racer, file_of(racer), pos_of(racer, i), 2 * WORDS, false, 0);
}

static void run_write(struct racer *racer, u32 i)
{
	transfer(racer, file_of(racer), pos_of(racer, i), 2 * WORDS + 1, true, 0);
}

static void run_direct_read(struct racer *racer, u32 i)
{
	transfer(racer, file_of(racer), pos_of(racer, i), WORDS, false, IOCB_DIRECT);
}

static void run_direct_write(struct racer *racer, u32 i)
{
	transfer(racer, file_of(racer), pos_of(racer, i), WORDS, true, IOCB_DIRECT);
}

/* Direct writes to a page of the starved task. */
static void run_overwrite(struct racer *racer, u32 i)
{
	(void)i;
	transfer(racer, file_of(racer), 3 * PAGE_SIZE, WORDS, true, IOCB_DIRECT);
}

static void run_append(struct racer *racer, u32 i)
{
	(void)i;
	/* Without room for more words the competitor is out. */
	while (transfer(racer, file_of(racer), 0, 1, true, IOCB_APPEND) < 0)
		sim_yield();
}

static void run_sync(struct racer *racer, u32 i)
{
	struct file *file = file_of(racer);

	(void)i;
	sim_check(!file->f_op->fsync(file, 0, LLONG_MAX, 0), "fsync() failed");
}

/* sync(2), with something to write */
static void run_sync_all(struct racer *racer, u32 i)
{
	run_store(racer, i);
	sim_check(!hugemap_data_sync(w.mount), "a sync of the mount failed");
}

/* Close the older one of the task's two files, evict it, and store to a new file. */
static void run_create(struct racer *racer, u32 i)
{
	u32 index = 1 + 2 * racer->nr + i % 2;
	struct sim_file *file = &w.file[index];
	bool fresh = !file->hi;

	if (!fresh) {
		struct inode *inode = &file->hi->vfs_inode;

		world_close(file);
		iput(inode);
		while (inode->i_count.value)
			sim_yield();
		inode_evict(inode);
	}
	world_new_file(file, index, fresh);
	transfer(racer, file->fd[0], 0, 1, true, 0);
}

static void run_punch(struct racer *racer, u32 i)
{
	struct file *file = file_of(racer);
	long err = file->f_op->fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
					 pos_of(racer, i), PAGE_SIZE);

	sim_check(!err, "a punch failed with %ld", err);
}

static void run_allocate(struct racer *racer, u32 i)
{
	struct file *file = file_of(racer);
	long err = file->f_op->fallocate(file, FALLOC_FL_KEEP_SIZE, pos_of(racer, i), PAGE_SIZE);

	sim_check(!err, "fallocate() failed with %ld", err);
}

static ssize_t resize_lower(void *arg)
{
	return hugemap_resize_lower(hugemap_lower_file(w.file[0].fd[0]), *(loff_t *)arg);
}

/* The last block of the file comes and goes. */
static void run_truncate(struct racer *racer, u32 i)
{
	loff_t size = (loff_t)((FILE_PAGES - (i & 1) * 5) * PAGE_SIZE) - sizeof(u64);
	struct inode *inode = &w.file[0].hi->vfs_inode;
	ssize_t err;

	(void)racer;
	inode_lock(inode);
	err = hugemap_change_lower(inode, min(i_size_read(inode), size), LLONG_MAX,
				   size > i_size_read(inode) ? HUGEMAP_GROW : HUGEMAP_DISCARD,
				   resize_lower, &size);
	inode_unlock(inode);
	sim_check(!err, "a truncation failed with %zd", err);
}

static void run_willneed(struct racer *racer, u32 i)
{
	struct file *file = file_of(racer);

	(void)i;
	file->f_op->fadvise(file, 0, 0, POSIX_FADV_WILLNEED);
}

static void run_dontneed(struct racer *racer, u32 i)
{
	struct file *file = file_of(racer);

	(void)i;
	file->f_op->fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
}

static const struct operation operations[] = {
	{ "load", run_load },
	{ "store", run_store },
	{ "read", run_read },
	{ "write", run_write },
	{ "direct read", run_direct_read },
	{ "direct write", run_direct_write },
	{ "overwrite", run_overwrite },
	{ "append", run_append },
	{ "sync", run_sync },
	{ "sync of all files", run_sync_all },
	{ "creation", run_create },
	{ "punch", run_punch },
	{ "allocation", run_allocate },
	{ "truncation", run_truncate },
	{ "willneed", run_willneed },
	{ "dontneed", run_dontneed },
};

/* --- a contest --------------------------------------------------------------------------- */

void progress_scenario(struct scenario *s)
{
	s->nfiles = 1;
	s->npages = FILE_PAGES;
	s->pool_frames = 6 + sim_lower(6);
	s->programs = 0;
	s->stall_every = 0;
	s->read_error_percent = s->write_error_percent = s->short_percent = 0;
	s->alloc_error_percent = 0;
	s->limits = s->kills = s->signals = s->pressure = s->fills = s->punches = 0;
	s->directs = 1;
	s->race_point = RACE_POINTS;
	s->stalls = false;
	s->tick = min(s->tick, TICK_MAX);
}

static void starved_main(void *arg)
{
	struct racer *racer = arg;
	u32 i;

	for (i = 0; i < OPERATIONS; i++) {
		sched_starve(SLEEPS_MAX);
		starved->run(racer, i);
		worst = max(worst, sched_sleeps());
		sim_progress();
	}
	ended = true;
	sched_stop();
}

static void competitor_main(void *arg)
{
	struct racer *racer = arg;
	u32 i;

	for (i = 0;; i++) {
		competing->run(racer, i);
		sched_finished();
		sim_progress();
	}
}

static void progress_spawn(void)
{
	static const char *const names[] = { "starved", "rival 1", "rival 2" };
	u32 i;

	sched_grant_in_order();
	/* No check of the contents: the contests are about time. */
	w.file[0].max = MAX_FILE_PAGES * PAGE_SIZE;
	for (i = 0; i < ARRAY_SIZE(racers); i++) {
		racers[i].nr = i;
		racers[i].mm = mm_new();
		mm_map(racers[i].mm, 0, file_of(&racers[i]), 0, FILE_PAGES - 8, 0,
		       VM_SHARED | VM_WRITE | VM_MAYWRITE);
		sched_spawn(names[i], i ? competitor_main : starved_main, &racers[i]);
	}
	machine_spawn();
	w.programs_left = 0;
}

static const struct play contest_play = { progress_scenario, progress_spawn, NULL };

/* Run one seed of a contest. */
static int contest(u64 seed)
{
	world_play(&contest_play, seed);
	if (sim_verbose)
		printf("%s beside %s, seed %llu: %u sleeps%s\n", starved->name, competing->name,
		       (unsigned long long)seed, max(worst, sched_sleeps()),
		       ended ? "" : ", and does not end");
	if (!ended && sim_verbose)
		sim_print_notes();
	return ended ? ENDED : STARVED;
}

/* Run a contest with all seeds. False: it failed. */
static bool run_contest(u64 from, u64 to)
{
	int result = ENDED;
	u64 seed;

	for (seed = from; seed <= to && result == ENDED; seed++)
		result = world_in_child(contest, seed);
	if (result == ENDED)
		return true;
	printf("%s beside %s, seed %llu: %s\n", starved->name, competing->name,
	       (unsigned long long)seed - 1,
	       result == STARVED ? "the operation never ends" : "a check failed");
	return false;
}

bool progress_run(u64 from, u64 to)
{
	u32 i, k, contests = 0, failures = 0;

	for (i = 0; i < ARRAY_SIZE(operations); i++) {
		for (k = 0; k < ARRAY_SIZE(operations); k++) {
			starved = &operations[i];
			competing = &operations[k];
			contests++;
			failures += !run_contest(from, to);
		}
	}
	printf("%u contests, %u failed\n", contests, failures);
	return !failures;
}
