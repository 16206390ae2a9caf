/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Settings and properties of the machine. */
#ifndef CLI_SYSTEM_H
#define CLI_SYSTEM_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* --- files.c: small files below /proc and /sys --- */

/* Read the first line of a file, without the line break; false: it cannot be read. */
bool read_line(const char *path, char *line, size_t size);
bool write_line(const char *path, const char *line);
/* Read the number in the line that starts with a word, such as "VmHWM:"; "" = the first line. */
bool read_field(const char *path, const char *word, unsigned long long *value);
/* Read the word in brackets, as in "always [madvise] never"; without brackets the whole line. */
bool read_choice(const char *path, char *choice, size_t size);

/**
 * smaps_bytes() - add up a field of smaps for a range of this process
 * @start: start of the range
 * @length: bytes; a mapping that only overlaps the range counts as a whole
 * @field: name of the field: "AnonHugePages:", "FilePmdMapped:"
 *
 * Return: bytes.
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
 * @type: type of the file system, "ext4"
 * @options: mount options
 * @source: the mounted device, "/dev/vda1"
 * @device: name of the whole disk, "vda"; "" = none
 * @model: model of the disk; "" = unknown
 * @scheduler: I/O scheduler of the disk; "" = unknown
 * @read_ahead_path: file with the setting read_ahead_kb; "" = none
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

/* Find the volume of a directory; 0 or a negative errno. */
int volume_find(const char *dir, struct volume *volume);

#endif /* CLI_SYSTEM_H */
