// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * A mount over a FUSE file system that does not count links, as some do: st_nlink of its
 * files is always 0, although they exist. The server is a child with one file.
 *
 * vm: lower=none page=auto modules=fuse timeout=120
 */
#include "common.h"
#include "mounts.h"

#include <linux/fuse.h>
#include <sys/uio.h>

#define ROOM (64 * SMALL)
#define FILE_ID 2

/* Shared by the server and the test. */
struct server {
	unsigned char data[ROOM];
	volatile uint64_t size;
	volatile bool removed;
	volatile unsigned int opens, releases;
};

static struct server *server;

/* --- the server ---------------------------------------------------------------------- */

static struct fuse_attr server_attr(uint64_t id)
{
	struct fuse_attr attr = { .ino = id, .mode = S_IFDIR | 0755, .blksize = SMALL };

	if (id == FILE_ID) {
		attr.mode = S_IFREG | 0644;
		attr.size = server->size;
	}
	return attr;
}

static void send_reply(int fuse, uint64_t unique, int error, const void *data, size_t len)
{
	struct fuse_out_header head = { .unique = unique, .error = error };
	struct iovec out[2] = { { &head, sizeof(head) }, { (void *)data, error ? 0 : len } };

	head.len = (uint32_t)(sizeof(head) + out[1].iov_len);
	if (writev(fuse, out, 2) < 0 && errno != ENOENT)
		_exit(2);
}

static void serve_lookup(int fuse, uint64_t unique, const char *name)
{
	struct fuse_entry_out entry = { .nodeid = FILE_ID, .attr = server_attr(FILE_ID) };

	send_reply(fuse, unique, strcmp(name, "f") || server->removed ? -ENOENT : 0, &entry,
		   sizeof(entry));
}

static void serve_getattr(int fuse, const struct fuse_in_header *in)
{
	struct fuse_attr_out out = { .attr = server_attr(in->nodeid) };

	send_reply(fuse, in->unique, 0, &out, sizeof(out));
}

static void serve_read(int fuse, uint64_t unique, const struct fuse_read_in *in)
{
	uint64_t end = in->offset + in->size, size = server->size;

	end = end < size ? end : size;
	send_reply(fuse, unique, 0, server->data + in->offset,
		   in->offset < end ? (size_t)(end - in->offset) : 0);
}

static void serve_write(int fuse, uint64_t unique, const struct fuse_write_in *in)
{
	struct fuse_write_out out = { .size = in->size };

	if (in->offset + in->size > ROOM) {
		send_reply(fuse, unique, -ENOSPC, NULL, 0);
		return;
	}
	memcpy(server->data + in->offset, in + 1, in->size);
	if (server->size < in->offset + in->size)
		server->size = in->offset + in->size;
	send_reply(fuse, unique, 0, &out, sizeof(out));
}

static void serve_init(int fuse, uint64_t unique, const struct fuse_init_in *in)
{
	struct fuse_init_out out = { .major = FUSE_KERNEL_VERSION,
				     .minor = FUSE_KERNEL_MINOR_VERSION,
				     .max_readahead = in->max_readahead,
				     .max_write = 16 * SMALL };

	send_reply(fuse, unique, 0, &out, sizeof(out));
}

static void serve_request(int fuse, const struct fuse_in_header *in)
{
	static const struct fuse_open_out opened;
	static const struct fuse_statfs_out statfs_out;
	const void *arg = in + 1;

	switch (in->opcode) {
	case FUSE_INIT:
		serve_init(fuse, in->unique, arg);
		break;
	case FUSE_LOOKUP:
		serve_lookup(fuse, in->unique, arg);
		break;
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET:
		break;
	case FUSE_SETATTR:
		if (((const struct fuse_setattr_in *)arg)->valid & FATTR_SIZE)
			server->size = ((const struct fuse_setattr_in *)arg)->size;
		serve_getattr(fuse, in);
		break;
	case FUSE_GETATTR:
		serve_getattr(fuse, in);
		break;
	case FUSE_OPEN:
		server->opens++;
		send_reply(fuse, in->unique, 0, &opened, sizeof(opened));
		break;
	case FUSE_OPENDIR:
		send_reply(fuse, in->unique, 0, &opened, sizeof(opened));
		break;
	case FUSE_RELEASE:
		server->releases++;
		send_reply(fuse, in->unique, 0, NULL, 0);
		break;
	case FUSE_READ:
		serve_read(fuse, in->unique, arg);
		break;
	case FUSE_WRITE:
		serve_write(fuse, in->unique, arg);
		break;
	case FUSE_UNLINK:
		server->removed = true;
		send_reply(fuse, in->unique, 0, NULL, 0);
		break;
	case FUSE_STATFS:
		send_reply(fuse, in->unique, 0, &statfs_out, sizeof(statfs_out));
		break;
	case FUSE_FLUSH:
	case FUSE_FSYNC:
	case FUSE_RELEASEDIR:
		send_reply(fuse, in->unique, 0, NULL, 0);
		break;
	default:
		send_reply(fuse, in->unique, -ENOSYS, NULL, 0);
	}
}

static void serve_requests(void *arg)
{
	static char request[1 << 20] __attribute__((aligned(8)));
	int fuse = *(int *)arg;

	while (read(fuse, request, sizeof(request)) > 0 || errno == EINTR || errno == ENOENT)
		serve_request(fuse, (struct fuse_in_header *)request);
}

/* --- the mounts ---------------------------------------------------------------------- */

/* Returns the server. */
static pid_t mount_over_fuse(void)
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
		skip("this kernel has no FUSE: %s", strerror(errno));
	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other",
		 fuse);
	MUST(mount("server", source_dir, "fuse", 0, options));
	pid = start_child(serve_requests, &fuse);
	close(fuse);
	MUST(mount(source_dir, mount_point, "hugemap", 0, "pool=64M"));
	MUST(chdir(mount_point));
	return pid;
}

static void unmount_both(pid_t pid)
{
	MUST(chdir(work_dir));
	MUST(umount(mount_point));
	MUST(umount(source_dir));
	wait_child(pid);
}

BEHAVIOUR(file_without_links_is_usable)
{
	pid_t pid = mount_over_fuse();
	struct stat st;
	int fd = open_file("f", O_RDWR);

	MUST(fstat(fd, &st));
	EXPECT(!st.st_nlink, "st_nlink is %lu, expected 0 as from the server",
	       (unsigned long)st.st_nlink);
	read_pattern("read", fd, 1, 0, 3 * SMALL);
	write_pattern(fd, 2, SMALL, SMALL);
	close(fd);
	/* close() must write back: the server sets the times when it gets the data. */
	expect_pattern("data of the server after close()", server->data + SMALL, 2, SMALL, SMALL);
	/* An open unlinked file prevents remount,ro. This file was not unlinked. */
	fd = open_file("f", O_RDONLY);
	if (mount(NULL, mount_point, NULL, MS_REMOUNT | MS_RDONLY, NULL))
		FAIL("remount,ro: %s", strerror(errno));
	MUST(mount(NULL, mount_point, NULL, MS_REMOUNT, NULL));
	close(fd);
	unmount_both(pid);
}

/* The last close() must release the file at the server, not memory reclaim. */
BEHAVIOUR(unlinked_file_is_released_at_the_last_close)
{
	pid_t pid = mount_over_fuse();
	unsigned int tries;
	int fd = open_file("f", O_RDWR);

	write_pattern(fd, 2, 0, SMALL);
	MUST(unlink("f"));
	read_pattern("read of the unlinked file", fd, 2, 0, SMALL);
	MUST(fchmod(fd, 0600));
	close(fd);
	for (tries = 0; server->releases < server->opens && tries < 100; tries++)
		usleep(20000);
	EXPECT(server->opens && server->releases == server->opens,
	       "the server got %u opens and %u releases", server->opens, server->releases);
	unmount_both(pid);
}

RUN_BEHAVIOURS
