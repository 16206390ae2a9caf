// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * --user-mode: the calls that read the program's memory. Those with one buffer look
 * whether it is the engine's; those with lists are made first, and looked at when
 * they fail, so that a list that is not there is the kernel's to complain about.
 */
#include "gather.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>

/* --- to descriptors --- */

static ssize_t call_write(const struct gather *gather, const struct iovec *iov, int n, size_t done)
{
	if (n == 1)
		return real->write(gather->fd, iov->iov_base, iov->iov_len);
	return real->writev(gather->fd, iov, n);
}

static ssize_t call_pwrite(const struct gather *gather, const struct iovec *iov, int n, size_t done)
{
	off_t offset = gather->offset + (off_t)done;

	if (n == 1)
		return real->pwrite(gather->fd, iov->iov_base, iov->iov_len, offset);
	return real->pwritev(gather->fd, iov, n, offset);
}

static ssize_t call_pwritev2(const struct gather *gather, const struct iovec *iov, int n,
			     size_t done)
{
	off_t offset = gather->offset == -1 ? -1 : gather->offset + (off_t)done;

	return real->pwritev2(gather->fd, iov, n, offset, gather->flags);
}

ssize_t user_write(int fd, const void *buffer, size_t count)
{
	const struct gather gather = { .call = call_write, .fd = fd };

	return gather_from(&gather, buffer, count);
}

ssize_t user_pwrite(int fd, const void *buffer, size_t count, off_t offset)
{
	const struct gather gather = { .call = call_pwrite, .fd = fd, .offset = offset };

	return gather_from(&gather, buffer, count);
}

ssize_t user_writev(int fd, const struct iovec *iov, int n)
{
	const struct gather gather = { .call = call_write, .fd = fd };

	return gather_rest(&gather, iov, n, real->writev(fd, iov, n));
}

ssize_t user_pwritev(int fd, const struct iovec *iov, int n, off_t offset)
{
	const struct gather gather = { .call = call_pwrite, .fd = fd, .offset = offset };

	return gather_rest(&gather, iov, n, real->pwritev(fd, iov, n, offset));
}

ssize_t user_pwritev2(int fd, const struct iovec *iov, int n, off_t offset, int flags)
{
	const struct gather gather = {
		.call = call_pwritev2,
		.fd = fd,
		.offset = offset,
		.flags = flags,
	};

	return gather_rest(&gather, iov, n, real->pwritev2(fd, iov, n, offset, flags));
}

/* --- to sockets --- */

/* What goes with a message goes with its first bytes. */
static ssize_t call_send(const struct gather *gather, const struct iovec *iov, int n, size_t done)
{
	struct msghdr message = *gather->message;

	message.msg_iov = (struct iovec *)iov;
	message.msg_iovlen = (size_t)n;
	if (done) {
		message.msg_control = NULL;
		message.msg_controllen = 0;
	}
	return real->sendmsg(gather->fd, &message, gather->flags);
}

SHIM_EXPORT ssize_t sendto(int fd, const void *buffer, size_t count, int flags,
			   const struct sockaddr *to, socklen_t length)
{
	const struct msghdr message = { .msg_name = (void *)to, .msg_namelen = length };
	const struct gather gather = {
		.call = call_send,
		.fd = fd,
		.flags = flags,
		.message = &message,
	};

	if (!gather_needed(buffer, count))
		return real->sendto(fd, buffer, count, flags, to, length);
	return gather_from(&gather, buffer, count);
}

SHIM_EXPORT ssize_t send(int fd, const void *buffer, size_t count, int flags)
{
	if (!gather_needed(buffer, count))
		return real->send(fd, buffer, count, flags);
	return sendto(fd, buffer, count, flags, NULL, 0);
}

/* The rest of a message, of which @result bytes are sent. */
static ssize_t send_rest(int fd, const struct msghdr *message, int flags, ssize_t result)
{
	const struct gather gather = {
		.call = call_send,
		.fd = fd,
		.flags = flags,
		.message = message,
	};

	if (result < 0 && (errno != EFAULT || !gather_there(message, sizeof(*message))))
		return result;
	if (message->msg_iovlen > IOV_MAX)
		return result;
	return gather_rest(&gather, message->msg_iov, (int)message->msg_iovlen, result);
}

ssize_t user_sendmsg(int fd, const struct msghdr *message, int flags)
{
	return send_rest(fd, message, flags, real->sendmsg(fd, message, flags));
}

static bool concerns(const struct mmsghdr *message)
{
	const struct iovec *iov;
	size_t n;

	if (!gather_there(message, sizeof(*message)))
		return false;
	iov = message->msg_hdr.msg_iov;
	n = message->msg_hdr.msg_iovlen;
	return n <= IOV_MAX && gather_there(iov, n * sizeof(*iov)) && gather_concerns(iov, (int)n);
}

/* Those that are sent are; the next one, which the kernel may have failed at, is tried. */
SHIM_EXPORT int sendmmsg(int fd, struct mmsghdr *messages, unsigned int n, int flags)
{
	int sent = real->sendmmsg(fd, messages, n, flags), err = errno;
	unsigned int at = sent < 0 ? 0 : (unsigned int)sent;
	ssize_t result;

	if (!gather_on() || (sent < 0 && err != EFAULT))
		return sent;
	if (n > IOV_MAX)
		n = IOV_MAX; /* the kernel looks at no more */
	if (at) { /* the last one may be sent in part */
		struct mmsghdr *last = &messages[at - 1];

		result = send_rest(fd, &last->msg_hdr, flags, (ssize_t)last->msg_len);
		last->msg_len = (unsigned int)result;
	}
	for (; at < n && concerns(&messages[at]); at++) {
		result = user_sendmsg(fd, &messages[at].msg_hdr, flags);
		err = errno;
		if (result < 0)
			break;
		messages[at].msg_len = (unsigned int)result;
	}
	errno = err;
	return at || sent >= 0 ? (int)at : -1;
}

/* --- to pipes, and to other processes --- */

static ssize_t call_vmsplice(const struct gather *gather, const struct iovec *iov, int n,
			     size_t done)
{
	return real->vmsplice(gather->fd, iov, (size_t)n, (unsigned int)gather->flags);
}

SHIM_EXPORT ssize_t vmsplice(int fd, const struct iovec *iov, size_t n, unsigned int flags)
{
	const struct gather gather = {
		.call = call_vmsplice,
		.fd = fd,
		.flags = (int)flags,
		.keeps = true,
	};
	ssize_t result = real->vmsplice(fd, iov, n, flags);

	/* From the reading end it stores, which these mappings do not allow. */
	if (!gather_on() || n > IOV_MAX || (real->fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY)
		return result;
	return gather_rest(&gather, iov, (int)n, result);
}

static ssize_t call_process(const struct gather *gather, const struct iovec *iov, int n,
			    size_t done)
{
	struct iovec rest[IOV_MAX];
	unsigned long i, k = 0;

	if (!done)
		return real->process_vm_writev(gather->pid, iov, (unsigned long)n, gather->remote,
					       gather->nremote, (unsigned long)gather->flags);
	for (i = 0; i < gather->nremote; i++) {
		size_t length = gather->remote[i].iov_len;

		if (done >= length) {
			done -= length;
			continue;
		}
		rest[k].iov_base = (char *)gather->remote[i].iov_base + done;
		rest[k++].iov_len = length - done;
		done = 0;
	}
	return real->process_vm_writev(gather->pid, iov, (unsigned long)n, rest, k,
				       (unsigned long)gather->flags);
}

SHIM_EXPORT ssize_t process_vm_writev(pid_t pid, const struct iovec *iov, unsigned long n,
				      const struct iovec *remote, unsigned long nremote,
				      unsigned long flags)
{
	const struct gather gather = {
		.call = call_process,
		.fd = -1,
		.flags = (int)flags,
		.remote = remote,
		.nremote = nremote,
		.pid = pid,
	};
	ssize_t result = real->process_vm_writev(pid, iov, n, remote, nremote, flags);

	if (!gather_on() || n > IOV_MAX || nremote > IOV_MAX)
		return result;
	return gather_rest(&gather, iov, (int)n, result);
}

/* --- system calls by number --- */

/* Those that syscall() does not lead to their functions anyway. */
bool gather_by_number(long number, const long a[6], long *result)
{
	switch (number) {
	case SYS_pwritev:
		*result = pwritev((int)a[0], (struct iovec *)a[1], (int)a[2], a[3]);
		return true;
	case SYS_pwritev2:
		*result = pwritev2((int)a[0], (struct iovec *)a[1], (int)a[2], a[3], (int)a[5]);
		return true;
	case SYS_sendto:
		*result = sendto((int)a[0], (void *)a[1], (size_t)a[2], (int)a[3],
				 (struct sockaddr *)a[4], (socklen_t)a[5]);
		return true;
	case SYS_sendmsg:
		*result = sendmsg((int)a[0], (struct msghdr *)a[1], (int)a[2]);
		return true;
	case SYS_sendmmsg:
		*result =
			sendmmsg((int)a[0], (struct mmsghdr *)a[1], (unsigned int)a[2], (int)a[3]);
		return true;
	case SYS_vmsplice:
		*result =
			vmsplice((int)a[0], (struct iovec *)a[1], (size_t)a[2], (unsigned int)a[3]);
		return true;
	case SYS_process_vm_writev:
		*result = process_vm_writev((pid_t)a[0], (struct iovec *)a[1], (unsigned long)a[2],
					    (struct iovec *)a[3], (unsigned long)a[4],
					    (unsigned long)a[5]);
		return true;
	default:
		return false;
	}
}
