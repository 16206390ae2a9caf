/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Shared by all test programs. A program specifies behaviours. Each behaviour runs in a
 * process and a directory of its own, and fails if its process does not exit with 0:
 *
 *	BEHAVIOUR(read_returns_what_was_stored)
 *	{
 *		...
 *	}
 *
 *	RUN_BEHAVIOURS
 *
 * `program PATTERN...` runs only the behaviours whose names match a pattern of fnmatch(3).
 * On a file system other than hugemap the programs show what Linux itself does; MNT and
 * LOWER may then be the same directory.
 */
#ifndef TESTS_KERNEL_COMMON_H
#define TESTS_KERNEL_COMMON_H

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <ftw.h>
#include <grp.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <sys/types.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#define SMALL 4096ul
#define HUGE (2ul << 20)
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define HUGEMAP_MAGIC 0x48554745

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

static const char *mnt_dir, *lower_dir;
/* The directory of the running behaviour in the mount, and the same one in the lower fs. */
static char work_dir[512], work_lower[512];

/* --- results ----------------------------------------------------------------------- */

static inline void die(const char *file, int line, const char *format, ...)
	__attribute__((format(printf, 3, 4), noreturn));
static inline void die(const char *file, int line, const char *format, ...)
{
	va_list ap;

	fprintf(stdout, "%s:%d: ", file, line);
	va_start(ap, format);
	vfprintf(stdout, format, ap);
	va_end(ap);
	fputc('\n', stdout);
	fflush(stdout);
	_exit(1);
}

/* The message states the result and, where it is not obvious, the expected result. */
#define FAIL(...) die(__FILE__, __LINE__, __VA_ARGS__)
#define EXPECT(condition, ...)             \
	do {                               \
		if (!(condition))          \
			FAIL(__VA_ARGS__); \
	} while (0)
/* For set-up calls that are not under test. */
#define MUST(call)                                              \
	do {                                                    \
		errno = 0;                                      \
		if ((long)(call) < 0)                           \
			FAIL("%s: %s", #call, strerror(errno)); \
	} while (0)
#define EXPECT_ERRNO(call, error)                                                                \
	do {                                                                                     \
		long result_;                                                                    \
		errno = 0;                                                                       \
		result_ = (long)(call);                                                          \
		EXPECT(result_ < 0 && errno == (error),                                          \
		       "%s returned %ld with errno %d (%s), expected %s", #call, result_, errno, \
		       strerror(errno), strerror(error));                                        \
	} while (0)

static inline void skip(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
static inline void skip(const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	vfprintf(stdout, format, ap);
	va_end(ap);
	fputc('\n', stdout);
	fflush(stdout);
	_exit(77);
}

/* --- the system under test ----------------------------------------------------------- */

static inline bool on_hugemap(void)
{
	struct statfs fs;

	return !statfs(mnt_dir, &fs) && (unsigned int)fs.f_type == HUGEMAP_MAGIC;
}

static inline bool mounted_with_pages(const char *what)
{
	const char *page = getenv("PAGE");

	return on_hugemap() && page && !strcmp(page, what);
}

static inline bool huge_pages(void)
{
	return mounted_with_pages("2M");
}

static inline bool hybrid_pages(void)
{
	return mounted_with_pages("auto");
}

/* Is this the debug kernel, on which everything takes ten times as long? */
static inline bool slow(void)
{
	const char *text = getenv("SLOW");

	return text && *text == '1';
}

static inline bool kernel_before(const char *version)
{
	struct utsname name;

	MUST(uname(&name));
	return strverscmp(name.release, version) < 0;
}

/* For tests that mount by themselves. */
static inline void require_hugemap(void)
{
	FILE *file = fopen("/proc/filesystems", "r");
	bool found = false;
	char line[128];

	while (file && fgets(line, sizeof(line), file))
		found = found || strstr(line, "hugemap");
	if (file)
		fclose(file);
	if (!found)
		skip("this kernel has no hugemap");
}

/* --- paths ------------------------------------------------------------------------- */

/* The last four results remain valid. */
static inline const char *path_in(const char *dir, const char *name)
{
	static char paths[4][1200];
	static unsigned int turn;
	char *path = paths[turn++ % 4];

	snprintf(path, sizeof(paths[0]), "%s/%s", dir, name);
	return path;
}

/* The path of the same file in the lower file system. */
static inline const char *lower_path(const char *name)
{
	return path_in(work_lower, name);
}

/* --- content ----------------------------------------------------------------------- */

/*
 * Every 8 bytes of a file depend on their offset and on a seed, so that misplaced, stale
 * and foreign bytes differ from the expected ones.
 */
static inline uint64_t pattern_word(uint64_t seed, uint64_t index)
{
	uint64_t z = (seed + 1) * 0x9e3779b97f4a7c15ull + index * 0xd1342543de82ef95ull;

	z = (z ^ (z >> 29)) * 0xbf58476d1ce4e5b9ull;
	return z ^ (z >> 32);
}

static inline unsigned char pattern_byte(uint64_t seed, uint64_t off)
{
	return (unsigned char)(pattern_word(seed, off / 8) >> (off % 8 * 8));
}

static inline void pattern(void *buf, uint64_t seed, uint64_t off, size_t len)
{
	unsigned char *p = buf;
	size_t i;

	for (i = 0; i < len && (off + i) % 8; i++)
		p[i] = pattern_byte(seed, off + i);
	for (; i + 8 <= len; i += 8) {
		uint64_t word = pattern_word(seed, (off + i) / 8);

		memcpy(p + i, &word, 8);
	}
	for (; i < len; i++)
		p[i] = pattern_byte(seed, off + i);
}

/* @how names the access for the failure message: "load after a write". */
static inline void expect_pattern(const char *how, const void *buf, uint64_t seed, uint64_t off,
				  size_t len)
{
	const unsigned char *p = buf;
	size_t i;

	for (i = 0; i < len; i++) {
		if ((off + i) % 8 == 0 && i + 8 <= len) {
			uint64_t word = pattern_word(seed, (off + i) / 8);

			if (!memcmp(p + i, &word, 8)) {
				i += 7;
				continue;
			}
		}
		EXPECT(p[i] == pattern_byte(seed, off + i),
		       "%s: byte at %#llx (page %llu of block %llu) is %#x, expected %#x", how,
		       (unsigned long long)(off + i),
		       (unsigned long long)((off + i) % HUGE / SMALL),
		       (unsigned long long)((off + i) / HUGE), p[i], pattern_byte(seed, off + i));
	}
}

static inline void expect_zero(const char *how, const void *buf, uint64_t off, size_t len)
{
	const unsigned char *p = buf;
	size_t i;

	if (len && !p[0] && !memcmp(p, p + 1, len - 1))
		return;
	for (i = 0; i < len; i++)
		EXPECT(!p[i], "%s: byte at %#llx is %#x, expected zero", how,
		       (unsigned long long)(off + i), p[i]);
}

static inline void *buffer(size_t len)
{
	void *buf;

	EXPECT(!posix_memalign(&buf, HUGE, len ? len : 1), "no memory for a buffer");
	return buf;
}

static inline int open_file(const char *name, int flags)
{
	int fd = open(name, flags | O_CLOEXEC, 0644);

	EXPECT(fd >= 0, "open %s: %s", name, strerror(errno));
	return fd;
}

static inline void write_pattern(int fd, uint64_t seed, uint64_t off, size_t len)
{
	size_t max = len < HUGE ? len : HUGE, n;
	unsigned char *buf = buffer(max);

	for (; len; off += n, len -= n) {
		n = len < max ? len : max;
		pattern(buf, seed, off, n);
		EXPECT(pwrite(fd, buf, n, (off_t)off) == (ssize_t)n, "write at %#llx: %s",
		       (unsigned long long)off, strerror(errno));
	}
	free(buf);
}

static inline void read_pattern(const char *how, int fd, uint64_t seed, uint64_t off, size_t len)
{
	size_t max = len < HUGE ? len : HUGE, n;
	unsigned char *buf = buffer(max);
	ssize_t got;

	for (; len; off += n, len -= n) {
		n = len < max ? len : max;
		got = pread(fd, buf, n, (off_t)off);
		EXPECT(got == (ssize_t)n, "%s: read of %zu bytes at %#llx returned %zd: %s", how, n,
		       (unsigned long long)off, got, got < 0 ? strerror(errno) : "short");
		expect_pattern(how, buf, seed, off, n);
	}
	free(buf);
}

/* Creates a file of @size bytes of the pattern, and opens it for reading and writing. */
static inline int make_file(const char *name, uint64_t seed, uint64_t size)
{
	int fd = open_file(name, O_RDWR | O_CREAT | O_TRUNC);

	write_pattern(fd, seed, 0, size);
	return fd;
}

/* The same, with no page of the file in the cache. */
static inline int make_cold_file(const char *name, uint64_t seed, uint64_t size)
{
	int fd = make_file(name, seed, size);

	MUST(fsync(fd));
	MUST(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED));
	return fd;
}

static inline unsigned char *map_file(int fd, uint64_t off, size_t len, int prot, int flags)
{
	unsigned char *addr = mmap(NULL, len, prot, flags, fd, (off_t)off);

	EXPECT(addr != MAP_FAILED, "mmap of %zu bytes at %#llx: %s", len, (unsigned long long)off,
	       strerror(errno));
	return addr;
}

static inline unsigned char *map_shared(int fd, uint64_t off, size_t len)
{
	return map_file(fd, off, len, PROT_READ | PROT_WRITE, MAP_SHARED);
}

/* Reserves @len bytes of address space, aligned to 2 MB, for mmap(MAP_FIXED). */
static inline unsigned char *reserve_aligned(size_t len)
{
	unsigned char *addr =
		map_file(-1, 0, len + HUGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);

	return (unsigned char *)(((uintptr_t)addr + HUGE - 1) / HUGE * HUGE);
}

/* Drops the clean pages of a file from the cache. @map must be its only mapping. */
static inline void drop_from_cache(int fd, void *map, size_t len)
{
	MUST(madvise(map, len, MADV_DONTNEED));
	MUST(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED));
}

static inline void read_file_pattern(const char *how, const char *path, uint64_t seed, uint64_t off,
				     size_t len)
{
	int fd = open_file(path, O_RDONLY);

	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	read_pattern(how, fd, seed, off, len);
	close(fd);
}

/* Reads from the device: the page cache of the lower file system is dropped first. */
static inline void expect_lower(const char *how, const char *name, uint64_t seed, uint64_t off,
				size_t len)
{
	read_file_pattern(how, lower_path(name), seed, off, len);
}

/* --- faults and signals ---------------------------------------------------------------- */

static sigjmp_buf bus_jump;
static volatile sig_atomic_t bus_armed;
static volatile uintptr_t bus_address;

static inline void bus_handler(int sig, siginfo_t *info, void *context)
{
	(void)context;
	bus_address = (uintptr_t)info->si_addr;
	if (bus_armed)
		siglongjmp(bus_jump, sig);
	signal(sig, SIG_DFL);
}

/* To be called before the four functions below. */
static inline void catch_signals(void)
{
	struct sigaction act = { .sa_flags = SA_SIGINFO | SA_NODEFER };

	act.sa_sigaction = bus_handler;
	sigaction(SIGBUS, &act, NULL);
	sigaction(SIGSEGV, &act, NULL);
}

static inline int signal_of_access(volatile unsigned char *addr, bool store)
{
	int sig = sigsetjmp(bus_jump, 1);

	if (!sig) {
		bus_armed = 1;
		if (store)
			*addr = 0x5a;
		else
			(void)*addr;
	}
	bus_armed = 0;
	return sig;
}

/* The signal that a load raises, or 0. */
static inline int signal_of_load(volatile unsigned char *addr)
{
	return signal_of_access(addr, false);
}

/* The signal that a store raises, or 0. */
static inline int signal_of_store(volatile unsigned char *addr)
{
	return signal_of_access(addr, true);
}

/* @where completes the sentence "a load ... raised no signal". */
static inline void expect_sigbus(unsigned char *addr, bool store, const char *where)
{
	int sig = signal_of_access(addr, store);

	EXPECT(sig == SIGBUS, "a %s %s raised %s, expected SIGBUS", store ? "store" : "load", where,
	       sig ? strsignal(sig) : "no signal");
	EXPECT(bus_address == (uintptr_t)addr, "%s: SIGBUS at %#lx, expected %p", where,
	       (unsigned long)bus_address, (void *)addr);
}

static inline void expect_sigbus_of_load(unsigned char *addr, const char *where)
{
	expect_sigbus(addr, false, where);
}

static inline void expect_sigbus_of_store(unsigned char *addr, const char *where)
{
	expect_sigbus(addr, true, where);
}

static inline long minor_faults(void)
{
	struct rusage usage;

	MUST(getrusage(RUSAGE_SELF, &usage));
	return usage.ru_minflt;
}

static inline long major_faults(void)
{
	struct rusage usage;

	MUST(getrusage(RUSAGE_SELF, &usage));
	return usage.ru_majflt;
}

static inline long page_faults(void)
{
	return minor_faults() + major_faults();
}

/* A field of /proc/self/smaps for the mapping that contains @addr, in bytes. */
static inline unsigned long smaps_bytes(const void *addr, const char *field)
{
	unsigned long start, end, value = 0;
	bool inside = false, found = false;
	FILE *file = fopen("/proc/self/smaps", "r");
	char line[512], name[64];

	EXPECT(file, "smaps: %s", strerror(errno));
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%lx-%lx ", &start, &end) == 2) {
			inside = start <= (unsigned long)addr && (unsigned long)addr < end;
		} else if (inside && sscanf(line, "%63[^:]: %lu kB", name, &value) == 2 &&
			   !strcmp(name, field)) {
			found = true;
			break;
		}
	}
	fclose(file);
	EXPECT(found, "smaps has no field %s", field);
	return value << 10;
}

/* How much of the mapping at @addr is mapped by PMD entries, in bytes. */
static inline unsigned long pmd_mapped(const void *addr)
{
	return smaps_bytes(addr, "FilePmdMapped");
}

/* --- /proc and /sys -------------------------------------------------------------------- */

static inline void write_text(const char *path, const char *text)
{
	int fd = open_file(path, O_WRONLY);

	EXPECT(write(fd, text, strlen(text)) == (ssize_t)strlen(text), "\"%s\" to %s: %s", text,
	       path, strerror(errno));
	close(fd);
}

static inline uint64_t read_number(const char *path)
{
	FILE *file = fopen(path, "r");
	unsigned long long number;

	EXPECT(file, "%s: %s", path, strerror(errno));
	EXPECT(fscanf(file, "%llu", &number) == 1, "%s contains no number", path);
	fclose(file);
	return number;
}

/* "1" drops clean pages, "2" unused dentries and inodes, "3" both. */
static inline void drop_caches(const char *what)
{
	write_text("/proc/sys/vm/drop_caches", what);
}

/* The path of a file below /sys/fs/hugemap of the mount at @dir. */
static inline const char *sysfs_path(const char *dir, const char *name)
{
	char device[64];
	struct stat st;

	MUST(stat(dir, &st));
	snprintf(device, sizeof(device), "/sys/fs/hugemap/%u:%u", major(st.st_dev),
		 minor(st.st_dev));
	return path_in(device, name);
}

/* A counter of the mount under test. */
static inline uint64_t mount_stat(const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "stats/%s", name);
	return read_number(sysfs_path(mnt_dir, path));
}

/* Changes a setting of the mount under test. */
static inline void set_mount(const char *name, const char *value)
{
	write_text(sysfs_path(mnt_dir, name), value);
}

/* --- processes ------------------------------------------------------------------------- */

static inline pid_t start_child(void (*run)(void *), void *arg)
{
	pid_t pid;

	fflush(NULL);
	pid = fork();
	EXPECT(pid >= 0, "fork: %s", strerror(errno));
	if (!pid) {
		run(arg);
		fflush(stdout);
		_exit(0);
	}
	return pid;
}

static inline void wait_child(pid_t pid)
{
	int status;

	EXPECT(waitpid(pid, &status, 0) == pid, "waitpid: %s", strerror(errno));
	EXPECT(!status, "a child ended with status %#x", status);
}

/* Runs a function in a child and waits. If the child fails or skips, so does the caller. */
static inline void in_child(void (*run)(void *), void *arg)
{
	pid_t pid = start_child(run, arg);
	int status;

	MUST(waitpid(pid, &status, 0));
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		_exit(77);
	EXPECT(!status, "a child ended with status %#x", status);
}

/* Runs a function in @n children at the same time; @run gets a pointer to the child's number. */
static inline void in_children(unsigned int n, void (*run)(void *))
{
	unsigned int number[32], i;
	pid_t pids[32];

	EXPECT(n <= COUNT(pids), "too many children");
	for (i = 0; i < n; i++) {
		number[i] = i;
		pids[i] = start_child(run, &number[i]);
	}
	for (i = 0; i < n; i++)
		wait_child(pids[i]);
}

/* Waits for at most @seconds. Returns whether the child ended. */
static inline bool child_ends_within(unsigned int seconds, pid_t pid, int *status)
{
	unsigned int i;

	for (i = 0; i < seconds * 10; i++) {
		usleep(100000);
		if (waitpid(pid, status, WNOHANG) == pid)
			return true;
	}
	return false;
}

/* Changes to an ordinary user: root passes all permission checks. */
static inline void become_user(uid_t uid, gid_t gid)
{
	MUST(setgroups(0, NULL));
	MUST(setresgid(gid, gid, gid));
	MUST(setresuid(uid, uid, uid));
}

/* Two pipes, by which a parent and a child take turns without a clock. */
struct turns {
	int to_child[2], to_parent[2];
};

static inline void turns_init(struct turns *t)
{
	MUST(pipe(t->to_child));
	MUST(pipe(t->to_parent));
}

static inline void turn_give(const int *fds)
{
	EXPECT(write(fds[1], "x", 1) == 1, "write to a pipe: %s", strerror(errno));
}

static inline void turn_take(const int *fds)
{
	char c;

	EXPECT(read(fds[0], &c, 1) == 1, "the other process is gone");
}

/* --- the behaviours of a program ------------------------------------------------------- */

struct behaviour {
	const char *name;
	void (*run)(void);
};

static struct behaviour behaviours[32];
static unsigned int n_behaviours;

static inline void add_behaviour(const char *name, void (*run)(void))
{
	EXPECT(n_behaviours < COUNT(behaviours), "too many behaviours");
	behaviours[n_behaviours].name = name;
	behaviours[n_behaviours++].run = run;
}

/* Constructors run by ascending priority, that is, in the order of the source. */
#define BEHAVIOUR(name)                                                               \
	static void name(void);                                                       \
	static void __attribute__((constructor(1000 + __COUNTER__))) add_##name(void) \
	{                                                                             \
		add_behaviour(#name, name);                                           \
	}                                                                             \
	static void name(void)

#define RUN_BEHAVIOURS                            \
	int main(int argc, char **argv)           \
	{                                         \
		exit(run_behaviours(argc, argv)); \
	}

static inline int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

/* Does not cross into another mount. */
static inline void remove_tree(const char *path)
{
	nftw(path, remove_entry, 32, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

/* Undoes the mounts that a failed behaviour left, the last one first. */
static inline void unmount_below(const char *dir)
{
	char line[4096], at[1024], last[1024];
	size_t n = strlen(dir);
	FILE *file;

	do {
		last[0] = 0;
		file = fopen("/proc/mounts", "r");
		while (file && fgets(line, sizeof(line), file))
			if (sscanf(line, "%*s %1023s", at) == 1 && !strncmp(at, dir, n) &&
			    at[n] == '/')
				strcpy(last, at);
		if (file)
			fclose(file);
	} while (last[0] && !umount2(last, MNT_DETACH));
}

static inline int run_behaviour(const struct behaviour *b)
{
	int status;
	pid_t pid;

	snprintf(work_dir, sizeof(work_dir), "%s/%s-%d", mnt_dir, b->name, (int)getpid());
	snprintf(work_lower, sizeof(work_lower), "%s/%s-%d", lower_dir, b->name, (int)getpid());
	if (mkdir(work_dir, 0755)) {
		printf("%s: mkdir %s: %s\n", b->name, work_dir, strerror(errno));
		return 1;
	}
	fflush(NULL);
	pid = fork();
	if (!pid) {
		MUST(chdir(work_dir));
		b->run();
		fflush(stdout);
		_exit(0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return 1;
	unmount_below(work_dir);
	unmount_below(work_lower);
	remove_tree(work_dir);
	remove_tree(work_lower);
	if (WIFSIGNALED(status))
		printf("%s: killed by signal %d (%s)\n", b->name, WTERMSIG(status),
		       strsignal(WTERMSIG(status)));
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

/* Returns the exit status of the program: 77 if all behaviours were skipped. */
static inline int run_behaviours(int argc, char **argv)
{
	unsigned int i, passed = 0, skipped = 0, failed = 0;
	int j;

	mnt_dir = getenv("MNT");
	lower_dir = getenv("LOWER");
	if (!mnt_dir || !lower_dir) {
		printf("MNT and LOWER are not set\n");
		return 2;
	}
	for (i = 0; i < n_behaviours; i++) {
		const struct behaviour *b = &behaviours[i];
		bool wanted = argc < 2 || !*argv[1];
		int result;

		for (j = 1; j < argc; j++)
			wanted = wanted || !fnmatch(argv[j], b->name, 0);
		if (!wanted)
			continue;
		result = run_behaviour(b);
		passed += !result;
		skipped += result == 77;
		failed += result && result != 77;
		printf("  %s: %s\n", b->name,
		       !result	    ? "passed" :
		       result == 77 ? "skipped" :
				      "FAILED");
		fflush(stdout);
	}
	if (failed)
		return 1;
	if (!passed)
		printf("all %u behaviours were skipped\n", skipped);
	return passed ? 0 : 77;
}

#endif /* TESTS_KERNEL_COMMON_H */
