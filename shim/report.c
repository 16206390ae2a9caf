// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * What is told: a line for each decision with -v, a table at the end with
 * --summary, and a page of shared memory for `hugemap stat`.
 */
#include "shim.h"
#include "own.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static struct run_page *page;
static int page_fd = -1;

void report_say(const char *format, ...)
{
	char line[512];
	va_list args;
	int n;

	n = snprintf(line, sizeof(line), "hugemap run: %d: ", (int)shim_pid);
	va_start(args, format);
	n += vsnprintf(line + n, sizeof(line) - (size_t)n - 1, format, args);
	va_end(args);
	if (n > (int)sizeof(line) - 2)
		n = (int)sizeof(line) - 2;
	line[n++] = '\n';
	if (real->write(STDERR_FILENO, line, (size_t)n) < 0)
		return; /* there is nobody to tell */
}

void report_open(void)
{
	page_fd = engine_memfd_create(RUN_MEMFD_NAME, MFD_CLOEXEC);
	if (page_fd < 0 || real->ftruncate(page_fd, sizeof(*page)) < 0)
		return;
	page = real->mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED, page_fd, 0);
	if (page == MAP_FAILED) {
		page = NULL;
		return;
	}
	page->pid = (uint32_t)shim_pid;
	page->version = RUN_VERSION;
	page->magic = RUN_MAGIC;
}

/* The child's own page, with what it has inherited. */
void report_child(void)
{
	struct run_page *parents = page;
	uint32_t i;

	if (!parents)
		return;
	page = NULL;
	engine_close(page_fd);
	report_open();
	/* Entries keep their numbers; what has ended is the parent's to tell. */
	for (i = 0; page && i < RUN_MAPS; i++) {
		if (parents->maps[i].ended)
			continue;
		page->maps[i] = parents->maps[i];
		page->maps[i].faults = page->maps[i].hits = page->maps[i].wait_ns = 0;
	}
	real->munmap(parents, sizeof(*parents));
}

/* Entry 0 is nobody's: an id of 0 means that there was no room. */
static struct run_map *entry(uint32_t id)
{
	return page && id ? &page->maps[id - 1] : NULL;
}

static void tell(const struct run_map *map)
{
	if (shim_config.verbose)
		report_say("%s: %s%s%s", map->path, run_rung_names[map->rung],
			   map->why[0] ? ": " : "", map->why);
}

static struct run_map *free_entry(uint32_t *id)
{
	struct run_map *found = NULL;
	uint32_t i;

	/* Those that have ended are kept for the summary while there is room. */
	for (i = 0; i < RUN_MAPS; i++) {
		struct run_map *at = &page->maps[i];

		if (at->rung != RUN_NONE && !at->ended)
			continue;
		if (at->rung == RUN_NONE || !found) {
			found = at;
			*id = i + 1;
		}
		if (at->rung == RUN_NONE)
			break;
	}
	return found;
}

uint32_t report_map(const char *path, const struct map *map, enum run_rung rung, const char *why)
{
	size_t length = strlen(path);
	struct run_map *at;
	uint32_t id = 0;

	if (!page)
		report_open();
	if (!page)
		return 0;
	at = free_entry(&id);
	if (!at) {
		page->missed++;
		return 0;
	}
	memset(at, 0, sizeof(*at));
	at->start = (uintptr_t)map->start;
	at->bytes = (uint64_t)(map->end - map->start);
	at->offset = (uint64_t)map->offset;
	at->heap = map->file && map->file->heap;
	if (length >= sizeof(at->path))
		path += length - sizeof(at->path) + 1;
	snprintf(at->path, sizeof(at->path), "%s", path);
	snprintf(at->why, sizeof(at->why), "%s", why);
	at->rung = rung;
	tell(at);
	return id;
}

void report_rung(uint32_t id, enum run_rung rung, const char *why)
{
	struct run_map *at = entry(id);

	if (!at)
		return;
	snprintf(at->why, sizeof(at->why), "%s", why);
	at->rung = rung;
	tell(at);
}

/* What the engine has counted so far; called before it lets the mapping go. */
void report_count(const struct map *map)
{
	struct hugemap_map_stat stat = { .size = sizeof(stat) };
	struct run_map *at = entry(map->id);

	if (!at || !map->file || hugemap_map_stat(map->start, &stat))
		return;
	at->faults = stat.faults;
	at->hits = stat.hits;
	at->wait_ns = stat.wait_ns;
}

void report_place(const struct map *map)
{
	struct run_map *at = entry(map->id);

	if (!at)
		return;
	at->start = (uintptr_t)map->start;
	at->bytes = (uint64_t)(map->end - map->start);
	at->offset = (uint64_t)map->offset;
}

void report_end(const struct map *map)
{
	struct run_map *at = entry(map->id);

	if (at)
		at->ended = 1;
}

/* --- at the end --- */

/*
 * What a fault of plain Linux costs here without I/O: pages of a file that are
 * cached, touched 64 KB apart, which is as far as one fault maps.
 */
static double plain_fault_ns(void)
{
	const size_t bytes = 4u << 20, step = 64u << 10;
	struct timespec start, end;
	double ns = 0;
	size_t at;
	char *map;
	int fd = memfd_create("hugemap-run-fault", MFD_CLOEXEC);

	if (fd < 0 || real->ftruncate(fd, (off_t)bytes) < 0)
		return 0;
	map = real->mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map != MAP_FAILED) {
		memset(map, 1, bytes);
		real->munmap(map, bytes);
		map = real->mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
	}
	if (map != MAP_FAILED) {
		clock_gettime(CLOCK_MONOTONIC, &start);
		for (at = 0; at < bytes; at += step)
			(void)*(volatile char *)(map + at);
		clock_gettime(CLOCK_MONOTONIC, &end);
		ns = (double)(end.tv_sec - start.tv_sec) * 1e9 +
		     (double)(end.tv_nsec - start.tv_nsec);
		real->munmap(map, bytes);
	}
	real->close(fd);
	return ns / (double)(bytes / step);
}

/*
 * Time saved: the faults that plain Linux would have had for the blocks that
 * needed no I/O, less what ours took. Reading takes either the same device time
 * at least, so it is left out on both sides.
 */
static void summary_line(FILE *to, const struct run_map *at, double fault_ns)
{
	double per_hit = at->faults ? (double)at->wait_ns / (double)at->faults : 0;
	double saved = (double)at->hits * ((2 << 20 >> 16) * fault_ns - per_hit) / 1e6;
	char text[24] = "-";

	if (at->faults)
		snprintf(text, sizeof(text), "%+.1f", saved);
	fprintf(to, "  %-8s %9.1f %9" PRIu64 " %9" PRIu64 " %10.1f %10s  %s%s%s%s\n",
		run_rung_names[at->rung], (double)at->bytes / (1 << 20), at->faults, at->hits,
		(double)at->wait_ns / 1e6, text, at->path, at->why[0] ? " (" : "", at->why,
		at->why[0] ? ")" : "");
}

/* Of the many small programs that a program may start, most have nothing to tell. */
static bool has_maps(void)
{
	uint32_t i;

	for (i = 0; page && i < RUN_MAPS; i++)
		if (page->maps[i].rung != RUN_NONE)
			return true;
	return false;
}

static void summary(void)
{
	double fault_ns;
	uint32_t i;

	if (!has_maps())
		return;
	fault_ns = plain_fault_ns();
	fprintf(stderr,
		"hugemap run: %d: mappings (rung, MB, faults, of them without I/O, ms waited, "
		"ms saved by an estimate, file)\n",
		(int)shim_pid);
	for (i = 0; i < RUN_MAPS; i++)
		if (page->maps[i].rung != RUN_NONE)
			summary_line(stderr, &page->maps[i], fault_ns);
	if (page->missed)
		fprintf(stderr, "  and %u more\n", page->missed);
}

void report_at_exit(void)
{
	static atomic_bool done;
	struct shim_section section;
	struct map *map;

	if (getpid() != shim_pid || atomic_exchange(&done, true))
		return;
	shim_enter(&section);
	if (!pthread_rwlock_tryrdlock(&shim_lock)) {
		for (map = shim_maps; map; map = map->next)
			report_count(map);
		pthread_rwlock_unlock(&shim_lock);
	}
	if (shim_config.summary)
		summary();
	shim_leave(&section);
}
