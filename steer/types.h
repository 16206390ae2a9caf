/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Short names of integer types, and the sizes that steering counts in. */
#ifndef HM_STEER_TYPES_H
#define HM_STEER_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int64_t s64;

#define PAGE_BYTES 4096u
/* A region is the range that one huge page maps: 2 MB, aligned. */
#define REGION_BYTES (2u << 20)
#define REGION_PAGES (REGION_BYTES / PAGE_BYTES)

#endif /* HM_STEER_TYPES_H */
