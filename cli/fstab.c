// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* /etc/fstab, a line at a time; see fstab.h. */
#include "fstab.h"

#include <errno.h>
#include <fcntl.h>
#include <mntent.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#define MOST_BYTES (1u << 20)
#define SUFFIX ".hugemap-new"
#define WAIT_S 20 /* for others; far more than anybody needs to write a file */
#define TRIES_A_SECOND 50
/* Others come and go. */
#define TRY_AGAIN 1
#define GONE -2

const char *fstab_name(void)
{
	const char *name = secure_getenv("LIBMOUNT_FSTAB");

	return name && *name ? name : "/etc/fstab";
}

static int __attribute__((format(printf, 2, 3))) wrong(struct fstab *fstab, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(fstab->why, sizeof(fstab->why), format, args);
	va_end(args);
	return -1;
}

/* --- reading --- */

/* Where a symbolic link leads; a file that is not there yet keeps its name. */
static int follow(struct fstab *fstab)
{
	struct stat st;

	if (realpath(fstab->name, fstab->path))
		return 0;
	if (errno != ENOENT)
		return wrong(fstab, "%.256s: %s", fstab->name, strerror(errno));
	if (!lstat(fstab->name, &st))
		return wrong(fstab, "%.256s is a symbolic link that leads nowhere", fstab->name);
	memcpy(fstab->path, fstab->name, sizeof(fstab->path));
	return 0;
}

static bool is_same(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Whoever may open the file can hold the lock, for as long as it likes. */
static int take_lock(struct fstab *fstab, int fd, unsigned int *tries)
{
	static const struct timespec a_while = { .tv_nsec = 1000000000 / TRIES_A_SECOND };

	while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno == EINTR)
			continue;
		if (errno != EWOULDBLOCK)
			return wrong(fstab, "%.256s cannot be locked: %s", fstab->beside,
				     strerror(errno));
		if (*tries == WAIT_S * TRIES_A_SECOND)
			return wrong(fstab,
				     "another program has held a lock on %.256s for %d seconds: "
				     "`fuser -v` and that name tell which; end it and try again",
				     fstab->beside, WAIT_S);
		if (!(*tries)++)
			fprintf(stderr, "waiting for somebody else who changes %s (%s is locked)\n",
				fstab->path, fstab->beside);
		nanosleep(&a_while, NULL);
	}
	return 0;
}

/* A new file that nobody else may open, or one that is there already, for its lock. */
static int open_beside(struct fstab *fstab, bool *made)
{
	int fd = open(fstab->beside, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	*made = fd >= 0;
	if (fd >= 0 || errno != EEXIST)
		return fd;
	fd = open(fstab->beside, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	return fd < 0 && errno == ENOENT ? GONE : fd;
}

static int check_owner(struct fstab *fstab, const struct stat *st)
{
	if (S_ISREG(st->st_mode) && st->st_uid == geteuid() && st->st_nlink == 1)
		return 0;
	return wrong(fstab,
		     "%.256s is in the way, and not from here: it is no file, or has another owner "
		     "or another name, too; take it away and try again",
		     fstab->beside);
}

/*
 * A file that is locked: 0 if it is ours to write. Whoever waited may hold one that has
 * been renamed or removed meanwhile. One that was left by a crash makes way for a new
 * one: somebody else may have it open.
 */
static int claim(struct fstab *fstab, int fd, bool made)
{
	struct stat held, named;

	if (fstat(fd, &held) < 0 || lstat(fstab->beside, &named) < 0 || !is_same(&held, &named))
		return TRY_AGAIN;
	if (check_owner(fstab, &named))
		return -1;
	if (made)
		return 0;
	if (unlink(fstab->beside) < 0)
		return wrong(fstab, "%.256s, left by a crash, cannot be taken away: %s",
			     fstab->beside, strerror(errno));
	return TRY_AGAIN;
}

/* The file that will take the other's place is the lock, too. */
static int lock(struct fstab *fstab)
{
	unsigned int tries = 0;
	int status = TRY_AGAIN;

	snprintf(fstab->beside, sizeof(fstab->beside), "%s" SUFFIX, fstab->path);
	while (status == TRY_AGAIN) {
		bool made;

		fstab->fd = open_beside(fstab, &made);
		if (fstab->fd == GONE)
			continue;
		if (fstab->fd < 0)
			return wrong(fstab, "no file can be written beside %.256s: %s", fstab->path,
				     strerror(errno));
		status = take_lock(fstab, fstab->fd, &tries);
		if (!status)
			status = claim(fstab, fstab->fd, made);
		if (status) {
			close(fstab->fd);
			fstab->fd = -1;
		}
	}
	return status;
}

/* Lines are strings from here on. */
static int check_text(struct fstab *fstab)
{
	const char *nul = memchr(fstab->text, '\0', fstab->length), *at;
	unsigned int number = 1;

	if (!nul)
		return 0;
	for (at = fstab->text; at < nul; at++)
		number += *at == '\n';
	return wrong(fstab,
		     "line %u of %.256s has a NUL byte in it, as no text has: mend that line and "
		     "try again",
		     number, fstab->path);
}

static int read_all(struct fstab *fstab, int fd)
{
	size_t room;

	if (fstat(fd, &fstab->st) < 0)
		return wrong(fstab, "%.256s: %s", fstab->path, strerror(errno));
	if (!S_ISREG(fstab->st.st_mode))
		return wrong(fstab, "%.256s is not a file", fstab->path);
	if (fstab->st.st_size > MOST_BYTES)
		return wrong(fstab, "%.256s is larger than any that was seen so far", fstab->path);
	room = (size_t)fstab->st.st_size;
	fstab->text = malloc(room + 1);
	if (!fstab->text)
		return wrong(fstab, "there is no memory left");
	while (fstab->length < room) {
		ssize_t n = read(fd, fstab->text + fstab->length, room - fstab->length);

		if (n < 0)
			return wrong(fstab, "%.256s cannot be read: %s", fstab->path,
				     strerror(errno));
		if (n == 0)
			return wrong(fstab, "%.256s is being changed by somebody else: try again",
				     fstab->path);
		fstab->length += (size_t)n;
	}
	return check_text(fstab);
}

int fstab_open(struct fstab *fstab, bool change)
{
	int fd, status;

	*fstab = (struct fstab){ .fd = -1 };
	snprintf(fstab->name, sizeof(fstab->name), "%s", fstab_name());
	if (follow(fstab) || (change && lock(fstab)))
		return -1;
	fd = open(fstab->path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		return 0;
	if (fd < 0)
		return wrong(fstab, "%.256s cannot be read: %s", fstab->path, strerror(errno));
	fstab->exists = true;
	status = read_all(fstab, fd);
	close(fd);
	return status;
}

void fstab_close(struct fstab *fstab)
{
	if (fstab->fd >= 0) {
		unlink(fstab->beside);
		close(fstab->fd);
	}
	free(fstab->text);
	*fstab = (struct fstab){ .fd = -1 };
}

/* --- lines --- */

/* What getmntent(3) makes of a line; false: a comment, or nothing. */
static bool parse(struct fstab_line *line, size_t length)
{
	struct mntent entry;
	FILE *file = length ? fmemopen(line->text, length, "r") : NULL;
	bool found = file && getmntent_r(file, &entry, line->fields, (int)length + 2);

	if (file)
		fclose(file);
	if (!found)
		return false;
	line->source = entry.mnt_fsname;
	line->dir = entry.mnt_dir;
	line->type = entry.mnt_type;
	line->options = entry.mnt_opts;
	return true;
}

/* "/mnt//fast/" is "/mnt/fast"; "none" and the like are nowhere. */
static bool is_dir(const char *text, const char *dir)
{
	if (*dir != '/')
		return false;
	while (*text && *text == *dir) {
		if (*text == '/')
			text += strspn(text, "/");
		else
			text++;
		dir++;
	}
	if (*dir)
		return false;
	return text[strspn(text, "/")] == '\0';
}

static bool is_for(const struct fstab_line *line, const char *const *dirs, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++)
		if (is_dir(line->dir, dirs[i]))
			return true;
	return false;
}

unsigned int fstab_find(const struct fstab *fstab, const char *const *dirs, size_t count,
			struct fstab_line *line)
{
	struct fstab_line at = {};
	unsigned int found = 0;

	*line = (struct fstab_line){};
	while (at.end < fstab->length) {
		const char *start = fstab->text + at.end;
		const char *newline = memchr(start, '\n', fstab->length - at.end);
		size_t length = newline ? (size_t)(newline - start) : fstab->length - at.end;

		at.number++;
		at.start = at.end;
		at.end += length + (newline ? 1 : 0);
		at.text = strndup(start, length);
		at.fields = malloc(length + 2);
		if (at.text && at.fields && parse(&at, length) && is_for(&at, dirs, count) &&
		    !found++) {
			*line = at;
			continue;
		}
		free(at.text);
		free(at.fields);
	}
	return found;
}

void fstab_line_free(struct fstab_line *line)
{
	free(line->text);
	free(line->fields);
	*line = (struct fstab_line){};
}

char *fstab_make_line(const char *source, const char *dir, const char *type, const char *options)
{
	/* It does not change them. */
	const struct mntent entry = {
		.mnt_fsname = (char *)source,
		.mnt_dir = (char *)dir,
		.mnt_type = (char *)type,
		.mnt_opts = (char *)options,
	};
	char *text = NULL;
	size_t length = 0;
	FILE *file = open_memstream(&text, &length);
	bool made = file && !addmntent(file, &entry);

	if (file && fclose(file))
		made = false;
	if (!made || !text) {
		free(text);
		return NULL;
	}
	text[strcspn(text, "\n")] = '\0';
	return text;
}

/* --- writing --- */

static int write_all(int fd, const char *bytes, size_t length)
{
	while (length) {
		ssize_t n = write(fd, bytes, length);

		if (n < 0)
			return -1;
		bytes += n;
		length -= (size_t)n;
	}
	return 0;
}

static int write_new(struct fstab *fstab, size_t start, size_t end, const char *text)
{
	bool unended = start && fstab->text[start - 1] != '\n';

	if (write_all(fstab->fd, fstab->text, start) < 0)
		return -1;
	if (text &&
	    ((unended && write_all(fstab->fd, "\n", 1) < 0) ||
	     write_all(fstab->fd, text, strlen(text)) < 0 || write_all(fstab->fd, "\n", 1) < 0))
		return -1;
	return write_all(fstab->fd, fstab->text + end, fstab->length - end);
}

/* Labels and access lists; but for those that the kernel makes of what is in a file. */
static int copy_xattrs(struct fstab *fstab)
{
	static const char *const own[] = { "security.ima", "security.evm" };
	char names[4096], value[4096];
	ssize_t length = listxattr(fstab->path, names, sizeof(names));
	const char *name;

	if (length < 0)
		return errno == ENOTSUP ? 0 : -1;
	for (name = names; name < names + length; name += strlen(name) + 1) {
		ssize_t size;

		if (!strcmp(name, own[0]) || !strcmp(name, own[1]))
			continue;
		size = getxattr(fstab->path, name, value, sizeof(value));
		if (size < 0 || fsetxattr(fstab->fd, name, value, (size_t)size, 0) < 0)
			return -1;
	}
	return 0;
}

/* As the old one was; the mode last, since other users may open it from then on. */
static int copy_rights(struct fstab *fstab)
{
	if (!fstab->exists)
		return fchmod(fstab->fd, 0644);
	if (fchown(fstab->fd, fstab->st.st_uid, fstab->st.st_gid) < 0 || copy_xattrs(fstab) < 0)
		return -1;
	return fchmod(fstab->fd, fstab->st.st_mode & 07777);
}

static bool is_unchanged(const struct fstab *fstab)
{
	const struct stat *was = &fstab->st;
	struct stat now;

	if (lstat(fstab->path, &now) < 0)
		return errno == ENOENT && !fstab->exists;
	return fstab->exists && is_same(was, &now) && was->st_size == now.st_size &&
	       was->st_mtim.tv_sec == now.st_mtim.tv_sec &&
	       was->st_mtim.tv_nsec == now.st_mtim.tv_nsec;
}

static int sync_directory(const char *path)
{
	char dir[PATH_MAX];
	char *slash;
	int fd, status;

	snprintf(dir, sizeof(dir), "%s", path);
	slash = strrchr(dir, '/');
	if (slash)
		slash[slash == dir ? 1 : 0] = '\0';
	fd = open(slash ? dir : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	status = fsync(fd);
	close(fd);
	return status;
}

int fstab_put(struct fstab *fstab, const struct fstab_line *old, const char *text)
{
	size_t start = old ? old->start : fstab->length, end = old ? old->end : fstab->length;
	int status = 0;

	if (write_new(fstab, start, end, text) < 0 || fsync(fstab->fd) < 0)
		return wrong(fstab, "the new %.256s cannot be written: %s", fstab->path,
			     strerror(errno));
	/* As late as can be: if it ended here, a file would stay that anybody may lock. */
	if (copy_rights(fstab) < 0)
		return wrong(fstab,
			     "%.256s cannot get the owner, mode and attributes of %.256s: %s",
			     fstab->beside, fstab->path, strerror(errno));
	if (!is_unchanged(fstab))
		return wrong(fstab, "somebody else has changed %.256s meanwhile: try again",
			     fstab->path);
	if (rename(fstab->beside, fstab->path) < 0)
		return wrong(fstab, "%.256s cannot be replaced: %s", fstab->path, strerror(errno));
	/* The disk does not have its rights yet, nor its name. */
	if (fsync(fstab->fd) < 0 || sync_directory(fstab->path) < 0) {
		wrong(fstab, "%s", strerror(errno));
		status = FSTAB_UNSURE;
	}
	/* It is no longer ours to remove. */
	close(fstab->fd);
	fstab->fd = -1;
	return status;
}
