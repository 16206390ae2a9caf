// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "fuse.h"

#include <linux/fuse.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/uio.h>

#define FUSE_OPCODES 64u
#define FUSE_ROOT 1u
#define FUSE_FILE 2u
#define FUSE_LONGEST_S 60u

static struct {
	unsigned int count[FUSE_OPCODES];
	bool hangs[FUSE_OPCODES];
} *fuse_shared;

static char fuse_mount_point[32];
static pid_t fuse_server;

unsigned int fuse_count(unsigned int opcode)
{
	return __atomic_load_n(&fuse_shared->count[opcode], __ATOMIC_SEQ_CST);
}

void fuse_hang(unsigned int opcode)
{
	__atomic_store_n(&fuse_shared->hangs[opcode], true, __ATOMIC_SEQ_CST);
}

static void fuse_reply(int dev, const struct fuse_in_header *in, int err, void *data, size_t size)
{
	struct fuse_out_header out = { .error = err, .unique = in->unique };
	struct iovec vec[] = { { &out, sizeof(out) }, { data, err ? 0 : size } };

	out.len = (uint32_t)(sizeof(out) + vec[1].iov_len);
	if (writev(dev, vec, 2) < 0 && errno != ENOENT)
		perror("fuse: writev");
}

static struct fuse_attr fuse_attr_of(uint64_t node)
{
	return (struct fuse_attr){
		.ino = node,
		.nlink = 1,
		.mode = node == FUSE_ROOT ? S_IFDIR | 0755 : S_IFREG | 0666,
		.size = node == FUSE_ROOT ? 0 : FUSE_FILE_SIZE,
		.blksize = 4096,
	};
}

static void fuse_answer(int dev, const struct fuse_in_header *in)
{
	static char zeros[MB];
	const void *argument = in + 1;
	/* As for a disk, the kernel does not wait for the reads of pages ahead. */
	struct fuse_init_out init = { .major = 7,
				      .minor = 31,
				      .flags = FUSE_ASYNC_READ,
				      .max_readahead = 131072,
				      .max_write = 131072,
				      .max_background = 10000,
				      .congestion_threshold = 10000 };
	struct fuse_entry_out entry = { .nodeid = FUSE_FILE, .attr = fuse_attr_of(FUSE_FILE) };
	struct fuse_attr_out attr = { .attr = fuse_attr_of(in->nodeid) };
	struct fuse_open_out open = { .fh = in->nodeid };
	struct fuse_write_out write = {};
	struct fuse_statfs_out statfs = { .st.bsize = 4096 };

	switch (in->opcode) {
	case FUSE_INIT:
		fuse_reply(dev, in, 0, &init, sizeof(init));
		break;
	case FUSE_LOOKUP:
		fuse_reply(dev, in, strcmp(argument, "file") ? -ENOENT : 0, &entry, sizeof(entry));
		break;
	case FUSE_GETATTR:
	case FUSE_SETATTR:
		fuse_reply(dev, in, 0, &attr, sizeof(attr));
		break;
	case FUSE_OPEN:
	case FUSE_OPENDIR:
		fuse_reply(dev, in, 0, &open, sizeof(open));
		break;
	case FUSE_READ:
		fuse_reply(dev, in, 0, zeros, ((struct fuse_read_in *)argument)->size);
		break;
	case FUSE_WRITE:
		write.size = ((struct fuse_write_in *)argument)->size;
		fuse_reply(dev, in, 0, &write, sizeof(write));
		break;
	case FUSE_STATFS:
		fuse_reply(dev, in, 0, &statfs, sizeof(statfs));
		break;
	case FUSE_FLUSH:
	case FUSE_RELEASE:
	case FUSE_RELEASEDIR:
		fuse_reply(dev, in, 0, NULL, 0);
		break;
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET:
	case FUSE_INTERRUPT:
		break;
	default:
		fuse_reply(dev, in, -ENOSYS, NULL, 0);
	}
}

static void fuse_serve(int dev)
{
	static char buffer[MB];
	struct fuse_in_header *in = (void *)buffer;
	ssize_t n;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* A process that waits for an answer cannot be killed. It goes on when the server ends. */
	alarm(FUSE_LONGEST_S);
	while ((n = read(dev, buffer, sizeof(buffer))) > 0 || errno == EINTR || errno == ENOENT) {
		if (n < (ssize_t)sizeof(*in))
			continue;
		if (in->opcode < FUSE_OPCODES) {
			__atomic_add_fetch(&fuse_shared->count[in->opcode], 1, __ATOMIC_SEQ_CST);
			if (__atomic_load_n(&fuse_shared->hangs[in->opcode], __ATOMIC_SEQ_CST))
				continue;
		}
		fuse_answer(dev, in);
	}
	_exit(0);
}

const char *fuse_begin(void)
{
	static char file[64];
	char options[100];
	int dev = open("/dev/fuse", O_RDWR | O_CLOEXEC);

	strcpy(fuse_mount_point, "/tmp/hugemap-fuse-XXXXXX");
	if (dev < 0 || unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    !mkdtemp(fuse_mount_point))
		return NULL;
	fuse_shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(fuse_shared != MAP_FAILED);
	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other",
		 dev);
	if (mount("hugemap-test", fuse_mount_point, "fuse", 0, options)) {
		rmdir(fuse_mount_point);
		return NULL;
	}
	fuse_server = fork();
	CHECK(fuse_server >= 0);
	if (!fuse_server)
		fuse_serve(dev);
	close(dev);
	snprintf(file, sizeof(file), "%s/file", fuse_mount_point);
	return file;
}

void fuse_end(void)
{
	CHECK(!umount2(fuse_mount_point, MNT_DETACH) && !rmdir(fuse_mount_point));
	CHECK(!kill(fuse_server, SIGKILL) && waitpid(fuse_server, NULL, 0) == fuse_server);
}
