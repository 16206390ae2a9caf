/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Included before each file of this directory: its calls of <string.h>, and those that the compiler
 * makes, are calls of string.c. In libhugemap, the C library's functions of the same names may be a
 * sanitizer's, which use thread-local data that the monitor thread does not have.
 */
#ifndef HM_STEER_NAMES_H
#define HM_STEER_NAMES_H

#include <stddef.h>

void *memcpy(void *to, const void *from, size_t n) __asm__("steer_memcpy");
void *memmove(void *to, const void *from, size_t n) __asm__("steer_memmove");
void *memset(void *to, int byte, size_t n) __asm__("steer_memset");
int memcmp(const void *a, const void *b, size_t n) __asm__("steer_memcmp");
int strncmp(const char *a, const char *b, size_t n) __asm__("steer_strncmp");
int strcmp(const char *a, const char *b) __asm__("steer_strcmp");
size_t strlen(const char *text) __asm__("steer_strlen");
char *strchr(const char *text, int byte) __asm__("steer_strchr");
char *strrchr(const char *text, int byte) __asm__("steer_strrchr");
char *strstr(const char *text, const char *part) __asm__("steer_strstr");

#endif /* HM_STEER_NAMES_H */
