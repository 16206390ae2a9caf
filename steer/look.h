/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Find the mapped pages of this process or of another one, by PAGEMAP_SCAN if the kernel has it
 * (Linux 6.7), otherwise by /proc/PID/pagemap.
 */
#ifndef HM_STEER_LOOK_H
#define HM_STEER_LOOK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hm_advisor;
struct hm_touch;

/* Most runs that one look reports. The next look reports the remaining ones. */
#define LOOK_RUNS 1024u

/**
 * struct looker - access to the page tables of a process
 * @fd: /proc/PID/pagemap
 * @scan: the kernel has PAGEMAP_SCAN
 * @buffer: LOOK_BYTES of memory
 */
struct looker {
	int fd;
	bool scan;
	void *buffer;
};

#define LOOK_BYTES (256u << 10)

/**
 * looker_open() - prepare looks at a process
 * @looker: this function sets all of it
 * @pagemap: descriptor of /proc/PID/pagemap
 * @buffer: LOOK_BYTES of memory, aligned to 8
 */
void looker_open(struct looker *looker, int pagemap, void *buffer);

/**
 * look() - find the pages that were mapped since the last look
 * @looker: set by looker_open()
 * @start: the first address, a multiple of 4096
 * @end: the address behind the last one, a multiple of 4096
 * @base: the address of page 0
 * @seen: a bit for each page: mapped at the last look; this look updates the bits
 * @runs: LOOK_RUNS entries; the look appends the new runs, ascending, in pages from @base
 * @n: number of entries of @runs, before and after the look
 * @huge: the look adds the bytes that huge pages map
 *
 * Return: the address at which the look stopped: @end, or a lower one if @runs is full; 0 if the
 * kernel does not return the page tables.
 */
uint64_t look(const struct looker *looker, uint64_t start, uint64_t end, uint64_t base,
	      unsigned long *seen, struct hm_touch *runs, uint32_t *n, uint64_t *huge);

/**
 * look_windows() - compute the ranges that the streams of a mapping will access next
 * @advisor: advisor of the mapping
 * @window: HM_TRACKS entries; the function sets ranges of pages, ascending, without overlaps
 *
 * The ranges are short, so a look at them is cheap.
 *
 * Return: the number of ranges.
 */
uint32_t look_windows(const struct hm_advisor *advisor, struct hm_touch *window);

#endif /* HM_STEER_LOOK_H */
