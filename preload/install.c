// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * install() of the Python package: steering begins while the program runs, without LD_PRELOAD. The
 * objects of the process call this library's functions: see replace.h.
 *
 * A program calls dlsym(3) before it uses a library that it has loaded. So dlsym() is replaced as
 * well: it overwrites the pointers of new objects first.
 */
#include "preload.h"

#include <dlfcn.h>
#include <stdio.h>

#include "loader.h"
#include "next.h"
#include "replace.h"
#include "settings.h"
#include "steer.h"

#pragma weak dlsym

static char install_other[256];

/* Returns what dlsym() returns; NULL: the C library's must be called. */
__attribute__((used)) static void *install_look(void *handle, const char *name)
{
	const struct replace_function *function = handle == RTLD_NEXT ? NULL : replace_find(name);

	/* Calls of an object whose pointers stay would not be seen. */
	if (loader_has_changed() && loader_scan(replace_in, false))
		steer_never();
	if (!function || !function->real || dlsym(handle, name) != function->real)
		return NULL;
	return function->own;
}

/*
 * RTLD_NEXT refers to the object that the return address lies in, so the C library's dlsym() must
 * find the same return address.
 */
#if defined(__x86_64__)
__asm__(".text\n\t"
	".globl install_dlsym\n\t"
	".hidden install_dlsym\n\t"
	".type install_dlsym, @function\n"
	"install_dlsym:\n\t"
	".cfi_startproc\n\t"
	"push %rdi\n\t"
	".cfi_adjust_cfa_offset 8\n\t"
	"push %rsi\n\t"
	".cfi_adjust_cfa_offset 8\n\t"
	"sub $8, %rsp\n\t"
	".cfi_adjust_cfa_offset 8\n\t"
	"call install_look\n\t"
	"add $8, %rsp\n\t"
	".cfi_adjust_cfa_offset -8\n\t"
	"pop %rsi\n\t"
	".cfi_adjust_cfa_offset -8\n\t"
	"pop %rdi\n\t"
	".cfi_adjust_cfa_offset -8\n\t"
	"test %rax, %rax\n\t"
	"jz 1f\n\t"
	"ret\n"
	"1:\n\t"
	"jmp *dlsym@GOTPCREL(%rip)\n\t"
	".cfi_endproc\n\t"
	".size install_dlsym, . - install_dlsym");
#elif defined(__aarch64__)
__asm__(".text\n\t"
	".globl install_dlsym\n\t"
	".hidden install_dlsym\n\t"
	".type install_dlsym, %function\n"
	"install_dlsym:\n\t"
	".cfi_startproc\n\t"
	"stp x29, x30, [sp, -32]!\n\t"
	".cfi_def_cfa_offset 32\n\t"
	".cfi_offset 29, -32\n\t"
	".cfi_offset 30, -24\n\t"
	"stp x0, x1, [sp, 16]\n\t"
	"bl install_look\n\t"
	"mov x16, x0\n\t"
	"ldp x0, x1, [sp, 16]\n\t"
	"ldp x29, x30, [sp], 32\n\t"
	".cfi_restore 30\n\t"
	".cfi_restore 29\n\t"
	".cfi_def_cfa_offset 0\n\t"
	"cbz x16, 1f\n\t"
	"mov x0, x16\n\t"
	"ret\n"
	"1:\n\t"
	"adrp x16, :got:dlsym\n\t"
	"ldr x16, [x16, :got_lo12:dlsym]\n\t"
	"br x16\n\t"
	".cfi_endproc\n\t"
	".size install_dlsym, . - install_dlsym");
#endif

/* --- the calls of the Python package --- */

static int install_check(struct dl_phdr_info *info, size_t size, void *arg)
{
	static bool found_before;
	const char *function;
	int found = replace_check(info, &function);

	if (found == REPLACE_OTHER)
		snprintf(install_other, sizeof(install_other), "%s: %s()",
			 *info->dlpi_name ? info->dlpi_name : "the program", function);
	/* settings_read() has counted `hugemap run` as a user. */
	if (found == REPLACE_LIBC && !found_before) {
		__atomic_store_n(&settings.users, 0, __ATOMIC_RELEASE);
		found_before = true;
	}
	return found;
}

/*
 * Have the objects of this process call this library's functions. @other: set to the library and
 * the function if another library replaces one. Returns 0 or -errno. New mappings are steered after
 * hugemap_run_count().
 */
PRELOAD_EXPORT int hugemap_run_install(const char **other);

int hugemap_run_install(const char **other)
{
	int err;

	if (!next_is_glibc() || !dlsym)
		return -ENOSYS;
	if (!settings.on)
		return 0;
	*other = install_other;
	switch (loader_each(install_check, NULL)) {
	case REPLACE_LIBC:
		err = loader_scan(replace_in, true);
		return err ? err : loader_scan(replace_in, true);
	case REPLACE_OTHER:
		return -EBUSY;
	default:
		return -ENOSYS;
	}
}

/*
 * Add to the number of callers that have new mappings steered. Returns the length of the shortest
 * mapping that is steered.
 */
PRELOAD_EXPORT uint64_t hugemap_run_count(int more);

uint64_t hugemap_run_count(int more)
{
	__atomic_add_fetch(&settings.users, more, __ATOMIC_SEQ_CST);
	return settings.on ? settings.least : UINT64_MAX;
}

/* Report a mapping of a file that was made before hugemap_run_install(). */
PRELOAD_EXPORT void hugemap_run_mapped(const char *path, void *addr, size_t length, int prot,
				       int flags, off_t offset);

void hugemap_run_mapped(const char *path, void *addr, size_t length, int prot, int flags,
			off_t offset)
{
	if (settings.on && length >= settings.least && settings_select_path(path))
		steer_adopt(addr, length, prot, flags, offset);
}

/* Its mapping ended before it was reported, so no call has reported the end. */
PRELOAD_EXPORT void hugemap_run_unmapped(void *addr, size_t length);

void hugemap_run_unmapped(void *addr, size_t length)
{
	if (settings.on)
		steer_unmapping(addr, length);
}
