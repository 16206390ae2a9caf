// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Threads, children, users and filters: the monitor thread does not affect the program. */
#include "common.h"

#include <dirent.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static struct file file;

static void in_child(void (*run)(void))
{
	pid_t pid;

	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		alarm(60);
		run();
		_exit(0);
	}
	assert_int_equal(end_of(pid), 0);
}

static char *map_here(int prot)
{
	char *p = mmap(NULL, SIZE, prot, MAP_SHARED, file.fd, 0);

	CHECK(p != MAP_FAILED);
	CHECK(wait_for_watchers(1));
	return p;
}

static unsigned int open_files(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned int n = 0;

	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static void comes_and_goes(void)
{
	unsigned int files = open_files();
	char *p;

	CHECK(!watchers());
	p = mmap(NULL, MB / 2, PROT_READ, MAP_SHARED, file.fd, 0);
	CHECK(!watchers()); /* too small */
	munmap(p, MB / 2);
	p = map_here(PROT_READ);
	CHECK((unsigned char)p[MB] == byte_of(MB));
	CHECK(open_files() == files);
	munmap(p, SIZE);
	CHECK(wait_for_watchers(0));
}

static void monitor_thread_exists_while_mappings_do(void **state)
{
	in_child(comes_and_goes);
}

static void take_signal(void)
{
	sigset_t set;
	int number;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	CHECK(!pthread_sigmask(SIG_BLOCK, &set, NULL));
	map_here(PROT_READ);
	kill(getpid(), SIGUSR1); /* it would end the process if the monitor thread took it */
	CHECK(!sigwait(&set, &number) && number == SIGUSR1);
}

static void program_takes_its_signals(void **state)
{
	in_child(take_signal);
}

static void have_children(void)
{
	char *p = map_here(PROT_READ | PROT_WRITE), *q;
	pid_t pid;

	p[0] = 'a';
	pid = fork();
	if (!pid) {
		CHECK(!watchers());
		CHECK(p[0] == 'a');
		p[1] = 'b';
		q = map_here(PROT_READ);
		CHECK(q[1] == 'b');
		munmap(p, SIZE);
		_exit(0);
	}
	CHECK(end_of(pid) == 0);
	CHECK(p[1] == 'b' && watchers() == 1);
	pid = vfork();
	if (!pid) {
		execl("/bin/true", "true", NULL);
		_exit(1);
	}
	CHECK(end_of(pid) == 0 && watchers() == 1);
	CHECK(!system("exit 0"));
	/* A mapping by a vfork() child does not change the state of its parent. */
	pid = vfork();
	if (!pid) {
		q = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, file.fd, 0);
		munmap(q, SIZE);
		_exit(0);
	}
	CHECK(end_of(pid) == 0 && watchers() == 1);
	CHECK(p[0] == 'a');
	execl("/bin/true", "true", NULL);
	CHECK(false);
}

static void children_do_not_disturb_their_parent(void **state)
{
	in_child(have_children);
}

static void become_another_user(void)
{
	char *p = map_here(PROT_READ);

	CHECK(!unshare(CLONE_VM | CLONE_SIGHAND | CLONE_THREAD));
	CHECK(wait_for_watchers(0));
	munmap(p, SIZE);
	p = map_here(PROT_READ);
	CHECK(!syscall(SYS_unshare, CLONE_NEWUSER));
	CHECK((unsigned char)p[MB] == byte_of(MB));
	munmap(p, SIZE);
	map_here(PROT_READ);
}

static void unshare_finds_the_process_alone(void **state)
{
	pid_t pid = fork();

	if (!pid)
		_exit(syscall(SYS_unshare, CLONE_NEWUSER) ? 1 : 0);
	if (end_of(pid)) {
		print_message("no user namespace may be made here\n");
		skip();
	}
	in_child(become_another_user);
}

static void enter_again(void)
{
	int fd = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);

	map_here(PROT_READ);
	CHECK(!setns(fd, CLONE_NEWNS));
	map_here(PROT_READ);
	CHECK(!setns(fd, 0));
}

static void setns_finds_the_process_alone(void **state)
{
	if (geteuid())
		skip();
	in_child(enter_again);
}

/* The ids of all threads change, also of the monitor thread. */
static void drop_root(void)
{
	DIR *dir;
	struct dirent *entry;

	map_here(PROT_READ);
	CHECK(!setresgid(65534, 65534, 65534) && !setresuid(65534, 65534, 65534));
	dir = opendir("/proc/self/task");
	while ((entry = readdir(dir))) {
		char path[300], line[256], *uid = NULL;
		FILE *status;

		snprintf(path, sizeof(path), "/proc/self/task/%s/status", entry->d_name);
		status = entry->d_name[0] == '.' ? NULL : fopen(path, "re");
		if (!status)
			continue;
		while (fgets(line, sizeof(line), status))
			if (!strncmp(line, "Uid:", 4))
				uid = strdup(line);
		fclose(status);
		CHECK(uid && strstr(uid, "65534\t65534\t65534"));
	}
	closedir(dir);
}

static void setuid_changes_all_threads(void **state)
{
	if (geteuid())
		skip();
	in_child(drop_root);
}

/* The same by the system call of one thread: a monitor thread would belong to that user. */
static void drop_root_alone(void)
{
	char *p = map_here(PROT_READ);

	CHECK(!syscall(SYS_setresuid, -1, 65534, -1));
	CHECK(!watchers());
	munmap(p, SIZE);
	p = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, file.fd, 0);
	CHECK((unsigned char)p[MB] == byte_of(MB) && !watchers());
}

static void no_monitor_belongs_to_one_thread(void **state)
{
	if (geteuid())
		skip();
	in_child(drop_root_alone);
}

static int number_of_watcher(void)
{
	DIR *dir = opendir("/proc/self/task");
	struct dirent *entry;
	int last = 0;

	while ((entry = readdir(dir)))
		if (atoi(entry->d_name) > last)
			last = atoi(entry->d_name);
	closedir(dir);
	return last;
}

/* As libpsx does: it waits until each thread that is listed has taken the signal, or has ended. */
static void signal_all_threads(void)
{
	int i;

	for (i = 0; i < 3; i++) {
		char *p = map_here(PROT_READ);

		CHECK(syscall(i ? SYS_tgkill : SYS_tkill, i ? getpid() : number_of_watcher(),
			      i ? number_of_watcher() : SIGUSR1, SIGUSR1) == -1);
		CHECK(errno == ESRCH && !watchers());
		munmap(p, SIZE);
	}
	map_here(PROT_READ);
}

static void monitor_that_gets_a_signal_ends(void **state)
{
	in_child(signal_all_threads);
}

static void map_by_system_call(void)
{
	char *p = (char *)syscall(SYS_mmap, NULL, SIZE, PROT_READ, MAP_SHARED, file.fd, 0);

	CHECK(p != MAP_FAILED && (unsigned char)p[MB] == byte_of(MB) && wait_for_watchers(1));
	CHECK(!syscall(SYS_munmap, p, SIZE) && wait_for_watchers(0));
}

static int ran;

static void run_alone(void)
{
	ran = 1;
	_exit(3);
}

/* The child of clone() returns from syscall() to the address on its own stack. */
static void clone_by_system_call(void)
{
	static void *stack[4096] __attribute__((aligned(16)));
	int flags = CLONE_VM | CLONE_VFORK | SIGCHLD;
	pid_t pid;

#if defined(__x86_64__)
	stack[4089] = (void *)run_alone;
	pid = (pid_t)syscall(SYS_clone, flags, stack + 4089, NULL, NULL, NULL);
	CHECK(pid > 0 && end_of(pid) == 3 && ran);
#else
	(void)stack, (void)flags, (void)run_alone;
#endif
	pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
	if (!pid)
		_exit(4);
	CHECK(pid > 0 && end_of(pid) == 4);
	CHECK(syscall(SYS_clone, CLONE_THREAD, NULL, NULL, NULL, NULL) == -1 && errno == EINVAL);
}

static void clone_returns_on_its_stack(void **state)
{
	in_child(clone_by_system_call);
}

static void system_calls_are_seen(void **state)
{
	in_child(map_by_system_call);
}

/* A program installs a seccomp filter that forbids madvise(). */
static void filter_after(bool prctl_first)
{
	static struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};
	struct sock_fprog program = { .len = sizeof(code) / sizeof(code[0]), .filter = code };
	volatile char *p = map_here(PROT_READ);
	size_t at;

	if (prctl_first) {
		CHECK(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
		CHECK(!watchers());
	}
	CHECK(!syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program));
	for (at = 0; at < SIZE; at += PAGE)
		(void)p[at];
	p = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, file.fd, 0);
	CHECK(p != MAP_FAILED);
	for (at = 0; at < SIZE; at += PAGE)
		(void)p[at];
	usleep(100000);
	CHECK(!watchers());
}

static void filter(void)
{
	filter_after(true);
}

/* CAP_SYS_ADMIN needs no prctl() before the system call. */
static void raw_filter(void)
{
	filter_after(false);
}

static void monitor_stops_before_a_filter(void **state)
{
	in_child(filter);
	if (!geteuid())
		in_child(raw_filter);
}

/* The filter ends the program for all system calls but those that the program makes. */
static void map_under_a_small_filter(void)
{
	static struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 5, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mremap, 4, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_munmap, 3, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { .len = sizeof(code) / sizeof(code[0]), .filter = code };
	char *p = map_here(PROT_READ), *q;

	CHECK(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	CHECK(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
	q = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, file.fd, 0);
	CHECK(q != MAP_FAILED && (unsigned char)q[MB] == byte_of(MB));
	q = mremap(q, SIZE, SIZE / 2, 0);
	CHECK(q != MAP_FAILED && !munmap(q, SIZE) && !munmap(p, SIZE));
}

static void filter_may_allow_little(void **state)
{
	in_child(map_under_a_small_filter);
}

static void *end_later(void *arg)
{
	usleep(100000);
	return arg;
}

/* The process ends with its last own thread, although there is a monitor thread. */
static void end_by_threads(void)
{
	pthread_t thread;

	map_here(PROT_READ);
	CHECK(!pthread_create(&thread, NULL, end_later, NULL));
	alarm(20);
	pthread_exit(NULL);
}

static void process_ends_with_its_last_thread(void **state)
{
	in_child(end_by_threads);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(monitor_thread_exists_while_mappings_do),
		cmocka_unit_test(program_takes_its_signals),
		cmocka_unit_test(children_do_not_disturb_their_parent),
		cmocka_unit_test(unshare_finds_the_process_alone),
		cmocka_unit_test(setns_finds_the_process_alone),
		cmocka_unit_test(setuid_changes_all_threads),
		cmocka_unit_test(no_monitor_belongs_to_one_thread),
		cmocka_unit_test(monitor_that_gets_a_signal_ends),
		cmocka_unit_test(system_calls_are_seen),
		cmocka_unit_test(clone_returns_on_its_stack),
		cmocka_unit_test(monitor_stops_before_a_filter),
		cmocka_unit_test(filter_may_allow_little),
		cmocka_unit_test(process_ends_with_its_last_thread),
	};

	int failed;

	file_new(&file, SIZE);
	failed = RUN(tests);
	file_end(&file);
	return failed;
}
