// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Descriptors, and what can be done with them: reads and writes, direct ones page by page
 * in any order while the pages are pinned, locks, events.
 */
#include "os.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/stat.h>
#include <poll.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "linux.h"

#define FDS 128u
#define BATCH MAX_PAGES

enum kind {
	FD_FREE,
	FD_FILE,
	FD_USERFAULT,
	FD_EVENT,
	FD_PAGEMAP,
	FD_MEMORY,
	FD_MEMFD,
};

struct descriptor {
	enum kind kind;
	int flags;
	struct os_file *file;
	u64 events;
	short lock; /* F_UNLCK, F_RDLCK, F_WRLCK: an open file description's lock */
};

static struct descriptor fds[FDS];

void descriptors_new(void)
{
	u32 i;

	memset(fds, 0, sizeof(fds));
	for (i = 0; i < FDS; i++)
		fds[i].lock = F_UNLCK;
}

static int new_fd(enum kind kind, int flags, struct os_file *file)
{
	int fd = 0;

	while (fds[fd].kind != FD_FREE)
		fd++;
	sim_check(fd < (int)FDS - 1, "descriptors are not closed");
	fds[fd] = (struct descriptor){ kind, flags, file, 0, F_UNLCK };
	return fd;
}

static struct descriptor *get(int fd)
{
	sim_check(fd >= 0 && fd < (int)FDS && fds[fd].kind != FD_FREE,
		  "a descriptor that is not open is used: %d", fd);
	return &fds[fd];
}

struct os_file *file_of(int fd)
{
	return get(fd)->file;
}

bool file_is_direct(int fd)
{
	return get(fd)->flags & O_DIRECT;
}

int file_open(u32 index, int flags)
{
	return new_fd(FD_FILE, flags, &os_files[index]);
}

int sys_open(const char *path, int flags)
{
	int fd;

	sim_step();
	if (sim_chance(machine.refuse_percent))
		return -EMFILE;
	if (!strcmp(path, "/proc/self/pagemap"))
		return new_fd(FD_PAGEMAP, flags, NULL);
	if (!strcmp(path, "/proc/self/mem"))
		return new_fd(FD_MEMORY, flags, NULL);
	if (sscanf(path, "/proc/self/fd/%d", &fd) == 1) {
		if (flags & O_DIRECT && !get(fd)->file->align)
			return -EINVAL;
		return new_fd(FD_FILE, flags, get(fd)->file);
	}
	return -ENOENT;
}

void sys_close(int fd)
{
	/* The last one may free the file, or write it. (Where no file could be opened: any.) */
	sim_check(get(fd)->kind != FD_FILE || machine.refuse_percent || !thread_locks_held(),
		  "a lock is held while a file is closed");
	get(fd)->kind = FD_FREE;
}

int sys_replace(int fd, int by)
{
	const struct descriptor *d = get(by);

	sim_step();
	sim_check(!thread_locks_held(), "a lock is held while a file is closed");
	*get(fd) = *d;
	device_pause();
	return fd;
}

int sys_userfaultfd(int flags)
{
	return new_fd(FD_USERFAULT, flags, NULL);
}

int sys_eventfd(void)
{
	sim_step();
	return sim_chance(machine.refuse_percent) ? -EMFILE : new_fd(FD_EVENT, 0, NULL);
}

int sys_memfd_create(const char *name)
{
	(void)name;
	return new_fd(FD_MEMFD, O_RDWR, NULL);
}

/* --- I/O ------------------------------------------------------------------------------ */

struct transfer {
	struct os_file *file;
	char *buffer;
	u64 first; /* page of the file */
	u32 n;
	bool write;
	bool in_place; /* others have pages of it pinned */
	u32 id[BATCH];
	u64 sent[BATCH];
	u32 order[BATCH];
};

static char *buffer_page(const struct transfer *t, u32 i)
{
	return t->buffer + ((size_t)i << HM_PAGE_SHIFT);
}

static void unpin(struct transfer *t, u32 n)
{
	while (n--)
		if (memory_is_ours(t->buffer))
			memory_unpin(buffer_page(t, n), t->id[n]);
}

static int pin_all(struct transfer *t)
{
	u32 i;

	for (i = 0; i < t->n && memory_is_ours(t->buffer); i++) {
		if (memory_pin(buffer_page(t, i), !t->write, &t->id[i]) != TOUCHED) {
			unpin(t, i);
			return -EFAULT;
		}
		t->sent[i] = memory_value(buffer_page(t, i));
		t->in_place |= memory_was_pinned(buffer_page(t, i));
	}
	for (i = 0; i < t->n; i++)
		t->order[i] = i;
	for (i = 1; i < t->n; i++) {
		u32 j = sim_below(i + 1), k = t->order[i];

		t->order[i] = t->order[j];
		t->order[j] = k;
	}
	return 0;
}

/* One page, at the moment that the device likes. */
static int transfer_page(struct transfer *t, u32 i)
{
	u64 page = t->first + i;
	char *at = buffer_page(t, i);
	int err;

	if (memory_is_ours(at) && memory_page(at)->id != t->id[i])
		return 0; /* zapped: it goes nowhere, or nobody knows what comes */
	if (!t->write) {
		memory_set_value(at, page < file_pages(t->file) ? t->file->page[page].value : 0);
		return 0;
	}
	err = device_write(t->file, page, memory_value(at));
	/* Checksums of a device or a file system want what was there at first. */
	sim_check(err || memory_value(at) == t->sent[i] || t->in_place,
		  "page %llu changes on its way to the device", (unsigned long long)page);
	return err;
}

static bool fails(const struct transfer *t)
{
	u64 bad = t->file->bad_read;

	if (t->write)
		return sim_chance(machine.write_error_percent);
	return (bad >= t->first && bad < t->first + t->n) || sim_chance(machine.read_error_percent);
}

static void spoil(const struct transfer *t)
{
	u32 i;

	for (i = 0; i < t->n; i++)
		t->file->bad_block[(t->first + i) / HM_BLOCK_PAGES] = true;
}

/*
 * Direct I/O: whole pages. Those of the buffer are pinned, then the device takes or gives
 * them in its own order; it may end early, or fail after a part.
 */
static ssize_t direct(struct os_file *file, char *buffer, size_t count, u64 offset, bool write)
{
	struct transfer t = { .file = file, .buffer = buffer, .write = write };
	u32 stop, i;
	int err;

	sim_check(!(offset % HM_PAGE_SIZE) && !(count % HM_PAGE_SIZE), "direct I/O of a part");
	t.first = offset >> HM_PAGE_SHIFT;
	t.n = (u32)(count >> HM_PAGE_SHIFT);
	stop = t.n;
	if (write) {
		sim_check(offset + count <= file->size || file->broken || file->truncating,
			  "direct I/O makes the file longer");
		if (offset + count > file->size)
			return -EIO; /* cut off at this moment */
	} else if (t.first + t.n > file_pages(file)) {
		stop = t.first < file_pages(file) ? (u32)(file_pages(file) - t.first) : 0;
	}
	err = pin_all(&t);
	if (err)
		return err;
	device_hang();
	device_pause();
	if (fails(&t)) {
		for (i = 0; i < t.n && write && sim_chance(50); i++)
			if (transfer_page(&t, t.order[i]))
				break;
		if (!write)
			spoil(&t);
		unpin(&t, t.n);
		return -EIO;
	}
	if (stop && sim_chance(machine.short_percent))
		stop = 1 + sim_below(stop);
	for (i = 0; i < t.n; i++) {
		if (t.order[i] >= stop)
			continue;
		device_pause();
		err = transfer_page(&t, t.order[i]);
		if (err) {
			unpin(&t, t.n);
			return err;
		}
	}
	unpin(&t, t.n);
	if (!write && ((u64)(t.first + stop) << HM_PAGE_SHIFT) > file->size)
		return offset < file->size ? (ssize_t)(file->size - offset) : 0;
	return (ssize_t)((size_t)stop << HM_PAGE_SHIFT);
}

/* The engine's write-back is what comes from its memory: the model is told of it. */
static ssize_t told(struct os_file *file, const char *buffer, size_t count, u64 offset, bool write,
		    ssize_t n)
{
	if (write && memory_is_ours(buffer))
		model_wrote(file, offset >> HM_PAGE_SHIFT,
			    n < 0 || memory_page(buffer)->watched & 1 ?
				    0 :
				    ((size_t)n + HM_PAGE_SIZE - 1) >> HM_PAGE_SHIFT,
			    n < 0 ? (int)n : 0);
	return n;
}

ssize_t file_direct(struct os_file *file, char *buffer, size_t count, u64 offset, bool write)
{
	return told(file, buffer, count, offset, write, direct(file, buffer, count, offset, write));
}

/* One page, or a part of it, by the page cache. */
static ssize_t buffered_page(struct os_file *file, char *at, size_t n, u64 offset, bool write)
{
	u64 page = offset >> HM_PAGE_SHIFT, value;
	int err;

	if (memory_is_ours(at) && memory_touch(at, !write) != TOUCHED)
		return -EFAULT;
	if (write) {
		memcpy(&value, at, sizeof(value));
		if (memory_is_ours(at))
			value = memory_value(at);
		err = sim_chance(machine.write_error_percent) ? -EIO :
								device_write(file, page, value);
		if (err)
			return err;
		if (file->size < offset + n)
			file->size = offset + n;
		return (ssize_t)n;
	}
	if (page == file->bad_read) {
		file->bad_block[page / HM_BLOCK_PAGES] = true;
		return -EIO;
	}
	value = file->page[page].value;
	if (memory_is_ours(at))
		memory_set_value(at, value);
	else
		memcpy(at, &value, sizeof(value));
	return (ssize_t)n;
}

/* A file system's lock, which is held while a buffer is touched. */
static void wait_for_lock(const struct os_file *file)
{
	struct long_wait wait = { 0 };

	while (file->locked)
		wait_more(&wait, "a file's lock");
}

static ssize_t buffered_pages(struct os_file *file, char *buffer, size_t count, u64 offset,
			      bool write)
{
	size_t done = 0, n;
	ssize_t got;

	if (!write && offset >= file->size)
		return 0;
	sim_check(!write || !(offset % HM_PAGE_SIZE), "a part of a page is written");
	/* The rest of a page at the end of a file that has grown since: it is known already. */
	if (offset % HM_PAGE_SIZE) {
		n = HM_PAGE_SIZE - offset % HM_PAGE_SIZE;
		return (ssize_t)(n < count ? n : count);
	}
	while (done < count) {
		n = count - done < HM_PAGE_SIZE ? count - done : HM_PAGE_SIZE;
		if (!write && offset + done >= file->size)
			break;
		if (!write && offset + done + n > file->size)
			n = file->size - offset - done;
		if (write && offset + done + n > (u64)MAX_PAGES << HM_PAGE_SHIFT)
			return done ? (ssize_t)done : -EFBIG;
		sim_step();
		got = buffered_page(file, buffer + done, n, offset + done, write);
		if (got < 0)
			return done ? (ssize_t)done : got;
		done += n;
		if (n % HM_PAGE_SIZE || sim_chance(machine.short_percent))
			break; /* the end, which may be elsewhere at the next call */
		if (sim_chance(10))
			device_pause();
	}
	return (ssize_t)done;
}

static ssize_t buffered(struct os_file *file, char *buffer, size_t count, u64 offset, bool write)
{
	ssize_t n;

	if (!write)
		return buffered_pages(file, buffer, count, offset, write);
	wait_for_lock(file);
	file->locked = true;
	n = buffered_pages(file, buffer, count, offset, write);
	file->locked = false;
	return n;
}

ssize_t file_buffered(struct os_file *file, char *buffer, size_t count, u64 offset, bool write)
{
	return told(file, buffer, count, offset, write,
		    buffered(file, buffer, count, offset, write));
}

static ssize_t transfer(int fd, char *buffer, size_t count, u64 offset, bool write)
{
	struct descriptor *d = get(fd);
	struct os_file *file = d->file;

	sim_step();
	sim_check(!thread_locks_held(), "a lock is held while a file is read or written");
	sim_check(d->kind == FD_FILE, "I/O on a descriptor of another kind");
	if ((d->flags & O_ACCMODE) == (write ? O_RDONLY : O_WRONLY))
		return -EBADF;
	return d->flags & O_DIRECT ? file_direct(file, buffer, count, offset, write) :
				     file_buffered(file, buffer, count, offset, write);
}

static ssize_t read_pagemap(u64 *entries, size_t count, u64 offset)
{
	size_t i;

	if (count > 8 && sim_chance(machine.refuse_percent))
		return -ENOMEM;
	for (i = 0; i < count / 8; i++) {
		const struct page *page = memory_page((void *)((offset / 8 + i) << HM_PAGE_SHIFT));

		entries[i] = (page->state & PAGE_PRESENT ? 1ull << 63 : 0) |
			     (page->state & PAGE_SWAPPED ? 1ull << 62 : 0);
	}
	return (ssize_t)count;
}

/* What is there, whatever its rights are; what is not is no fault. */
static ssize_t read_memory(void *buffer, size_t count, u64 offset)
{
	const struct page *page = memory_page((void *)offset);

	hm_assert(count == HM_PAGE_SIZE && !(offset % HM_PAGE_SIZE));
	if (page->kind != PAGE_ANON || !(page->state & (PAGE_PRESENT | PAGE_SWAPPED)))
		return -EIO;
	memcpy(buffer, (const void *)offset, count);
	return (ssize_t)count;
}

ssize_t sys_pread(int fd, void *buffer, size_t count, uint64_t offset)
{
	sim_step();
	if (get(fd)->kind == FD_MEMORY)
		return read_memory(buffer, count, offset);
	if (get(fd)->kind == FD_PAGEMAP)
		return read_pagemap(buffer, count, offset);
	return transfer(fd, buffer, count, offset, false);
}

ssize_t sys_pwrite(int fd, const void *buffer, size_t count, uint64_t offset)
{
	return transfer(fd, (char *)(uintptr_t)buffer, count, offset, true);
}

/* --- files ---------------------------------------------------------------------------- */

int64_t sys_lseek(int fd, uint64_t offset, int whence)
{
	const struct os_file *file = file_of(fd);
	bool hole = whence == SEEK_HOLE;
	u64 page;

	sim_step();
	wait_for_lock(file);
	for (page = offset >> HM_PAGE_SHIFT; page < file_pages(file); page++)
		if (file->page[page].hole == hole)
			break;
	if (page >= file_pages(file) && (whence == SEEK_DATA || offset >= file->size))
		return -ENXIO;
	if (page << HM_PAGE_SHIFT < offset)
		return (s64)offset;
	return (s64)(page << HM_PAGE_SHIFT < file->size ? page << HM_PAGE_SHIFT : file->size);
}

int sys_fstat(int fd, struct stat *st)
{
	const struct os_file *file = file_of(fd);

	sim_step();
	/* Of a file that a server has, say. */
	if (sim_chance(machine.refuse_percent))
		return -EIO;
	memset(st, 0, sizeof(*st));
	st->st_mode = S_IFREG | 0600;
	st->st_dev = 1;
	st->st_ino = (ino_t)(file - os_files) + 1;
	st->st_size = (off_t)file->size;
	return 0;
}

int sys_statx(int fd, unsigned int mask, struct statx *stx)
{
	memset(stx, 0, sizeof(*stx));
	stx->stx_mask = mask;
	stx->stx_dio_offset_align = file_of(fd)->align;
	return 0;
}

static struct descriptor *who_locks(const struct descriptor *d, short type)
{
	u32 i;

	for (i = 0; i < FDS; i++)
		if (&fds[i] != d && fds[i].kind == FD_FILE && fds[i].file == d->file &&
		    fds[i].lock != F_UNLCK && (type == F_WRLCK || fds[i].lock == F_WRLCK))
			return &fds[i];
	return NULL;
}

int sys_fcntl(int fd, int command, void *arg)
{
	struct descriptor *d = get(fd), *other;
	struct flock *lock = arg;

	sim_step();
	switch (command) {
	case F_GETFL:
		return d->flags;
	case F_OFD_GETLK:
		other = who_locks(d, lock->l_type);
		lock->l_type = other ? other->lock : F_UNLCK;
		lock->l_pid = -1;
		return 0;
	case F_OFD_SETLK:
		/* A server is asked. (Where no file could be opened: under any.) */
		sim_check(lock->l_type != F_UNLCK || machine.refuse_percent || !thread_locks_held(),
			  "a lock is held while a file is unlocked");
		if (lock->l_type != F_UNLCK && who_locks(d, lock->l_type))
			return -EAGAIN;
		d->lock = lock->l_type;
		return 0;
	default:
		return -EINVAL;
	}
}

int sys_ioctl(int fd, unsigned long request, void *arg)
{
	sim_check(get(fd)->kind == FD_USERFAULT, "an ioctl of a file");
	return userfault_ioctl(request, arg);
}

int sys_ftruncate(int fd, uint64_t size)
{
	struct descriptor *d = get(fd);

	sim_step();
	if (d->kind == FD_MEMFD)
		return 0;
	if ((d->flags & O_ACCMODE) == O_RDONLY)
		return -EINVAL;
	if (size > (u64)MAX_PAGES << HM_PAGE_SHIFT)
		return -EFBIG;
	device_pause();
	if (sim_chance(machine.refuse_percent))
		return -EIO;
	file_resize(d->file, size);
	d->file->truncations++;
	return 0;
}

/* Room for what will be written; some of it may be there when there is not enough. */
static int reserve(struct os_file *file, u64 page, u64 end)
{
	int err = 0;

	sim_check(!thread_locks_held(), "a lock is held while room is made");
	if (machine.no_reserve)
		return -EOPNOTSUPP;
	for (; page < end && page < file_pages(file) && !err; page++) {
		err = device_reserve(file, page);
		sim_step();
	}
	return err;
}

int sys_fallocate(int fd, int mode, uint64_t offset, uint64_t length)
{
	struct descriptor *d = get(fd);
	u64 page, end = (offset + length) >> HM_PAGE_SHIFT;

	sim_step();
	if ((d->flags & O_ACCMODE) == O_RDONLY)
		return -EBADF;
	device_pause();
	if (mode == FALLOC_FL_KEEP_SIZE)
		return reserve(d->file, offset >> HM_PAGE_SHIFT, end);
	sim_check(mode == (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE), "fallocate: %d", mode);
	if (machine.no_punch)
		return -EOPNOTSUPP;
	if (sim_chance(machine.refuse_percent))
		return -EIO;
	for (page = (offset + HM_PAGE_SIZE - 1) >> HM_PAGE_SHIFT;
	     page < end && page < file_pages(d->file); page++)
		device_zero(d->file, page);
	d->file->truncations++;
	return 0;
}

/* What was written before the call survives from now on, what comes meanwhile may. */
int sys_fdatasync(int fd)
{
	struct os_file *file = file_of(fd);
	u64 before[MAX_PAGES], writes[MAX_PAGES];
	u32 i;

	sim_step();
	for (i = 0; i < MAX_PAGES; i++) {
		before[i] = file->page[i].value;
		writes[i] = file->page[i].writes;
	}
	device_pause();
	if (sim_chance(machine.flush_error_percent)) {
		model_flush_failed(file);
		return sim_chance(50) ? -EIO : sim_chance(50) ? -EBUSY : -EAGAIN;
	}
	for (i = 0; i < MAX_PAGES; i++) {
		struct disk_page *p = &file->page[i];

		if (writes[i] < p->safe_writes)
			continue; /* a flush that began later has ended first */
		p->safe = before[i];
		p->safe_writes = writes[i];
		p->npending = 0;
		if (p->value != before[i])
			p->pending[p->npending++] = p->value;
	}
	return 0;
}

/* --- events ---------------------------------------------------------------------------- */

bool descriptor_readable(int fd)
{
	struct descriptor *d = get(fd);

	return d->kind == FD_USERFAULT ? userfault_readable() : d->events;
}

ssize_t sys_read(int fd, void *buffer, size_t count)
{
	struct descriptor *d = get(fd);

	sim_step();
	if (d->kind == FD_USERFAULT)
		return userfault_read(buffer, count);
	sim_check(d->kind == FD_EVENT, "read() of a descriptor of another kind");
	if (!d->events)
		return -EAGAIN;
	memcpy(buffer, &d->events, sizeof(d->events));
	d->events = 0;
	return sizeof(d->events);
}

ssize_t sys_write(int fd, const void *buffer, size_t count)
{
	struct descriptor *d = get(fd);
	u64 n;

	sim_step();
	sim_check(d->kind == FD_EVENT, "write() to a descriptor of another kind");
	memcpy(&n, buffer, sizeof(n));
	d->events += n;
	return (ssize_t)count;
}

int sys_poll(struct pollfd *polled, unsigned int n, int timeout_ms)
{
	u64 until = clock_now_ms() + (u64)timeout_ms;
	unsigned int i;
	int ready;

	for (;;) {
		ready = 0;
		for (i = 0; i < n; i++) {
			polled[i].revents = descriptor_readable(polled[i].fd) ? POLLIN : 0;
			ready += polled[i].revents != 0;
		}
		if (ready || (timeout_ms >= 0 && clock_now_ms() >= until))
			return ready;
		sim_yield();
	}
}
