// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * A mount over a FUSE file system that counts no names, as some do: its files say that
 * they have 0 of them, and are none the less there. The server is a child, with one file.
 *
 * vm: lower=none page=auto modules=fuse timeout=120
 */
#include "common.h"
#include "mounts.h"

#include <linux/fuse.h>
#include <sys/uio.h>

#define ROOM (64 * SMALL)
#define FILE_ID 2

/* What the server has, and has seen. */
struct server {
	unsigned char data[ROOM];
	volatile uint64_t size;
	volatile bool removed;
	volatile unsigned int opens, releases;
};

static struct server *server;

/* --- the server ---------------------------------------------------------------------- */

static struct fuse_attr attr_of(uint64_t id)
{
	struct fuse_attr attr = { .ino = id, .mode = S_IFDIR | 0755, .blksize = SMALL };

	if (id == FILE_ID) {
		attr.mode = S_IFREG | 0644;
		attr.size = server->size;
	}
	return attr;
}

static void reply(int fuse, uint64_t unique, int error, const void *data, size_t len)
{
	struct fuse_out_header head = { .unique = unique, .error = error };
	struct iovec out[2] = { { &head, sizeof(head) }, { (void *)data, error ? 0 : len } };

	head.len = (uint32_t)(sizeof(head) + out[1].iov_len);
	if (writev(fuse, out, 2) < 0 && errno != ENOENT)
		_exit(2);
}

static void look_up(int fuse, uint64_t unique, const char *name)
{
	struct fuse_entry_out entry = { .nodeid = FILE_ID, .attr = attr_of(FILE_ID) };

	reply(fuse, unique, strcmp(name, "f") || server->removed ? -ENOENT : 0, &entry,
	      sizeof(entry));
}

static void tell_attr(int fuse, const struct fuse_in_header *in)
{
	struct fuse_attr_out out = { .attr = attr_of(in->nodeid) };

	reply(fuse, in->unique, 0, &out, sizeof(out));
}

static void serve_read(int fuse, uint64_t unique, const struct fuse_read_in *in)
{
	uint64_t end = in->offset + in->size, size = server->size;

	end = end < size ? end : size;
	reply(fuse, unique, 0, server->data + in->offset,
	      in->offset < end ? (size_t)(end - in->offset) : 0);
}

static void serve_write(int fuse, uint64_t unique, const struct fuse_write_in *in)
{
	struct fuse_write_out out = { .size = in->size };

	if (in->offset + in->size > ROOM) {
		reply(fuse, unique, -ENOSPC, NULL, 0);
		return;
	}
	memcpy(server->data + in->offset, in + 1, in->size);
	if (server->size < in->offset + in->size)
		server->size = in->offset + in->size;
	reply(fuse, unique, 0, &out, sizeof(out));
}

static void serve_init(int fuse, uint64_t unique, const struct fuse_init_in *in)
{
	struct fuse_init_out out = { .major = FUSE_KERNEL_VERSION,
				     .minor = FUSE_KERNEL_MINOR_VERSION,
				     .max_readahead = in->max_readahead,
				     .max_write = 16 * SMALL };

	reply(fuse, unique, 0, &out, sizeof(out));
}

static void serve_one(int fuse, const struct fuse_in_header *in)
{
	static const struct fuse_open_out opened;
	static const struct fuse_statfs_out statfs_out;
	const void *arg = in + 1;

	switch (in->opcode) {
	case FUSE_INIT:
		serve_init(fuse, in->unique, arg);
		break;
	case FUSE_LOOKUP:
		look_up(fuse, in->unique, arg);
		break;
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET:
		break;
	case FUSE_SETATTR:
		if (((const struct fuse_setattr_in *)arg)->valid & FATTR_SIZE)
			server->size = ((const struct fuse_setattr_in *)arg)->size;
		tell_attr(fuse, in);
		break;
	case FUSE_GETATTR:
		tell_attr(fuse, in);
		break;
	case FUSE_OPEN:
		server->opens++;
		reply(fuse, in->unique, 0, &opened, sizeof(opened));
		break;
	case FUSE_OPENDIR:
		reply(fuse, in->unique, 0, &opened, sizeof(opened));
		break;
	case FUSE_RELEASE:
		server->releases++;
		reply(fuse, in->unique, 0, NULL, 0);
		break;
	case FUSE_READ:
		serve_read(fuse, in->unique, arg);
		break;
	case FUSE_WRITE:
		serve_write(fuse, in->unique, arg);
		break;
	case FUSE_UNLINK:
		server->removed = true;
		reply(fuse, in->unique, 0, NULL, 0);
		break;
	case FUSE_STATFS:
		reply(fuse, in->unique, 0, &statfs_out, sizeof(statfs_out));
		break;
	case FUSE_FLUSH:
	case FUSE_FSYNC:
	case FUSE_RELEASEDIR:
		reply(fuse, in->unique, 0, NULL, 0);
		break;
	default:
		reply(fuse, in->unique, -ENOSYS, NULL, 0);
	}
}

static void serve(void *arg)
{
	static char request[1 << 20] __attribute__((aligned(8)));
	int fuse = *(int *)arg;

	while (read(fuse, request, sizeof(request)) > 0 || errno == EINTR || errno == ENOENT)
		serve_one(fuse, (struct fuse_in_header *)request);
}

/* --- the mounts ---------------------------------------------------------------------- */

static pid_t start(void)
{
	char options[128];
	pid_t pid;
	int fuse;

	require_mount_dirs();
	server = mmap(NULL, sizeof(*server), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	EXPECT(server != MAP_FAILED, "mmap: %s", strerror(errno));
	pattern(server->data, 1, 0, 3 * SMALL);
	server->size = 3 * SMALL;
	fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	if (fuse < 0)
		skip("no FUSE here: %s", strerror(errno));
	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other",
		 fuse);
	MUST(mount("server", source_dir, "fuse", 0, options));
	pid = start_child(serve, &fuse);
	close(fuse);
	MUST(mount(source_dir, mount_point, "hugemap", 0, "pool=64M"));
	MUST(chdir(mount_point));
	return pid;
}

static void end(pid_t pid)
{
	MUST(chdir(work_dir));
	MUST(umount(mount_point));
	MUST(umount(source_dir));
	wait_child(pid);
}

BEHAVIOUR(is_there)
{
	pid_t pid = start();
	struct stat st;
	int fd = open_file("f", O_RDWR);

	MUST(fstat(fd, &st));
	EXPECT(!st.st_nlink, "%lu names, expected what the server says",
	       (unsigned long)st.st_nlink);
	read_pattern("read", fd, 1, 0, 3 * SMALL);
	write_pattern(fd, 2, SMALL, SMALL);
	close(fd);
	/* The server has set the time of the change, so it is not changed later. */
	expect_pattern("at the server after close(2)", server->data + SMALL, 2, SMALL, SMALL);
	/* What has no name and is in use keeps a mount writable; this has one. */
	fd = open_file("f", O_RDONLY);
	if (mount(NULL, mount_point, NULL, MS_REMOUNT | MS_RDONLY, NULL))
		FAIL("remount,ro: %s", strerror(errno));
	MUST(mount(NULL, mount_point, NULL, MS_REMOUNT, NULL));
	close(fd);
	end(pid);
}

/* The server can forget what was removed, and does not wait for memory to be short. */
BEHAVIOUR(is_let_go)
{
	pid_t pid = start();
	unsigned int tries;
	int fd = open_file("f", O_RDWR);

	write_pattern(fd, 2, 0, SMALL);
	MUST(unlink("f"));
	read_pattern("read of what was removed", fd, 2, 0, SMALL);
	MUST(fchmod(fd, 0600));
	close(fd);
	for (tries = 0; server->releases < server->opens && tries < 100; tries++)
		usleep(20000);
	EXPECT(server->opens && server->releases == server->opens,
	       "opened %u times, closed %u times", server->opens, server->releases);
	end(pid);
}

RUN_BEHAVIOURS
