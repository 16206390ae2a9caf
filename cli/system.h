/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What `hugemap doctor` and `hugemap bench` both ask the machine. */
#ifndef CLI_SYSTEM_H
#define CLI_SYSTEM_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* --- files.c: small files below /proc and /sys --- */

/* The first line of a file, without its end; false: cannot be read. */
bool read_line(const char *path, char *line, size_t size);
bool write_line(const char *path, const char *line);
/* The number in a line that starts with a word: "VmHWM:", or "" = the first line. */
bool read_field(const char *path, const char *word, unsigned long long *value);
/* The word in brackets, as in "always [madvise] never"; else the whole line. */
bool read_choice(const char *path, char *choice, size_t size);

/**
 * smaps_bytes() - memory of a kind in a range of this process
 * @start: start of the range
 * @length: bytes; mappings that only overlap it count as a whole
 * @field: as smaps names it: "AnonHugePages:", "FilePmdMapped:"
 */
size_t smaps_bytes(const void *start, size_t length, const char *field);

/* --- spawn.c --- */

/**
 * spawn_wait() - run a program and wait for its end
 * @argv: its arguments; it is searched for in the directories of the system
 * @error: filled in with the first line that it prints; "" = none
 * @size: bytes of @error
 *
 * Return: its exit status, 127 if it is not installed, -1 if it was killed.
 */
int spawn_wait(char *const argv[], char *error, size_t size);

/* --- volume.c --- */

/**
 * struct volume - the file system and the device below a directory
 * @dir: its absolute path
 * @type: "ext4"
 * @options: mount options
 * @source: what is mounted, "/dev/vda1"
 * @device: name of the whole disk, "vda"; "" = none
 * @model: what the disk says it is; ""
 * @scheduler: of its queue; ""
 * @read_ahead_path: the setting of the device below the file system; "" = none
 * @dev: device number of the file system
 */
struct volume {
	char dir[4096];
	char type[32];
	char options[256];
	char source[256];
	char device[64];
	char model[64];
	char scheduler[32];
	char read_ahead_path[96];
	dev_t dev;
};

/* Returns 0 or a negative errno, if there is no such directory. */
int volume_find(const char *dir, struct volume *volume);

#endif /* CLI_SYSTEM_H */
