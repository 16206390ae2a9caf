/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Find the mapped pages of this process or of another one: by PAGEMAP_SCAN if the kernel has it
 * (Linux 6.7), else by /proc/PID/pagemap.
 */
#ifndef HM_STEER_LOOK_H
#define HM_STEER_LOOK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hm_advisor;
struct hm_touch;

/* The runs of one look, at most. The next look finds the remaining runs. */
#define LOOK_RUNS 1024u

/**
 * struct looker - how to look
 * @fd: /proc/PID/pagemap
 * @scan: PAGEMAP_SCAN works
 * @buffer: LOOK_BYTES of memory
 */
struct looker {
	int fd;
	bool scan;
	void *buffer;
};

#define LOOK_BYTES (256u << 10)

/**
 * looker_open() - look at a process
 * @looker: filled in
 * @pagemap: its pagemap, opened
 * @buffer: LOOK_BYTES of memory, aligned to 8
 */
void looker_open(struct looker *looker, int pagemap, void *buffer);

/**
 * look() - find the pages that were mapped since the last look
 * @looker: how
 * @start: an address, a multiple of 4096
 * @end: the address to stop at, a multiple of 4096
 * @base: the address of page 0
 * @seen: a bit for each page: mapped at the last look; brought up to date
 * @runs: LOOK_RUNS, filled in: new ones, ascending, in pages from @base
 * @n: in: how many there are already; out: and these
 * @huge: bytes that are mapped by huge pages are added
 *
 * Return: where it stopped: @end, or before that if @runs is full; 0 if it cannot be
 * done.
 */
uint64_t look(const struct looker *looker, uint64_t start, uint64_t end, uint64_t base,
	      unsigned long *seen, struct hm_touch *runs, uint32_t *n, uint64_t *huge);

/**
 * look_windows() - where an advisor's streams are going on
 * @advisor: of the mapping
 * @window: HM_TRACKS, filled in: pages, ascending, none twice
 *
 * There is little to be seen there, so looking costs little.
 *
 * Return: how many.
 */
uint32_t look_windows(const struct hm_advisor *advisor, struct hm_touch *window);

/* The caller has mapped these pages itself, so the next look does not report them. */
void look_mark(unsigned long *seen, uint64_t page, uint64_t end);

#endif /* HM_STEER_LOOK_H */
