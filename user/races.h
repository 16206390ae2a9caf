/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Memory that the program may store to at any moment is read by the engine all
 * the same: to hash it, to write it to the file, to copy it for pread(). That
 * such a read may see a store half done is understood, and ThreadSanitizer is
 * told so, for these reads only. And of a lock that a child has from its parent.
 */
#ifndef HM_RACES_H
#define HM_RACES_H

#include <string.h>

#include "port.h"

/*
 * hm_touch() - before the engine itself reads or writes memory that is moved about
 * hm_copy() - memcpy() from or to memory of the program's, which may fault
 *
 * The port of a simulator, whose memory is not the processor's, has its own.
 */
#ifndef hm_touch
#define hm_touch(at, bytes) \
	do {                \
	} while (0)
#define hm_copy(to, from, bytes) memcpy(to, from, bytes)
#endif

#ifdef __SANITIZE_THREAD__

void AnnotateIgnoreReadsBegin(const char *file, int line);
void AnnotateIgnoreReadsEnd(const char *file, int line);
void AnnotateIgnoreWritesBegin(const char *file, int line);
void AnnotateIgnoreWritesEnd(const char *file, int line);
void AnnotateRWLockReleased(const char *file, int line, void *lock, long is_writer);

static inline void program_memory_begin(void)
{
	AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
	AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
}

static inline void program_memory_end(void)
{
	AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
	AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
}

/* A lock that is held for writing is made anew. */
static inline void lock_is_forgotten(void *lock)
{
	AnnotateRWLockReleased(__FILE__, __LINE__, lock, 1);
}

#else

static inline void program_memory_begin(void)
{
}

static inline void program_memory_end(void)
{
}

static inline void lock_is_forgotten(void *lock)
{
	(void)lock;
}

#endif

#endif /* HM_RACES_H */
