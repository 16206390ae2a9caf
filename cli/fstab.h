/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * /etc/fstab: one line of it is found, added, replaced or taken away; the others
 * stay as they are, byte for byte.
 *
 * libmount could do it, but for that: it writes the whole file anew, and with that
 * the columns of other lines become single blanks, comments that are indented or at
 * the end of a line are lost, as is any line that it cannot read, and nothing waits
 * for the disk. Lines are read and made by the C library (getmntent(3)), as systemd
 * reads them.
 */
#ifndef CLI_FSTAB_H
#define CLI_FSTAB_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#define FSTAB_WHY 512

/* fstab_put(): it is written, but the disk may not have it. */
#define FSTAB_UNSURE 1

/**
 * struct fstab - the file as it was read
 * @name: as it is called: /etc/fstab, or $LIBMOUNT_FSTAB, which mount(8) knows too
 * @path: the file itself, where @name is a symbolic link
 * @beside: the file that will take its place; it is the lock, too
 * @st: of the file, as it was read; what it says does not count if not @exists
 * @text: its bytes
 * @length: how many
 * @fd: of @beside; -1: it was opened for reading
 * @why: what went wrong, for people
 */
struct fstab {
	char name[PATH_MAX];
	char path[PATH_MAX];
	char beside[PATH_MAX + 16];
	struct stat st;
	bool exists;
	char *text;
	size_t length;
	int fd;
	char why[FSTAB_WHY];
};

/**
 * struct fstab_line - a line that is there
 * @number: from 1
 * @start: where it begins in the text
 * @end: behind its newline
 * @text: the line without that; the other strings are what stands in it
 */
struct fstab_line {
	unsigned int number;
	size_t start;
	size_t end;
	char *text;
	const char *source;
	const char *dir;
	const char *type;
	const char *options;
	char *fields;
};

/* The name of the file. */
const char *fstab_name(void);

/**
 * fstab_open() - read the file
 * @fstab: to be filled in, and closed whatever is returned
 * @change: it is to be changed; others who want that wait until it is closed, but not
 *	forever
 *
 * A file that is not there is an empty one. One with NUL bytes is refused: all that
 * follows takes lines for strings.
 *
 * Return: 0, or -1 with a reason in @fstab->why.
 */
int fstab_open(struct fstab *fstab, bool change);
void fstab_close(struct fstab *fstab);

/**
 * fstab_find() - the lines for a mount point
 * @fstab: as it was read
 * @dirs: its names, without needless slashes; what is not absolute is nowhere
 * @count: how many names
 * @line: the first line, if there is one; fstab_line_free() in any case
 *
 * Return: how many lines there are.
 */
unsigned int fstab_find(const struct fstab *fstab, const char *const *dirs, size_t count,
			struct fstab_line *line);
void fstab_line_free(struct fstab_line *line);

/* A line for the file, without a newline, to be freed; NULL: no memory. */
char *fstab_make_line(const char *source, const char *dir, const char *type, const char *options);

/**
 * fstab_put() - put another file in its place, with one line changed
 * @fstab: opened for that
 * @old: the line to be replaced or taken away; NULL: @text is added at the end
 * @text: the new line; NULL = none
 *
 * After a crash or a power cut the file is the old one or the new one. Owner, mode
 * and attributes are those of the old one.
 *
 * Return: 0; FSTAB_UNSURE if it is written, but a power cut may bring the old one back; or
 * -1: the file is as it was. Unless 0 there is a reason in @fstab->why.
 */
int fstab_put(struct fstab *fstab, const struct fstab_line *old, const char *text);

#endif /* CLI_FSTAB_H */
