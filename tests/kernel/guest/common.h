/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What the test programs share. A program is a list of behaviours, each a function
 * that runs in a process and a directory of its own:
 *
 *	static const struct behaviour all[] = { { "name", function }, ... };
 *	int main(int argc, char **argv) { return run_all(argc, argv, all, COUNT(all)); }
 *
 * `program name ...` runs only those. On any file system but hugemap they show what
 * Linux itself does; MNT and LOWER may then be the same directory.
 */
#ifndef TESTS_KERNEL_COMMON_H
#define TESTS_KERNEL_COMMON_H

#include <errno.h>
#include <fcntl.h>
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
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <sys/types.h>
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

struct behaviour {
	const char *name;
	void (*run)(void);
};

static const char *mnt_dir, *lower_dir;
static char work_dir[512], work_lower[512];

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

/* A sentence that says what was expected and what was seen. */
#define FAIL(...) die(__FILE__, __LINE__, __VA_ARGS__)
#define EXPECT(condition, ...)             \
	do {                               \
		if (!(condition))          \
			FAIL(__VA_ARGS__); \
	} while (0)
/* For calls that just have to work. */
#define MUST(call)                                              \
	do {                                                    \
		errno = 0;                                      \
		if ((long)(call) < 0)                           \
			FAIL("%s: %s", #call, strerror(errno)); \
	} while (0)
#define EXPECT_ERRNO(call, error)                                                           \
	do {                                                                                \
		long result_;                                                               \
		errno = 0;                                                                  \
		result_ = (long)(call);                                                     \
		EXPECT(result_ < 0 && errno == (error),                                     \
		       "%s gave %ld and errno %d (%s), expected %s", #call, result_, errno, \
		       strerror(errno), strerror(error));                                   \
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

static inline bool slow(void)
{
	const char *text = getenv("SLOW");

	return text && *text == '1';
}

/* The same file, seen below. */
static inline const char *below(const char *name)
{
	static char path[1024];

	snprintf(path, sizeof(path), "%s/%s", work_lower, name);
	return path;
}

/*
 * Content: each 8 bytes say which file (seed) and where they belong, so that what
 * is misplaced, stale or foreign differs.
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
	size_t most = len < HUGE ? len : HUGE, n;
	unsigned char *buf = buffer(most);

	for (; len; off += n, len -= n) {
		n = len < most ? len : most;
		pattern(buf, seed, off, n);
		EXPECT(pwrite(fd, buf, n, (off_t)off) == (ssize_t)n, "write at %#llx: %s",
		       (unsigned long long)off, strerror(errno));
	}
	free(buf);
}

static inline void read_pattern(const char *how, int fd, uint64_t seed, uint64_t off, size_t len)
{
	size_t most = len < HUGE ? len : HUGE, n;
	unsigned char *buf = buffer(most);
	ssize_t got;

	for (; len; off += n, len -= n) {
		n = len < most ? len : most;
		got = pread(fd, buf, n, (off_t)off);
		EXPECT(got == (ssize_t)n, "%s: read of %zu bytes at %#llx gave %zd: %s", how, n,
		       (unsigned long long)off, got, got < 0 ? strerror(errno) : "short");
		expect_pattern(how, buf, seed, off, n);
	}
	free(buf);
}

/* A new file of @size bytes of the pattern; returns it open for reading and writing. */
static inline int make_file(const char *name, uint64_t seed, uint64_t size)
{
	int fd = open_file(name, O_RDWR | O_CREAT | O_TRUNC);

	write_pattern(fd, seed, 0, size);
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

/* What is clean leaves the cache. What somebody maps would stay: here, nobody does. */
static inline void uncache(int fd, void *map, size_t len)
{
	MUST(madvise(map, len, MADV_DONTNEED));
	MUST(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED));
}

/* What is on the device below, whatever its page cache may remember. */
static inline void expect_below(const char *how, const char *name, uint64_t seed, uint64_t off,
				size_t len)
{
	int fd = open(below(name), O_RDONLY | O_CLOEXEC);

	EXPECT(fd >= 0, "open %s: %s", below(name), strerror(errno));
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	read_pattern(how, fd, seed, off, len);
	close(fd);
}

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

static inline void catch_bus(void)
{
	struct sigaction act = { .sa_flags = SA_SIGINFO | SA_NODEFER };

	act.sa_sigaction = bus_handler;
	sigaction(SIGBUS, &act, NULL);
	sigaction(SIGSEGV, &act, NULL);
}

/* 0, or the signal that a load (or store, if @store) gives. */
static inline int touch(volatile unsigned char *addr, bool store)
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

static inline void expect_bus(unsigned char *addr, bool store, const char *what)
{
	int sig = touch(addr, store);

	EXPECT(sig == SIGBUS, "%s %s gave %s, expected SIGBUS", store ? "a store" : "a load", what,
	       sig ? strsignal(sig) : "no signal");
	EXPECT(bus_address == (uintptr_t)addr, "%s: SIGBUS at %#lx, expected %p", what,
	       (unsigned long)bus_address, (void *)addr);
}

/* A number of the mount's statistics. */
static inline uint64_t stat_of(const char *name)
{
	unsigned long long value;
	char path[256];
	struct stat st;
	FILE *file;

	MUST(stat(mnt_dir, &st));
	snprintf(path, sizeof(path), "/sys/fs/hugemap/%u:%u/stats/%s", major(st.st_dev),
		 minor(st.st_dev), name);
	file = fopen(path, "r");
	EXPECT(file, "%s: %s", path, strerror(errno));
	EXPECT(fscanf(file, "%llu", &value) == 1, "%s holds no number", path);
	fclose(file);
	return value;
}

/* A setting of the mount. */
static inline void set(const char *name, const char *value)
{
	char path[256];
	struct stat st;
	int fd;

	MUST(stat(mnt_dir, &st));
	snprintf(path, sizeof(path), "/sys/fs/hugemap/%u:%u/%s", major(st.st_dev), minor(st.st_dev),
		 name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	EXPECT(fd >= 0, "%s: %s", path, strerror(errno));
	EXPECT(write(fd, value, strlen(value)) == (ssize_t)strlen(value), "%s to %s: %s", value,
	       path, strerror(errno));
	close(fd);
}

static inline unsigned long smaps_of(const void *addr, const char *field)
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
	EXPECT(found, "there is no %s in smaps", field);
	return value << 10;
}

/* For tests that mount by themselves: is there such a file system type? */
static inline void need_type(void)
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

/* Runs a function in a child and waits; its failure is ours. */
static inline void in_child(void (*run)(void *), void *arg)
{
	pid_t pid = start_child(run, arg);
	int status;

	MUST(waitpid(pid, &status, 0));
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		_exit(77);
	EXPECT(!status, "a child ended with status %#x", status);
}

static inline void wait_child(pid_t pid)
{
	int status;

	EXPECT(waitpid(pid, &status, 0) == pid, "waitpid: %s", strerror(errno));
	EXPECT(!status, "a child ended with status %#x", status);
}

/* With another user's rights from here on: root's own pass every check. */
static inline void become(uid_t uid, gid_t gid)
{
	MUST(setgroups(0, NULL));
	MUST(setresgid(gid, gid, gid));
	MUST(setresuid(uid, uid, uid));
}

/* One byte each way: processes take turns without any clock. */
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

static inline int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

/* Removes what a behaviour made; never crosses into another mount. */
static inline void remove_tree(const char *path)
{
	nftw(path, remove_entry, 32, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

/* Also what a behaviour that failed has left mounted, the last one first. */
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

static inline int run_one(const struct behaviour *b)
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

static inline int run_all(int argc, char **argv, const struct behaviour *all, unsigned int n)
{
	unsigned int i, passed = 0, skipped = 0, failed = 0;
	int j;

	mnt_dir = getenv("MNT");
	lower_dir = getenv("LOWER");
	if (!mnt_dir || !lower_dir) {
		printf("MNT and LOWER are not set\n");
		return 2;
	}
	for (i = 0; i < n; i++) {
		bool wanted = argc < 2 || !*argv[1];
		int result;

		for (j = 1; j < argc; j++)
			wanted = wanted || !strcmp(argv[j], all[i].name);
		if (!wanted)
			continue;
		result = run_one(&all[i]);
		passed += !result;
		skipped += result == 77;
		failed += result && result != 77;
		printf("  %s: %s\n", all[i].name,
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
