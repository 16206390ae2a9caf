// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * syscall(2) of the C library: calls of functions that this library replaces arrive there. Some
 * have no function of their own, such as seccomp(2).
 */
#include "preload.h"

#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "process.h"
#include "settings.h"
#include "steer.h"

/*
 * The user of the calling thread changes, and of no other thread. A monitor thread that this
 * thread starts would belong to that user, and processes of that user could send signals to it.
 */
static bool syscall_changes_user(long number)
{
	switch (number) {
	case SYS_setuid:
	case SYS_setgid:
	case SYS_setreuid:
	case SYS_setregid:
	case SYS_setresuid:
	case SYS_setresgid:
	case SYS_setgroups:
		return true;
	default:
		return false;
	}
}

/* The monitor thread takes no signals, and a library may wait until each thread has taken one. */
static void syscall_before_signal(long thread, long signal)
{
	if (!settings.on || !signal || !steer_is_monitor((pid_t)thread))
		return;
	steer_alone();
	steer_alone_end();
}

/*
 * A child of clone(2) returns from syscall() with another stack, and a child of vfork(2) with the
 * one of its parent. So these calls use no stack.
 */
#if defined(__x86_64__)
__asm__(".text\n\t"
	".globl syscall\n\t"
	".type syscall, @function\n"
	"syscall:\n\t"
	".cfi_startproc\n\t"
	"cmp $56, %rdi\n\t" /* clone */
	"je 1f\n\t"
	"cmp $58, %rdi\n\t" /* vfork */
	"je 1f\n\t"
	"cmp $435, %rdi\n\t" /* clone3 */
	"jne syscall_any\n"
	"1:\n\t"
	"mov %rdi, %rax\n\t"
	"mov %rsi, %rdi\n\t"
	"mov %rdx, %rsi\n\t"
	"mov %rcx, %rdx\n\t"
	"mov %r8, %r10\n\t"
	"mov %r9, %r8\n\t"
	"syscall\n\t"
	"cmp $-4095, %rax\n\t"
	"jae 2f\n\t"
	"ret\n"
	"2:\n\t"
	"mov %rax, %rdi\n\t"
	"jmp syscall_failed\n\t"
	".cfi_endproc\n\t"
	".size syscall, . - syscall");
#elif defined(__aarch64__)
__asm__(".text\n\t"
	".globl syscall\n\t"
	".type syscall, %function\n"
	"syscall:\n\t"
	".cfi_startproc\n\t"
	"cmp x0, #220\n\t" /* clone */
	"b.eq 1f\n\t"
	"cmp x0, #435\n\t" /* clone3 */
	"b.ne syscall_any\n"
	"1:\n\t"
	"mov x8, x0\n\t"
	"mov x0, x1\n\t"
	"mov x1, x2\n\t"
	"mov x2, x3\n\t"
	"mov x3, x4\n\t"
	"mov x4, x5\n\t"
	"svc 0\n\t"
	"cmn x0, #4095\n\t"
	"b.cs syscall_failed\n\t"
	"ret\n\t"
	".cfi_endproc\n\t"
	".size syscall, . - syscall");
#endif

/* Only the assembler code above refers to these two functions. */
__attribute__((used)) static long syscall_failed(long result)
{
	return preload_result(result);
}

__attribute__((used)) static long syscall_any(long number, long a, long b, long c, long d, long e,
					      long f)
{
	switch (number) {
	case SYS_mmap:
		return (long)mmap((void *)a, (size_t)b, (int)c, (int)d, (int)e, f);
	case SYS_munmap:
		return munmap((void *)a, (size_t)b);
	case SYS_mremap:
		return (long)mremap((void *)a, (size_t)b, (size_t)c, (int)d, (void *)e);
	case SYS_madvise:
		return madvise((void *)a, (size_t)b, (int)c);
	case SYS_execve:
		return execve((const char *)a, (char *const *)b, (char *const *)c);
	case SYS_execveat:
		return execveat((int)a, (const char *)b, (char *const *)c, (char *const *)d,
				(int)e);
	case SYS_unshare:
		return unshare((int)a);
	case SYS_setns:
		return setns((int)a, (int)b);
	case SYS_prctl:
		return prctl((int)a, b, c, d, e);
	case SYS_chroot:
		return chroot((const char *)a);
	case SYS_seccomp:
		if (a == SECCOMP_SET_MODE_FILTER || a == SECCOMP_SET_MODE_STRICT)
			process_begin_filter();
		break;
	case SYS_tkill:
		syscall_before_signal(a, b);
		break;
	case SYS_tgkill:
	case SYS_rt_tgsigqueueinfo:
		syscall_before_signal(b, c);
		break;
	default:
		if (settings.on && syscall_changes_user(number))
			steer_never();
		break;
	}
	return preload_result(call(number, a, b, c, d, e, f));
}
