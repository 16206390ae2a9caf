// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The library is installed while threads load, use and unload other libraries, and the program
 * forks. After that, each library that a thread has loaded must call the library's mmap().
 *
 *	loads LIBRUN FORKS MAPPER...	MAPPER: tests/python/mapper.c, built in several ways
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 4
#define CHECK(condition) ((condition) ? (void)0 : loads_fail(#condition))

static char **loads_mappers;
static int loads_count;
static bool loads_over;
static void *loads_own; /* mmap() of the library, when it is installed */

static void loads_fail(const char *condition)
{
	const char *reason = dlerror();

	fprintf(stderr, "loads: %s is false: %s\n", condition, reason ? reason : "");
	_exit(1);
}

static void *loads_symbol(void *library, const char *name)
{
	void *symbol = dlsym(library, name);

	CHECK(symbol);
	return symbol;
}

static void *loads_work(void *arg)
{
	long i = (long)arg;

	for (; !__atomic_load_n(&loads_over, __ATOMIC_ACQUIRE); i++) {
		void *mapper = dlopen(loads_mappers[i % loads_count], i & 1 ? RTLD_NOW : RTLD_LAZY);
		void *own = __atomic_load_n(&loads_own, __ATOMIC_ACQUIRE);
		void *const *table;

		CHECK(mapper);
		table = loads_symbol(mapper, "mapper_table");
		CHECK(!own || *table == own);
		dlclose(mapper);
	}
	return NULL;
}

/* A child that waits for a lock of the dynamic linker ends by the signal. */
static void loads_fork(void)
{
	int status;
	pid_t child = fork();

	CHECK(child >= 0);
	if (!child) {
		alarm(20);
		loads_symbol(RTLD_DEFAULT, "getpid");
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
}

int main(int argc, char **argv)
{
	int (*install)(const char **other);
	pthread_t threads[THREADS];
	const char *other;
	void *library;
	long i;

	CHECK(argc > 3);
	loads_mappers = argv + 3;
	loads_count = argc - 3;
	for (i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&threads[i], NULL, loads_work, (void *)i));
	library = dlopen(argv[1], RTLD_NOW);
	CHECK(library);
	*(void **)&install = loads_symbol(library, "hugemap_run_install");
	CHECK(!install(&other));
	__atomic_store_n(&loads_own, loads_symbol(library, "mmap"), __ATOMIC_RELEASE);
	for (i = 0; i < atoi(argv[2]); i++) {
		loads_fork();
		CHECK(!install(&other));
	}
	__atomic_store_n(&loads_over, true, __ATOMIC_RELEASE);
	for (i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
