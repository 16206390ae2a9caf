// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Record which pages of a mapped file a program touches: LD_PRELOAD, for record.py.
 *
 *	HM_RECORD=OUTPUT HM_RECORD_FILE=FILE LD_PRELOAD=./record.so PROGRAM
 *
 * A mapping of FILE is accessible only in the KEPT pages that were touched last, like in a
 * small TLB: a touch of any other page faults, is recorded, and makes the page accessible. The
 * record has, in order, the loads and stores to all other pages, and the first store to each
 * accessible page. It lacks accesses by the kernel, such as read(2) into the mapping: they fail
 * with EFAULT, and no program in record.py makes any.
 *
 * OUTPUT: a 64-bit count, then 32 bits for each touch: page * 2 + 1 for a store, page * 2 for a
 * load.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <ucontext.h>
#include <unistd.h>

#define KEPT 16u
#define MAPPINGS 64u
#define MAX_TOUCHES (1ull << 26)
#define PAGE 4096ul
#define FAULT_WRITE 2 /* bit in the error code of a page fault */

struct output {
	_Atomic uint64_t n;
	uint32_t touch[];
};

struct mapping {
	uintptr_t start, end;
	uint64_t page; /* page of the file at @start */
	int prot;
};

static struct output *output;
static struct stat recorded;
static struct mapping mappings[MAPPINGS];
static uintptr_t kept[KEPT];
static uint32_t hand;
static atomic_flag lock = ATOMIC_FLAG_INIT;

static void *(*real_mmap)(void *at, size_t length, int prot, int flags, int fd, off_t offset);
static int (*real_munmap)(void *at, size_t length);

static void take_lock(void)
{
	while (atomic_flag_test_and_set(&lock))
		;
}

static void let_go(void)
{
	atomic_flag_clear(&lock);
}

static struct mapping *find(uintptr_t at)
{
	for (uint32_t i = 0; i < MAPPINGS; i++)
		if (at >= mappings[i].start && at < mappings[i].end)
			return &mappings[i];
	return NULL;
}

static void keep(uintptr_t at)
{
	for (uint32_t i = 0; i < KEPT; i++)
		if (kept[i] == at)
			return; /* the first store to an accessible page */
	if (kept[hand])
		mprotect((void *)kept[hand], PAGE, PROT_NONE);
	kept[hand] = at;
	hand = (hand + 1) % KEPT;
}

static void touched(int number, siginfo_t *info, void *context)
{
	const ucontext_t *user = context;
	bool store = user->uc_mcontext.gregs[REG_ERR] & FAULT_WRITE;
	uintptr_t at = (uintptr_t)info->si_addr & ~(PAGE - 1);
	struct mapping *m;
	uint64_t n;

	take_lock();
	m = find(at);
	if (!m || (store && !(m->prot & PROT_WRITE))) {
		signal(number, SIG_DFL); /* a fault of the program itself */
		let_go();
		return;
	}
	n = atomic_fetch_add(&output->n, 1);
	if (n < MAX_TOUCHES)
		output->touch[n] = (uint32_t)(m->page + (at - m->start) / PAGE) << 1 |
				   (uint32_t)store;
	keep(at);
	mprotect((void *)at, PAGE, store ? m->prot : m->prot & ~PROT_WRITE);
	let_go();
}

static _Noreturn void fail(const char *what)
{
	perror(what);
	_exit(125);
}

static void __attribute__((constructor)) start(void)
{
	struct sigaction action = { .sa_sigaction = touched, .sa_flags = SA_SIGINFO | SA_NODEFER };
	const char *name = getenv("HM_RECORD"), *file = getenv("HM_RECORD_FILE");
	size_t length = sizeof(struct output) + MAX_TOUCHES * sizeof(uint32_t);
	int fd;

	real_mmap = (void *(*)(void *, size_t, int, int, int, off_t))dlsym(RTLD_NEXT, "mmap");
	real_munmap = (int (*)(void *, size_t))dlsym(RTLD_NEXT, "munmap");
	if (!name || !file)
		return;
	fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	if (fd < 0 || ftruncate(fd, (off_t)length) || stat(file, &recorded))
		fail("record");
	output = real_mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (output == MAP_FAILED || sigaction(SIGSEGV, &action, NULL))
		fail("record");
	close(fd);
}

void *mmap(void *at, size_t length, int prot, int flags, int fd, off_t offset)
{
	void *mem = real_mmap(at, length, prot, flags, fd, offset);
	struct stat st;

	if (mem == MAP_FAILED || !output || fd < 0 || fstat(fd, &st) ||
	    st.st_dev != recorded.st_dev || st.st_ino != recorded.st_ino)
		return mem;
	take_lock();
	for (uint32_t i = 0; i < MAPPINGS; i++) {
		if (mappings[i].end)
			continue;
		mprotect(mem, length, PROT_NONE);
		mappings[i] = (struct mapping){ (uintptr_t)mem, (uintptr_t)mem + length,
						(uint64_t)offset / PAGE, prot };
		let_go();
		return mem;
	}
	fail("record: too many mappings");
}

void *mmap64(void *at, size_t length, int prot, int flags, int fd, off_t offset)
{
	return mmap(at, length, prot, flags, fd, offset);
}

int munmap(void *at, size_t length)
{
	uintptr_t start = (uintptr_t)at, end = start + length;

	take_lock();
	for (uint32_t i = 0; i < MAPPINGS; i++)
		if (mappings[i].start >= start && mappings[i].end <= end)
			mappings[i] = (struct mapping){ 0 };
	for (uint32_t i = 0; i < KEPT; i++)
		if (kept[i] >= start && kept[i] < end)
			kept[i] = 0;
	let_go();
	return real_munmap(at, length);
}
