// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* The world: choose the scenario of a seed, mount, and unmount. */
#include "world.h"

#include "books.h"
#include "data/dirty.h"
#include "data/index.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

/* Devices write into pages that eviction and promotion claim, and each claim may fail. */
static void focus_on_claims(struct scenario *s)
{
	s->page = HUGEMAP_PAGE_AUTO;
	s->solid = true;
	s->programs = 3 + sim_lower(MAX_PROGRAMS - 2);
	s->pool_frames = 4 + sim_lower(4);
	s->npages = 64 + sim_lower(MAX_FILE_PAGES - 64);
	s->write_percent = 50;
	s->alloc_error_percent = 0;
	s->touches = 10;
	s->dmas = 30;
	s->reopens = 0;
	s->race_point = sim_chance(60) ? RACE_POINT_OF("evict: left, not absent yet") :
					 RACE_POINT_OF("promote: claimed, mapped");
	s->race_percent = 60;
	s->privates = 0;
	s->pipes = 0;
	s->resizes = 0;
	s->punches = 0;
	s->fills = 0;
	s->stalls = false;
}

/* Writes to a few pages of a block with holes, while another task brings in the whole block. */
static void focus_on_holes(struct scenario *s)
{
	s->page = HUGEMAP_PAGE_AUTO;
	s->solid = false;
	s->holes = true;
	s->programs = 3 + sim_lower(MAX_PROGRAMS - 2);
	s->pool_frames = 6 + sim_lower(6);
	s->npages = 64 + sim_lower(MAX_FILE_PAGES - 64);
	s->write_percent = 20;
	s->alloc_error_percent = 0;
	s->touches = 20;
	s->reads = 5;
	s->writes = 20;
	s->advices = 5;
	s->race_point = RACE_POINT_OF("write: room below, not cached");
	s->race_percent = 60;
	s->dmas = 0;
	s->fills = 0;
}

/* Parallel direct writes to a few blocks with data, beside all that brings these blocks in. */
static void focus_on_overwrites(struct scenario *s)
{
	s->solid = true;
	s->programs = 4 + sim_lower(MAX_PROGRAMS - 3);
	s->nfiles = 1;
	s->npages = 24 + sim_lower(24);
	s->limits = 0;
	s->touches = 10;
	s->reads = 5;
	s->directs = 20;
	s->advices = 3;
	s->appends = s->fills = 0;
	if (sim_chance(60))
		s->race_point =
			sim_chance(50) ? RACE_POINT_OF("overwrite: dropped, not written") :
			sim_chance(50) ? RACE_POINT_OF("overwrite: claimed, not dropped") :
					 RACE_POINT_OF("fill: claimed, overwrites not seen");
	s->race_percent = 40;
}

/*
 * The kernel maps whole folios, and only write-back can notice it. Entries that go before a
 * write-back hide stores, so one program uses one mapping, and no other task removes its entries.
 */
static void focus_on_write_back(struct scenario *s)
{
	s->maps = MAPS_WHOLE_UNNOTICED;
	s->programs = 1;
	s->directs = s->dmas = s->remaps = s->reopens = s->resizes = s->punches = s->kills = 0;
	s->privates = s->signals = s->pipes = 0;
}

static void choose_scenario(struct scenario *s)
{
	static const u32 rates[] = { 0, 0, 1, 5, 20 };

	*s = (struct scenario){
		.switch_every = 1u << sim_lower(6),
		.stall_every = sim_chance(30) ? 0 : 100u << sim_lower(8),
		.cpus = 1 + sim_lower(4),
		.nfiles = 1 + sim_lower(MAX_FILES),
		.npages = 8 + sim_lower(MAX_FILE_PAGES - 8),
		.pool_frames = 4 + sim_lower(8),
		.programs = 1 + sim_lower(MAX_PROGRAMS),
		.write_percent = 10 + sim_lower(80),
		.sequential_percent = sim_lower(101),
		.hot_percent = sim_lower(60),
		.skew_percent = sim_chance(60) ? 0 : sim_lower(101),
		.spot_percent = sim_chance(50) ? 0 : sim_lower(60),
		.read_error_percent = sim_chance(70) ? 0 : rates[sim_lower(5)],
		.write_error_percent = sim_chance(70) ? 0 : rates[sim_lower(5)],
		.short_percent = sim_chance(80) ? 0 : rates[sim_lower(5)],
		.alloc_error_percent = sim_chance(60) ? 0 : rates[sim_lower(5)],
		.touches = 5 + sim_lower(40),
		.reads = sim_lower(10),
		.writes = sim_lower(10),
		.appends = sim_chance(50) ? sim_lower(8) : 0,
		.syncs = 1 + sim_lower(8),
		.directs = sim_chance(50) ? sim_lower(5) : 0,
		.dmas = sim_chance(50) ? sim_lower(6) : 0,
		.pipes = sim_chance(40) ? sim_lower(3) : 0,
		.remaps = sim_lower(4),
		.advices = sim_lower(3),
		.reopens = sim_chance(50) ? sim_lower(4) : 0,
		.privates = sim_chance(50) ? sim_lower(60) : 0,
		.resizes = sim_chance(50) ? sim_lower(8) : 0,
		.punches = sim_chance(50) ? sim_lower(8) : 0,
		.pools = sim_chance(30) ? sim_lower(3) : 0,
		.kills = sim_chance(30) ? sim_lower(4) : 0,
		.limits = sim_chance(30) ? sim_lower(60) : 0,
		.pressure = sim_chance(50) ? sim_lower(30) : 0,
		.lower_block = sim_seed % 4 == 3 ? PAGE_SIZE / 4 : PAGE_SIZE,
		.tick = 1u << sim_lower(6),
		.race_point = sim_chance(60) ? sim_lower(RACE_POINTS) : RACE_POINTS,
		.race_percent = 20,
		.page = sim_chance(25) ? HUGEMAP_PAGE_4K :
			sim_chance(60) ? HUGEMAP_PAGE_AUTO :
					 HUGEMAP_PAGE_2M,
		.holes = sim_chance(60),
		.stalls = sim_chance(30),
		.stable = sim_chance(40),
		.fills = sim_chance(40) ? 1 + sim_lower(6) : 0,
		.extents = sim_chance(50),
		.unwritten = sim_chance(60),
		.signals = sim_chance(30) ? sim_lower(6) : 0,
		.foreigners = sim_chance(30) ? 1 + sim_lower(6) : 0,
	};
	/* Blocks with holes are not promoted. */
	s->solid = s->page == HUGEMAP_PAGE_AUTO && sim_chance(70);
	if (s->solid && sim_chance(50)) {
		s->dmas = 1 + sim_lower(6);
		s->pipes = 1 + sim_lower(3);
		s->directs = 1 + sim_lower(4);
		s->punches = 1 + sim_lower(8);
	}
	if (sim_chance(20))
		focus_on_claims(s);
	else if (sim_chance(12))
		focus_on_holes(s);
	else if (sim_chance(12))
		focus_on_overwrites(s);
	if (s->page == HUGEMAP_PAGE_AUTO && sim_chance(30))
		s->maps = MAPS_WHOLE;
	if (s->maps && sim_chance(40))
		focus_on_write_back(s);
}

/* --- stubs of the parts of kernel/ that are not simulated ---------------------------- */

const struct address_space_operations hugemap_aops = { .dirty_folio = hugemap_dirty_folio };

bool hugemap_mm_test_store(void)
{
	return w.s.maps != MAPS_WHOLE;
}

/* The model has no mlock(2). */
bool hugemap_mm_is_mlocked(struct address_space *mapping, u64 first, u64 npages)
{
	(void)mapping;
	(void)first;
	(void)npages;
	return false;
}

long hugemap_cached(struct file *file, void *arg)
{
	sim_fail(__FILE__, __LINE__, "hugemap_cached() is not simulated");
}

void hugemap_copy_attr(struct inode *inode)
{
	const struct inode *lower = hugemap_inode(inode)->lower;

	sim_step();
	inode->i_mode = lower->i_mode;
	inode->i_nlink = lower->i_nlink;
}

void hugemap_copy_times(struct inode *inode)
{
	(void)inode;
	sim_step();
}

/* world_open() sets the operations of open files, and no other ones are called. */
static void set_operations(struct inode *inode)
{
	(void)inode;
}

static const struct super_operations super_operations = {
	.alloc_inode = hugemap_alloc_inode,
	.destroy_inode = hugemap_destroy_inode,
	.evict_inode = hugemap_evict_inode,
};

void hugemap_copy_flags(struct inode *inode)
{
	(void)inode;
	sim_step();
}

/* The simulated file systems are never frozen. */
void hugemap_tell_late_change(struct inode *inode)
{
	(void)inode;
	sim_step();
}

struct file *hugemap_open_lower(const struct hugemap_mount *mount, const struct path *path,
				int flags)
{
	return dentry_open(path, flags, mount->cred);
}

struct file *hugemap_open_quietly(const struct hugemap_mount *mount, const struct path *path,
				  int flags)
{
	return dentry_open(path, flags, mount->cred);
}

/* --- mount -------------------------------------------------------------------------------- */

static void *alloc_surely(size_t bytes)
{
	void *mem;

	while (!(mem = sim_alloc(bytes, 0)))
		;
	return mem;
}

static struct inode *find_inode(struct sim_file *file)
{
	struct inode *inode;

	for (;;) {
		inode = hugemap_inode_get(&w.sb, &file->disk->inode);
		if (!IS_ERR(inode))
			return inode;
		sim_check(PTR_ERR(inode) == -ENOMEM && w.s.alloc_error_percent,
			  "a lookup failed with %ld", PTR_ERR(inode));
	}
}

/* @again: the inode is still in memory, without a reference. */
void world_open(struct sim_file *file, bool again)
{
	struct inode *inode;
	u32 i;

	inode = find_inode(file);
	sim_check(!again || inode == &file->hi->vfs_inode, "an inode in memory was not found");
	file->hi = hugemap_inode(inode);

	file->dentry = (struct dentry){ .d_fsdata = file->disk, .d_sb = &w.sb };
	for (i = 0; i < ARRAY_SIZE(file->fd); i++) {
		struct file *fd = alloc_surely(sizeof(*fd));
		int err;

		fd->f_inode = inode;
		fd->f_mapping = inode->i_mapping;
		fd->f_op = &hugemap_file_operations;
		fd->f_mode = FMODE_READ | FMODE_WRITE;
		fd->f_flags = O_RDWR;
		fd->f_path.dentry = &file->dentry;
		fd->refs.value = 1;
		while ((err = fd->f_op->open(inode, fd)))
			sim_check(err == -ENOMEM && w.s.alloc_error_percent,
				  "open() failed with %d", err);
		file->fd[i] = fd;
	}
}

void world_new_file(struct sim_file *file, u32 index, bool fresh)
{
	struct disk_file *disk = &w.disk[index];
	u32 i;

	file->index = index;
	file->disk = disk;
	if (fresh) {
		memset(disk, 0, sizeof(*disk));
		disk->size = (loff_t)(sim_lower(w.s.npages * WORDS) * sizeof(u64));
		if (w.play)
			disk->size = (loff_t)((w.s.npages * WORDS - 1) * sizeof(u64));
		disk->safe_size = disk->size;
		for (i = 0; i < MAX_LOWER_BLOCKS; i++)
			disk->hole[i] = w.s.holes || (loff_t)i * w.s.lower_block >= disk->size;
		for (i = 0; i < MAX_LOWER_BLOCKS; i++)
			disk->room[i] = !disk->hole[i];
	}
	for (i = 0; w.s.solid && i < MAX_LOWER_BLOCKS; i++) {
		disk->hole[i] &= (loff_t)i * w.s.lower_block >= disk->size;
		disk->room[i] = true;
	}
	memset(&disk->lock, 0, sizeof(disk->lock));
	inode_init(&disk->inode, &w.lower_sb, index, disk->size);
	disk->inode.i_mode = S_IFREG;
	disk->inode.i_op = w.s.extents ? &lower_extents : &lower_no_extents;
	model_restart(file);
	world_open(file, false);
}

/* Shorten the promotion interval: most simulated mounts last less than a second. */
void world_hurries(void)
{
	struct hm_options opts = *hm_cache_options(w.mount->cache);

	opts.promote_interval_ms = 1 + sim_lower(50);
	hm_cache_set_options(w.mount->cache, &opts);
}

static void mount(void)
{
	struct hugemap_mount *mount = sim_alloc(sizeof(*mount), 0);

	w.lower_sb.s_magic = w.play || sim_chance(80) ? EXT4_SUPER_MAGIC : 0;
	w.sb.s_fs_info = mount;
	w.sb.s_op = &super_operations;
	w.sb.s_maxbytes = MAX_FILE_PAGES * PAGE_SIZE;
	strcpy(w.sb.s_id, "sim");
	w.mount = mount;
	mount->sb = &w.sb;
	mount->set_operations = set_operations;
	mount->opts = (struct hugemap_options){
		.pool = w.s.pool_frames * PMD_SIZE,
		.pool_min_percent = 1 + sim_lower(100),
		.page = w.s.page,
		.dirty_ratio = 10 + sim_lower(85),
		.priority = sim_chance(50) ? 0 : (int)sim_lower(3) - 1,
		.evict_batch = 1 + sim_lower(6),
		.readahead_kb = sim_lower(5),
		.node = NUMA_NO_NODE,
		.read_optimization = sim_chance(70),
		.write_optimization = sim_chance(70),
		.util_threshold = sim_chance(50) ? sim_lower(101) : 1 + sim_lower(40),
		.promote_interval = HZ,
	};
	mount->opts.promote_batch = 1 + mount->opts.util_threshold % 3;
	sim_check(!hugemap_inode_setup(), "hugemap_inode_setup() failed");
	sim_check(!hugemap_data_setup(), "hugemap_data_setup() failed");
	sim_check(!hugemap_data_start(mount, NULL), "hugemap_data_start() failed");
	world_hurries();
}

void world_new(bool fresh)
{
	u32 i;

	w.running = w.stopping = false;
	sim_free_all();
	tasks_forget();
	works_forget();
	rcu_forget();
	folios_forget();
	mm_forget();
	inodes_forget();
	lower_forget();
	choose_scenario(&w.s);
	if (w.play)
		w.play->scenario(&w.s);
	if (fresh) {
		w.version = 0;
		memset(w.counts, 0, sizeof(w.counts));
		memset(w.disk, 0, sizeof(w.disk));
		jiffies = 1000;
	}
	lower_set_room(w.s.fills ? sim_lower(256) : U64_MAX);
	w.failures = 0;
	w.pins = 0;
	w.shrinking = 0;
	w.parking = false;
	w.acting = 0;
	sched_start(w.s.switch_every, w.s.stall_every, w.s.cpus);
	mount();
	for (i = 0; i < w.s.nfiles; i++)
		world_new_file(&w.file[i], i, !w.disk[i].ready);
	for (i = 0; i < w.s.nfiles; i++)
		w.disk[i].ready = true;
	if (w.play)
		w.play->spawn();
	else
		actors_spawn();
	w.running = true;
}

/* --- unmount ---------------------------------------------------------------------------------- */

void world_close(struct sim_file *file)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(file->fd); i++) {
		file->fd[i]->f_op->release(&file->hi->vfs_inode, file->fd[i]);
		fput(file->fd[i]);
	}
}

/* Add the counters of the mount, which is about to end. */
void world_count(void)
{
	w.counts[C_PROMOTIONS] += hm_cache_count(w.mount->cache, HM_C_PROMOTED);
	w.counts[C_REFUSED] += hm_cache_count(w.mount->cache, HM_C_NOT_PROMOTED);
	w.counts[C_PARTS] += w.mount->counts->value[HUGEMAP_C_PARTIAL_WRITEBACKS];
}

void world_unmount(void *arg)
{
	bool beyond;
	u32 i;

	(void)arg;
	w.stopping = true;
	while (w.programs_left)
		sim_yield();
	hugemap_data_quiesce(w.mount);
	for (i = 0; i < w.s.nfiles; i++)
		sim_check(atomic_read(&w.file[i].hi->vfs_inode.i_count) == 1,
			  "an inode is in use at unmount");
	hugemap_trim_empty(w.mount);
	/* If a write fails halfway, blocks that it allocated stay beyond the end. */
	for (beyond = w.failures, i = 0; i < w.s.nfiles; i++)
		beyond |= w.file[i].loose;
	books_check(w.mount->cache, beyond);
	for (i = 0; i < w.s.nfiles; i++) {
		world_close(&w.file[i]);
		iput(&w.file[i].hi->vfs_inode);
		inode_evict(&w.file[i].hi->vfs_inode);
		sim_check(atomic_read(&w.disk[i].inode.i_count) == 1,
			  "a lower inode is in use after the unmount");
	}
	world_count();
	hugemap_data_stop(w.mount);
	sim_check(!folios_in_use(), "%u folios are in use after the unmount", folios_in_use());
	hugemap_inode_teardown();
	hugemap_data_teardown();
	sim_free(w.mount);
	sim_check(!sim_allocated(), "%u allocations were not freed", sim_allocated());
	if (!w.failures)
		for (i = 0; i < w.s.nfiles; i++)
			model_unmounted(&w.file[i]);
	w.counts[C_UNMOUNTS]++;
	sched_stop();
}

/* --- plays --- */

#define PLAY_STEPS 4000000u

void world_play(const struct play *play, u64 seed)
{
	sched_seed(seed);
	w.play = play;
	world_new(true);
	sched_run(PLAY_STEPS);
}

struct mm_struct *world_map_file(unsigned long flags)
{
	struct mm_struct *mm = mm_new();

	w.file[0].max = MAX_FILE_PAGES * PAGE_SIZE;
	mm_map(mm, 0, w.file[0].fd[0], 0, 4 * HM_BLOCK_PAGES, 0, VM_SHARED | VM_RAND_READ | flags);
	return mm;
}

int world_in_child(int (*run)(u64 seed), u64 seed)
{
	int status = 0, result;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (!pid) {
		result = run(seed);
		fflush(NULL);
		_exit(result);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return 1;
	return WEXITSTATUS(status);
}

u64 world_first_failure(int (*run)(u64 seed), u64 from, u64 to)
{
	u64 seed = from;

	while (seed <= to && !world_in_child(run, seed))
		seed++;
	return seed;
}

bool world_all_hold(int (*run)(u64 seed), u64 from, u64 to)
{
	u64 seed = world_first_failure(run, from, to);

	if (seed <= to)
		printf("seed %llu: failed\n", (unsigned long long)seed);
	else
		printf("%llu runs, none failed\n", (unsigned long long)(to - from + 1));
	return seed > to;
}
