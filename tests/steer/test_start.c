// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Start and end of the monitor thread: under seccomp filters, and before setuid(). */
#include "common.h"

#include "device.h"
#include "map.h"
#include "memory.h"
#include "room.h"
#include "thread.h"
#include "uapi.h"
#include "watch.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

static bool hold, held;

/*
 * The monitor calls this function in its first look. It keeps the monitor busy until the test
 * clears @hold.
 */
uint64_t memory_for_cache(void)
{
	__atomic_store_n(&held, true, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&hold, __ATOMIC_SEQ_CST))
		nap();
	return SIZE;
}

uint64_t memory_read_again(void)
{
	return 0;
}

/* --- filters --- */

static void filter(struct sock_filter *code, size_t n)
{
	struct sock_fprog program = { .len = (unsigned short)n, .filter = code };

	CHECK(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	CHECK(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
}

/* Install a filter that returns @answer for one system call. */
static void filter_call(unsigned int number, unsigned int answer)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, answer),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};

	filter(code, COUNT(code));
}

static long minor_faults(void)
{
	struct rusage usage;

	CHECK(!getrusage(RUSAGE_SELF, &usage));
	return usage.ru_minflt;
}

/*
 * Under a filter like that of a container, the monitor starts. permit_calls() must not copy the
 * program's memory to test the filter, as then a store to each page would fault afterwards.
 */
static void filter_that_allows(void)
{
	const size_t size = 64 * MB;
	int fd = open_file(O_RDONLY);
	long faults;
	char *memory, *at;
	size_t i;

	memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(memory != MAP_FAILED && !madvise(memory, size, MADV_NOHUGEPAGE));
	memset(memory, 1, size);
	filter_call(0xffff, SECCOMP_RET_ALLOW);
	at = map_file(fd, PROT_READ, MAP_SHARED);
	WAIT_FOR(told_of(at));
	faults = minor_faults();
	for (i = 0; i < size; i += PAGE)
		memory[i]++;
	CHECK(minor_faults() - faults < 1000);
	CHECK(waitpid(-1, NULL, __WALL) == -1 && errno == ECHILD);
	CHECK(prctl(PR_GET_DUMPABLE) == 1);
}

/*
 * Install a filter that refuses close_range() of all descriptors, and ends the process if it opens
 * a path.
 */
static void filter_close_range_and_open(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_close_range, 4, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 6),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned int)AT_FDCWD, 0, 4),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};

	filter(code, COUNT(code));
}

/* A monitor without a table of its own would open its files in that of the program. */
static void failed_start_opens_nothing(void)
{
	struct event event = { EVENT_MAPPED, .bytes = SIZE, .prot = PROT_READ,
			       .flags = MAP_SHARED };
	int fd = open_file(O_RDONLY);
	char *at = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, fd, 0);

	CHECK(at != MAP_FAILED);
	event.start = (uintptr_t)at;
	event.room_bytes = map_room(event.start, event.bytes);
	event.room = room_map(event.room_bytes);
	CHECK(event.room);
	filter_close_range_and_open();
	/* This event waits when the monitor starts. */
	CHECK(events_begin() && event_put(&event));
	steer_mapped(at, SIZE, PROT_READ, MAP_SHARED, 0);
	steer_alone();
	CHECK(watch_is_impossible());
}

/* Older container runtimes refuse system calls that they do not know. */
static void filter_that_refuses(void)
{
	int fd = open_file(O_RDONLY), before = dup(fd), i, k;
	char *at;

	close(before);
	filter_call(SYS_close_range, SECCOMP_RET_ERRNO | EPERM);
	at = map_file(fd, PROT_READ, MAP_SHARED);
	for (i = 0; i < 2000; i++) {
		k = dup(fd);
		CHECK(k == before);
		close(k);
	}
	WAIT_FOR(threads_now() == 1);
	CHECK(!told_of(at));
}

/* Map the file twice in a child under a filter. The child has no monitor, and ends by itself. */
static void is_not_killed(void (*install)(unsigned int what, unsigned int answer),
			  unsigned int what)
{
	pid_t child = fork();
	int status, fd, i;

	CHECK(child >= 0);
	if (!child) {
		fd = open_file(O_RDONLY);
		install(what, SECCOMP_RET_KILL_PROCESS);
		for (i = 0; i < 2; i++) {
			in_order(map_file(fd, PROT_READ, MAP_SHARED), 8 * MB, false);
			CHECK(threads_now() == 1);
		}
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child);
	if (status)
		fprintf(stderr, "filter for %u: status 0x%x\n", what, (unsigned int)status);
	CHECK(status == 0);
}

/*
 * Steering makes each of these system calls, and the program does not. If a filter kills the
 * process for one of them, the monitor must not start.
 */
static void filter_that_kills(void)
{
	static const unsigned int calls[] = {
		SYS_close_range, SYS_capset,	    SYS_memfd_create,	   SYS_sched_setscheduler,
		SYS_pread64,	 SYS_statx,	    SYS_name_to_handle_at, SYS_getrusage,
		SYS_ioctl,	 SYS_ftruncate,	    SYS_readlinkat,	   SYS_tgkill,
		SYS_futex,	 SYS_clock_gettime, SYS_pidfd_getfd,
	};
	static const unsigned int advice[] = {
		MADV_NORMAL,	 MADV_RANDOM,	     MADV_WILLNEED, MADV_HUGEPAGE,
		MADV_NOHUGEPAGE, MADV_POPULATE_READ, MADV_DONTFORK, MADV_DONTNEED_LOCKED,
	};
	size_t i;

	for (i = 0; i < COUNT(calls); i++)
		is_not_killed(filter_call, calls[i]);
	for (i = 0; i < COUNT(advice); i++)
		is_not_killed(filter_advice, advice[i]);
}

/* Install a filter that returns @answer for each system call that the test does not make. */
static void filter_all_but_few(unsigned int answer)
{
	static const unsigned int calls[] = {
		SYS_mmap,	SYS_munmap,	SYS_write,	SYS_openat,
		SYS_close,	SYS_newfstatat, SYS_getdents64, SYS_lseek,
		SYS_exit_group, SYS_brk,	SYS_getpid,	SYS_rt_sigprocmask,
		SYS_prctl,	SYS_clone,	SYS_wait4,	SYS_exit,
	};
	struct sock_filter code[COUNT(calls) + 3] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		[COUNT(calls) + 1] = BPF_STMT(BPF_RET | BPF_K, answer),
		[COUNT(calls) + 2] = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	size_t i;

	for (i = 0; i < COUNT(calls); i++)
		code[i + 1] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[i],
							   (unsigned char)(COUNT(calls) - i), 0);
	filter(code, COUNT(code));
}

/* Under a filter that allows little, mappings work, and there is no monitor. */
static void filter_that_allows_little(void)
{
	static const unsigned int answers[] = { SECCOMP_RET_ERRNO | EPERM,
						SECCOMP_RET_ERRNO | ENOSYS,
						SECCOMP_RET_KILL_PROCESS };
	int status, fd = open_file(O_RDONLY);
	volatile char *at;
	pid_t child;
	size_t i;

	for (i = 0; i < COUNT(answers); i++) {
		child = fork();
		CHECK(child >= 0);
		if (!child) {
			filter_all_but_few(answers[i]);
			at = map_file(fd, PROT_READ, MAP_SHARED);
			CHECK(at[MB] && threads_now() == 1);
			unmap_file((void *)at);
			at = map_file(fd, PROT_READ, MAP_SHARED);
			CHECK(at[MB] && threads_now() == 1);
			_exit(0);
		}
		CHECK(waitpid(child, &status, 0) == child && status == 0);
	}
}

/* A kernel without huge pages refuses both kinds of advice for them. */
static void without_huge_pages(void)
{
	int fd = open_file(O_RDONLY), round;
	uint64_t page = 1;
	volatile char *at;

	filter_advice(MADV_HUGEPAGE, SECCOMP_RET_ERRNO | EINVAL);
	filter_advice(MADV_NOHUGEPAGE, SECCOMP_RET_ERRNO | EINVAL);
	forget_cached(fd);
	at = map_file(fd, PROT_READ, MAP_SHARED);
	for (round = 0; round < 4000 && !has_pattern((void *)at, STEER_RANDOM); round++) {
		page = page * 6364136223846793005u + 1442695040888963407u;
		CHECK(at[(page >> 33) % (SIZE / PAGE) * PAGE]);
		nap();
	}
	CHECK(has_pattern((void *)at, STEER_RANDOM) && has_flag((void *)at, " rr"));
	/* Advice for a stream splits the kernel's area of the mapping in this way. */
	CHECK(!madvise((void *)(at + 32 * MB), 32 * MB, MADV_NORMAL));
	CHECK(mremap((void *)at, SIZE, SIZE + MB, MREMAP_MAYMOVE) == MAP_FAILED && errno == EFAULT);
	CHECK((intptr_t)steer_remap((void *)at, SIZE, SIZE + MB, MREMAP_MAYMOVE, NULL) > 0);
}

/* Pages of all mappings of this process. */
static long pages_mapped(void)
{
	FILE *file = fopen("/proc/self/statm", "re");
	long pages = 0;

	CHECK(file && fscanf(file, "%ld", &pages) == 1);
	fclose(file);
	return pages;
}

static void map_without_monitor(void)
{
	long before = pages_mapped();
	int fd = open_file(O_RDONLY);

	unmap_file(map_file(fd, PROT_READ, MAP_SHARED));
	CHECK(threads_now() == 1 && pages_mapped() == before);
}

/* Without a monitor, steering keeps no memory. */
static void no_monitor_no_memory(void)
{
	int device;

	steer_alone();
	map_without_monitor();
	steer_alone_end();
	/* The monitor would not start with this device among the first descriptors. */
	device = mknod("/dev/shm/hugemap-drm", S_IFCHR | 0600, makedev(226, 0)) ?
			 -1 :
			 open("/dev/shm/hugemap-drm", O_PATH | O_CLOEXEC);
	unlink("/dev/shm/hugemap-drm");
	if (device >= 0)
		map_without_monitor();
	else
		fprintf(stderr, "skipped: no device can be made here\n");
	close(device);
	filter_call(SYS_capset, SECCOMP_RET_KILL_PROCESS);
	map_without_monitor();
}

/* The kernel, or a filter of a container, does not have close_range(). */
static void no_close_range_no_memory(void)
{
	filter_call(SYS_close_range, SECCOMP_RET_ERRNO | ENOSYS);
	map_without_monitor();
}

/* The user may have no more threads. The ring of events stays, as other threads may use it. */
static void no_thread_little_memory(void)
{
	const struct rlimit one = { 1, 1 };
	long before = pages_mapped();
	int fd = open_file(O_RDONLY);

	CHECK(!setrlimit(RLIMIT_NPROC, &one) && !setresuid(54321, 54321, 54321));
	unmap_file(map_file(fd, PROT_READ, MAP_SHARED));
	CHECK(threads_now() == 1);
	CHECK(pages_mapped() - before < (long)(MB / PAGE));
}

/* Map the file when a first monitor has ended and a second one cannot start. */
static void *map_without_second_thread(void)
{
	const struct rlimit one = { 1, 1 };
	int fd = open_file(O_RDONLY);
	char *at = map_file(fd, PROT_READ, MAP_SHARED);

	WAIT_FOR(told_of(at));
	unmap_file(at);
	WAIT_FOR(threads_now() == 1);
	CHECK(!setrlimit(RLIMIT_NPROC, &one) && !setresuid(54321, 54321, 54321));
	at = map_file(fd, PROT_READ, MAP_SHARED);
	CHECK(threads_now() == 1 && watch_is_impossible());
	return at;
}

/* The report of the first monitor stays, and a program may read it. */
static void no_second_thread_keeps_the_report(void)
{
	map_without_second_thread();
	CHECK(steer_own_page()->pid == (uint32_t)getpid());
}

/*
 * A thread of the program puts an event while another one tries to start the monitor. No monitor
 * takes it, so later calls must put no more.
 */
static void no_second_thread_no_events(void)
{
	char *at = map_without_second_thread();

	CHECK(event_put(&(struct event){ .kind = EVENT_HINT }));
	steer_hint(at, SIZE, MADV_RANDOM);
	unmap_file(at);
	CHECK(events_backlog() == 1);
}

/* Reserve addresses. Nothing else is there. */
static void reserve(uintptr_t start, size_t bytes)
{
	CHECK(mmap((void *)start, bytes, PROT_NONE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1,
		   0) == (void *)start);
}

/* ThreadSanitizer reserves these addresses. */
static void other_places_are_found(void)
{
	int fd = open_file(O_RDONLY);
	char *at;

	reserve((uintptr_t)64 << 40, (size_t)16 << 40);
	at = map_file(fd, PROT_READ, MAP_SHARED);
	IN_ORDER_UNTIL(at, false, has_pattern(at, STEER_STREAM));
}

/* The program uses all addresses at which the monitor may have its memory. */
static void no_place_no_monitor(void)
{
	reserve((uintptr_t)64 << 40, (size_t)16 << 40);
	reserve((uintptr_t)256 << 30, (size_t)64 << 30);
	map_without_monitor();
	map_without_monitor();
}

/* --- page size --- */

/* A kernel with larger base pages refuses an address that is no multiple of their size. */
static void large_pages_are_refused(unsigned int page_bytes)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, page_bytes - 1, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	int fd = open_file(O_RDONLY);

	filter(code, COUNT(code));
	map_file(fd, PROT_READ, MAP_SHARED);
	CHECK(threads_now() == 1 && !steer_own_page());
}

static void pages_of_16_kb_are_refused(void)
{
	large_pages_are_refused(16 << 10);
}

static void pages_of_64_kb_are_refused(void)
{
	large_pages_are_refused(64 << 10);
}

/* --- devices --- */

static uint64_t device_of(const char *path)
{
	struct stat st;

	CHECK(!stat(path, &st));
	return st.st_dev;
}

/*
 * device_is_local() sends no request to a file system. The device of an overlayfs mount has the
 * read-ahead setting of the lower device.
 */
static void devices_are_found(void)
{
	char top[] = "/var/tmp/hugemap-overlay-XXXXXX", options[200];
	uint64_t below;

	CHECK(!device_is_local(device_of("/proc")));
	CHECK(device_read_ahead_kb(~0ull) == 128 && !device_is_local(~0ull));
	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL)) {
		fprintf(stderr, "skipped: nothing can be mounted here\n");
		return;
	}
	CHECK(mkdtemp(top));
	below = device_of(top);
	snprintf(options, sizeof(options), "lowerdir=%s:/usr", top);
	if (!mount("test", top, "overlay", 0, options)) {
		CHECK(device_of(top) != below && device_is_local(device_of(top)));
		CHECK(device_read_ahead_kb(device_of(top)) ==
		      device_read_ahead_kb(device_of("/usr")));
		CHECK(!umount(top));
	}
	CHECK(!mount("test", top, "tmpfs", 0, NULL) && !device_is_local(device_of(top)));
	CHECK(!umount(top) && !rmdir(top));
}

/* Show these lines in /proc/self/mountinfo of this process. Returns false if that is not possible. */
static bool show_mounts(const char *lines)
{
	char path[] = "/tmp/hugemap-mountinfo-XXXXXX";
	int fd = mkstemp(path);
	bool shown;

	CHECK(fd >= 0 && write(fd, lines, strlen(lines)) == (ssize_t)strlen(lines) && !close(fd));
	shown = !unshare(CLONE_NEWNS) && !mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) &&
		!mount(path, "/proc/self/mountinfo", NULL, MS_BIND, NULL);
	if (!shown)
		fprintf(stderr, "skipped: nothing can be mounted here\n");
	CHECK(!unlink(path));
	return shown;
}

/* The kernel engine has its own cache and read-ahead, so files on its mounts are not steered. */
static void mounts_of_hugemap_are_not_steered(void)
{
	if (!show_mounts("40 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
			 "41 40 0:77 / /mnt/fast rw - hugemap /data rw,pool=16M\n"
			 "42 40 0:78 / /mnt/data rw - btrfs /dev/sdb rw\n"))
		return;
	CHECK(device_is_local(makedev(8, 1)) && device_is_local(makedev(0, 78)));
	CHECK(!device_is_local(makedev(0, 77)));
	CHECK(!umount("/proc/self/mountinfo"));
}

/* A file of an overlayfs may lie in a layer on another machine. */
static void layers_of_other_machines_are_not_steered(void)
{
	if (!show_mounts("40 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
			 "41 40 0:50 / /net rw - nfs server:/data rw,vers=4.2,addr=::1\n"
			 "42 40 0:61 / /a rw - overlay o rw,lowerdir=/x:/y,upperdir=/u,workdir=/w\n"
			 "43 40 0:62 / /b rw - overlay o rw,lowerdir=/x:/net/y:/z,upperdir=/u\n"
			 "44 40 0:63 / /c rw - overlay o rw,lowerdir+=/net/x,lowerdir+=/y\n"
			 "45 40 0:64 / /d rw - overlay o rw,lowerdir=x:y,upperdir=/net/u,a=b\n"
			 "46 40 0:65 / /e rw - overlay o rw,lowerdir=x:y\n"
			 "47 40 0:66 / /f rw - overlay o rw,lowerdir=x:/net/y,upperdir=/u\n"
			 "48 40 0:67 / /g rw - overlay o rw,lowerdir=/l::/net/d,upperdir=/u\n"
			 "49 40 0:68 / /h rw - overlay o rw,lowerdir+=/l,datadir+=/net/d\n"
			 "50 40 0:69 / /i rw - overlay o rw,lowerdir=/l::/x,upperdir=/u\n"
			 "51 40 0:70 / /j rw - overlay o rw,lowerdir=x,upperdir=/u\n"
			 "52 40 0:71 / /k rw - overlay o rw,lowerdir=/net/y:x\n"))
		return;
	CHECK(device_is_local(makedev(0, 61)) && !device_is_local(makedev(0, 62)));
	CHECK(!device_is_local(makedev(0, 63)) && !device_is_local(makedev(0, 64)));
	/* The layers are not known: a container does not show them. */
	CHECK(device_is_local(makedev(0, 65)));
	/* Layers follow one that is not found, or an empty name. */
	CHECK(!device_is_local(makedev(0, 66)) && !device_is_local(makedev(0, 67)));
	CHECK(!device_is_local(makedev(0, 68)) && device_is_local(makedev(0, 69)));
	/* A layer that is not found may be on another machine. */
	CHECK(!device_is_local(makedev(0, 70)) && !device_is_local(makedev(0, 71)));
	CHECK(!umount("/proc/self/mountinfo"));
}

/* --- the caller --- */

static long switches(void)
{
	struct rusage usage;

	CHECK(!getrusage(RUSAGE_THREAD, &usage));
	return usage.ru_nvcsw;
}

/* While the monitor is busy, the program maps and unmaps 2 GB, and does not sleep for it. */
static void large_mapping_does_not_wait(void)
{
	const size_t size = 2048 * MB;
	int fd = open_file(O_RDWR), i;
	long before;
	char *at;

	hold = true;
	in_order(map_file(fd, PROT_READ, MAP_SHARED), MB, false);
	WAIT_FOR(__atomic_load_n(&held, __ATOMIC_SEQ_CST));
	CHECK(!ftruncate(fd, (off_t)size));
	before = switches();
	for (i = 0; i < 100; i++) {
		at = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
		CHECK(at != MAP_FAILED);
		steer_mapped(at, size, PROT_READ, MAP_SHARED, 0);
		steer_unmapping(at, size);
		CHECK(!munmap(at, size));
	}
	CHECK(switches() - before < 50);
	__atomic_store_n(&hold, false, __ATOMIC_SEQ_CST);
	CHECK(!ftruncate(fd, (off_t)SIZE));
}

/* --- leaving --- */

static bool is_alone;

static void *get_alone(void *unused)
{
	(void)unused;
	steer_alone();
	__atomic_store_n(&is_alone, true, __ATOMIC_SEQ_CST);
	return NULL;
}

/*
 * steer_alone() waits until the monitor has ended, however long that takes. During this time no new
 * mapping starts the monitor again.
 */
static void alone_waits(void)
{
	int fd = open_file(O_RDONLY), i;
	pthread_t thread;

	hold = true;
	in_order(map_file(fd, PROT_READ, MAP_SHARED), MB, false);
	WAIT_FOR(__atomic_load_n(&held, __ATOMIC_SEQ_CST));
	CHECK(!pthread_create(&thread, NULL, get_alone, NULL));
	for (i = 0; i < 300; i++) {
		CHECK(!__atomic_load_n(&is_alone, __ATOMIC_SEQ_CST));
		nap();
	}
	map_file(fd, PROT_READ, MAP_SHARED);
	__atomic_store_n(&hold, false, __ATOMIC_SEQ_CST);
	CHECK(!pthread_join(thread, NULL));
	WAIT_FOR(threads_now() == 1); /* Linux counts the joined thread a little longer */
	map_file(fd, PROT_READ, MAP_SHARED);
	CHECK(threads_now() == 1);
	steer_alone_end();
	map_file(fd, PROT_READ, MAP_SHARED);
	WAIT_FOR(threads_now() == 2);
}

static int filtered; /* 1 = yes, -1 = the call has failed */

static void *filter_alone(void *unused)
{
	(void)unused;
	steer_never();
	__atomic_store_n(&filtered, filter_all_threads() ? 1 : -1, __ATOMIC_SEQ_CST);
	return NULL;
}

/* A device hangs, and the monitor waits for it: the filter comes when the device goes on. */
static void filter_waits(void)
{
	int fd = open_file(O_RDONLY), i;
	pthread_t thread;

	hold = true;
	in_order(map_file(fd, PROT_READ, MAP_SHARED), MB, false);
	WAIT_FOR(__atomic_load_n(&held, __ATOMIC_SEQ_CST));
	CHECK(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	CHECK(!pthread_create(&thread, NULL, filter_alone, NULL));
	for (i = 0; i < 300; i++) {
		CHECK(!__atomic_load_n(&filtered, __ATOMIC_SEQ_CST));
		nap();
	}
	__atomic_store_n(&hold, false, __ATOMIC_SEQ_CST);
	CHECK(!pthread_join(thread, NULL));
	CHECK(__atomic_load_n(&filtered, __ATOMIC_SEQ_CST) == 1);
	WAIT_FOR(threads_now() == 1);
	in_order(map_file(fd, PROT_READ, MAP_SHARED), MB, false);
	CHECK(threads_now() == 1);
}

/*
 * The handler of pthread_atfork(3) does not run in children of a raw clone or fork. They have
 * neither the monitor nor its memory.
 */
static void raw_children(void)
{
	int fd = open_file(O_RDONLY), status, i;
	char *at = map_file(fd, PROT_READ, MAP_SHARED);
	pid_t child;

	WAIT_FOR(told_of(at));
	for (i = 0; i < 2; i++) {
		child = i ? (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) : _Fork();
		if (!child) {
			CHECK(!steer_own_page() && threads_now() == 1);
			steer_alone();
			steer_alone_end();
			unmap_file(at);
			map_file(fd, PROT_READ, MAP_SHARED);
			CHECK(threads_now() == 1);
			_exit(0);
		}
		CHECK(waitpid(child, &status, 0) == child && status == 0);
	}
	CHECK(told_of(at));
}

/*
 * The kernel may give the number of the ended monitor to another thread of the program, which does
 * not end. Only the first caller waits a second for it.
 */
static void reused_number_is_waited_for_once(void)
{
	struct thread thread = { .last = getpid() };

	CHECK(thread_wait_gone(&thread) && !thread.last);
}

RUN(filter_that_allows)
RUN(failed_start_opens_nothing)
RUN(filter_that_refuses)
RUN(filter_that_kills)
RUN(filter_that_allows_little)
RUN(without_huge_pages)
RUN(no_monitor_no_memory)
RUN(no_close_range_no_memory)
RUN(no_thread_little_memory)
RUN(no_second_thread_keeps_the_report)
RUN(no_second_thread_no_events)
RUN(other_places_are_found)
RUN(no_place_no_monitor)
RUN(pages_of_16_kb_are_refused)
RUN(pages_of_64_kb_are_refused)
RUN(devices_are_found)
RUN(mounts_of_hugemap_are_not_steered)
RUN(layers_of_other_machines_are_not_steered)
RUN(large_mapping_does_not_wait)
RUN(alone_waits)
RUN(filter_waits)
RUN(raw_children)
RUN(reused_number_is_waited_for_once)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(filter_that_allows_test),
		cmocka_unit_test(failed_start_opens_nothing_test),
		cmocka_unit_test(filter_that_refuses_test),
		cmocka_unit_test(filter_that_kills_test),
		cmocka_unit_test(filter_that_allows_little_test),
		cmocka_unit_test(without_huge_pages_test),
		cmocka_unit_test(no_monitor_no_memory_test),
		cmocka_unit_test(no_close_range_no_memory_test),
		cmocka_unit_test(no_thread_little_memory_test),
		cmocka_unit_test(no_second_thread_keeps_the_report_test),
		cmocka_unit_test(no_second_thread_no_events_test),
		cmocka_unit_test(other_places_are_found_test),
		cmocka_unit_test(no_place_no_monitor_test),
		cmocka_unit_test(pages_of_16_kb_are_refused_test),
		cmocka_unit_test(pages_of_64_kb_are_refused_test),
		cmocka_unit_test(devices_are_found_test),
		cmocka_unit_test(mounts_of_hugemap_are_not_steered_test),
		cmocka_unit_test(layers_of_other_machines_are_not_steered_test),
		cmocka_unit_test(large_mapping_does_not_wait_test),
		cmocka_unit_test(alone_waits_test),
		cmocka_unit_test(filter_waits_test),
		cmocka_unit_test(raw_children_test),
		cmocka_unit_test(reused_number_is_waited_for_once_test),
	};

	return cmocka_run_group_tests(tests, new_group, end_group);
}
