/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The simulated Linux under the pool engine, as those who act in the world see it: one
 * process with memory, threads and descriptors, and files on a device. The engine sees
 * user/linux.h and io.h's backends only.
 *
 * A page's data is a version: a number that each store makes larger, in each of its words.
 */
#ifndef SIM_OS_H
#define SIM_OS_H

#include <stdint.h>

#include "cache.h"
#include "../../sim/sched.h"

#define MAX_FILES 3u
#define MAX_PAGES 160u /* of a file */
#define MAX_BLOCKS (MAX_PAGES / HM_BLOCK_PAGES + 1)
#define ARENA_PAGES 16384u
#define PENDING 3u /* values that a page's volatile cache remembers */

/* What a seed makes of the machine. */
struct machine {
	u32 read_error_percent, write_error_percent, short_percent, flush_error_percent;
	u32 refuse_percent; /* calls that fail for no reason of ours */
	u32 busy_percent; /* EAGAIN and EBUSY of a MOVE, for a moment */
	u32 split_percent; /* blocks that are moved page by page */
	u32 tick_ms; /* how fast time goes */
	u32 io_steps; /* how slow the device is */
	bool swap, no_punch, no_reserve;
	bool hangs; /* the device, for seconds, now and then */
	bool lock_future; /* mlockall(2) */
	u64 room; /* pages that the file system can still allocate */
};
extern struct machine machine;

/* --- process.c: memory of the C library, threads, time ------------------------------- */
void process_new(void); /* all that was is gone, without a word */
bool process_owns(const void *mem); /* it was allocated, and not freed */
u32 thread_locks_held(void); /* by the running coroutine */
void thread_spawn(const char *name, void *(*work)(void *arg), void *arg); /* not joined */
u64 clock_now_ms(void);
void clock_passes(u32 ms);
void clock_main(void *arg); /* coroutine */

/* Somebody waits in a loop: it must end. */
struct long_wait {
	u64 since_steps, since_ms;
};
void wait_check(struct long_wait *wait, const char *what);
void wait_more(struct long_wait *wait, const char *what);

/* --- memory.c ------------------------------------------------------------------------ */
enum page_kind {
	PAGE_NONE,
	PAGE_ANON,
	PAGE_SHARED, /* of a memfd */
	PAGE_FILE,
};

enum {
	PAGE_PRESENT = 1 << 0,
	PAGE_PROTECTED = 1 << 1, /* by the userfaultfd */
	PAGE_SWAPPED = 1 << 2,
	PAGE_POISON = 1 << 3,
	PAGE_EARLY = 1 << 4, /* others had it pinned, or it was stored to, before that */
	PAGE_STORED = 1 << 5, /* since it came where it is */
};

struct os_file;

/* A page of the address space, and what is there. */
struct page {
	u8 kind, prot, watched, state;
	bool locked; /* by mlock(2) */
	u16 pins, others; /* by anybody; by others than the engine */
	u32 id; /* of the memory behind it */
	u64 others_step; /* when others had it pinned last */
	u32 pgoff;
	struct os_file *file;
};

enum touch {
	TOUCHED,
	TOUCH_BUS,
	TOUCH_SEGV,
};

void memory_new(void);
struct page *memory_page(const void *at);
bool memory_is_ours(const void *at); /* an address of the simulated process */
char *memory_at(u32 index);
void memory_lock(void *at, size_t bytes); /* as mlock(2) leaves it */
void memory_zap(struct page *page);
enum touch memory_touch(void *at, bool write); /* with all the faults that it takes */
u64 memory_value(void *at); /* of a page that was touched */
void memory_set_value(void *at, u64 value);
enum touch memory_pin(void *at, bool write, u32 *id);
void memory_unpin(void *at, u32 id);
extern u32 others_pins; /* now, but for the engine's own I/O */
extern u64 others_pins_ever;
void memory_others_pin(void *at); /* what is pinned is so for others */
void memory_others_unpin(void *at, u32 id);
bool memory_was_pinned(const void *at); /* by others, a moment ago */
void swapper_main(void *arg); /* coroutines */
void passer_by_main(void *arg);

/* --- userfault.c --------------------------------------------------------------------- */
void userfault_new(void);
void userfault_wait(void *at, bool write, bool protected);
bool userfault_readable(void);
extern u64 userfault_events; /* so many came */
ssize_t userfault_read(void *buffer, size_t count);
int userfault_ioctl(unsigned long request, void *arg);

/* --- device.c, files.c ---------------------------------------------------------------- */
struct disk_page {
	u64 value; /* as a read finds it */
	u64 safe; /* as a power cut leaves it, or one of these: */
	u64 pending[PENDING];
	u32 npending;
	u64 writes, safe_writes; /* so many made the value, and what is safe */
	bool hole;
	bool reserved; /* a hole that has room */
};

struct os_file {
	u64 size; /* bytes */
	struct disk_page page[MAX_PAGES];
	u32 align; /* of direct I/O; 0: there is none */
	u32 bad_read; /* a page that cannot be read; MAX_PAGES: none */
	bool bad_block[MAX_BLOCKS]; /* a read of it has failed */
	bool locked; /* the kernel's lock, of buffered writes and of who asks for holes */
	u32 truncating; /* by calls of the library that are under way */
	u32 truncations; /* and punches, that the kernel has done */
	bool broken; /* somebody has changed it, or zapped pages of it, behind our back */
	bool foreign[MAX_PAGES]; /* holds what was made for another page */
};

extern struct os_file os_files[MAX_FILES];

static inline u64 file_pages(const struct os_file *file)
{
	return (file->size + HM_PAGE_SIZE - 1) >> HM_PAGE_SHIFT;
}

extern bool device_was_full; /* since the process began */
int device_reserve(struct os_file *file, u64 page); /* 0 or -ENOSPC */
int device_write(struct os_file *file, u64 page, u64 value); /* 0 or -ENOSPC */
void device_zero(struct os_file *file, u64 page);
void device_lose_power(struct os_file *file);
void device_pause(void); /* for as long as a page takes */
void device_hang(void); /* perhaps */
ssize_t file_direct(struct os_file *file, char *buffer, size_t count, u64 offset, bool write);
ssize_t file_buffered(struct os_file *file, char *buffer, size_t count, u64 offset, bool write);
void file_resize(struct os_file *file, u64 size);

void descriptors_new(void);
int file_open(u32 index, int flags);
struct os_file *file_of(int fd);
bool file_is_direct(int fd);
bool descriptor_readable(int fd);

/* What the model hears of, see model.c: write-back, by its blocks, and flushes. */
void model_wrote(struct os_file *file, u64 pgoff, u64 npages, int err);
void model_flush_failed(struct os_file *file);

#endif /* SIM_OS_H */
