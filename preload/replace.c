// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "replace.h"

#include <dlfcn.h>
#include <elf.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

#include "call.h"
#include "next.h"
#include "object.h"
#include "types.h"

#if defined(__x86_64__)
#define REPLACE_JUMP R_X86_64_JUMP_SLOT
#define REPLACE_DATA R_X86_64_GLOB_DAT
#define REPLACE_ABSOLUTE R_X86_64_64
#elif defined(__aarch64__)
#define REPLACE_JUMP R_AARCH64_JUMP_SLOT
#define REPLACE_DATA R_AARCH64_GLOB_DAT
#define REPLACE_ABSOLUTE R_AARCH64_ABS64
#endif

#pragma weak dlsym

/*
 * The functions of preload.map, except those that concern LD_PRELOAD only, and dlsym(). libhugemap
 * has weak pointers to the two with a prefix. They are NULL without this library.
 */
#define REPLACE_NAMES 23
static const char replace_names[REPLACE_NAMES][20] = {
	"dlsym",
	"hugemap_run_page",
	"hugemap_run_version",
	"initgroups",
	"madvise",
	"mmap",
	"mmap64",
	"mremap",
	"munmap",
	"posix_madvise",
	"prctl",
	"setegid",
	"seteuid",
	"setgid",
	"setgroups",
	"setns",
	"setregid",
	"setresgid",
	"setresuid",
	"setreuid",
	"setuid",
	"syscall",
	"unshare",
};

static struct replace_function replace_functions[REPLACE_NAMES];

struct replace_object {
	struct link_map map; /* only l_addr and l_ld are set */
	const struct dl_phdr_info *info;
	bool unlocked; /* its RELRO segment is writable */
	const ElfW(Sym) * symbol; /* of the last relocation: linkers sort them by symbol */
	const struct replace_function *function; /* that replaces @symbol, or NULL */
	int error;
};

const struct replace_function *replace_find(const char *name)
{
	size_t i;

	/* Names in C++ begin with '_'. */
	for (i = 0; *name >= 'd' && i < REPLACE_NAMES; i++)
		if (*name == *replace_names[i] && !strcmp(name, replace_names[i]))
			return &replace_functions[i];
	return NULL;
}

/* Returns false without a dynamic section. */
static bool replace_open(struct replace_object *object, const struct dl_phdr_info *info)
{
	int i;

	*object = (struct replace_object){ .map.l_addr = info->dlpi_addr, .info = info };
	for (i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
			object->map.l_ld = (void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
	return object->map.l_ld;
}

/* Returns the segment of a type that has an address, or NULL. */
static const ElfW(Phdr) *
	replace_segment(const struct replace_object *object, ElfW(Word) type, uintptr_t at)
{
	const ElfW(Phdr) *segment = object->info->dlpi_phdr;
	int i;

	at -= object->map.l_addr;
	for (i = 0; i < object->info->dlpi_phnum; i++, segment++)
		if (segment->p_type == type && at - segment->p_vaddr < segment->p_memsz)
			return segment;
	return NULL;
}

/* As the dynamic linker does, round both ends of the RELRO segment down. */
static bool replace_protect(struct replace_object *object, const ElfW(Phdr) * relro, int prot)
{
	uintptr_t from = object->map.l_addr + relro->p_vaddr, to = from + relro->p_memsz;
	long result;

	from -= from % PAGE_BYTES;
	to -= to % PAGE_BYTES;
	result = from < to ? call(SYS_mprotect, (long)from, (long)(to - from), prot, 0, 0, 0) : 0;
	if (result)
		object->error = (int)result;
	return !result;
}

/* Returns whether the pointer can be written. */
static bool replace_unlock(struct replace_object *object, uintptr_t slot)
{
	const ElfW(Phdr) *load = replace_segment(object, PT_LOAD, slot);
	const ElfW(Phdr) *relro = replace_segment(object, PT_GNU_RELRO, slot);

	if (!load || !(load->p_flags & PF_W))
		return false;
	if (relro && !object->unlocked)
		object->unlocked = replace_protect(object, relro, PROT_READ | PROT_WRITE);
	return !relro || object->unlocked;
}

static void replace_lock(struct replace_object *object)
{
	const ElfW(Phdr) *segment = object->info->dlpi_phdr;
	int i;

	for (i = 0; object->unlocked && i < object->info->dlpi_phnum; i++)
		if (segment[i].p_type == PT_GNU_RELRO)
			replace_protect(object, &segment[i], PROT_READ);
}

/*
 * A pointer that no call has used yet may lead to the object's own code, which has the dynamic
 * linker set it at the first call. Another thread may be in that first call: it overwrites the
 * pointer after this function did. hugemap_run_install() therefore visits all objects twice.
 */
static void replace_slot(struct replace_object *object, const ElfW(Rela) * relocation)
{
	uintptr_t slot = object->map.l_addr + relocation->r_offset;
	const struct replace_function *function = object->function;
	void *value;

	value = __atomic_load_n((void **)slot, __ATOMIC_RELAXED);
	if (value != function->real && !(ELF64_R_TYPE(relocation->r_info) == REPLACE_JUMP &&
					 replace_segment(object, PT_LOAD, (uintptr_t)value)))
		return;
	if (replace_unlock(object, slot))
		__atomic_compare_exchange_n((void **)slot, &value, function->own, false,
					    __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

static void replace_set_symbol(struct replace_object *object, const ElfW(Sym) * symbol,
			       const char *names)
{
	if (symbol == object->symbol)
		return;
	object->symbol = symbol;
	object->function = symbol->st_shndx == SHN_UNDEF ? replace_find(names + symbol->st_name) :
							   NULL;
}

static void replace_table(struct replace_object *object, ElfW(Sxword) tag, ElfW(Sxword) size)
{
	const ElfW(Rela) *at = object_table(&object->map, tag), *end;
	const ElfW(Sym) *symbols = object_table(&object->map, DT_SYMTAB);
	const char *names = object_table(&object->map, DT_STRTAB);

	end = at + object_value(&object->map, size) / sizeof(*at);
	for (; at && at < end; at++)
		switch (ELF64_R_TYPE(at->r_info)) {
		case REPLACE_JUMP:
		case REPLACE_DATA:
		case REPLACE_ABSOLUTE:
			replace_set_symbol(object, &symbols[ELF64_R_SYM(at->r_info)], names);
			if (object->function)
				replace_slot(object, at);
		}
}

static bool replace_has_name(const struct replace_object *object, const char *name)
{
	const char *names = object_table(&object->map, DT_STRTAB);
	size_t at = object_value(&object->map, DT_SONAME);

	return names && at && !strncmp(names + at, name, strlen(name));
}

static bool replace_is_libc(const struct replace_object *object)
{
	return replace_has_name(object, "libc.so.") || replace_has_name(object, "ld-linux") ||
	       replace_has_name(object, "libpthread.so.") || replace_has_name(object, "libdl.so.");
}

int replace_in(const struct dl_phdr_info *info)
{
	struct replace_object object;

	if (!replace_open(&object, info) || object.map.l_ld == _DYNAMIC || replace_is_libc(&object))
		return 0;
	replace_table(&object, DT_RELA, DT_RELASZ);
	if (object_value(&object.map, DT_PLTREL) == DT_RELA)
		replace_table(&object, DT_JMPREL, DT_PLTRELSZ);
	replace_lock(&object);
	return object.error;
}

static void replace_look_up(const struct link_map *libc)
{
	size_t i;

	if (replace_functions[0].real)
		return;
	next_use(libc);
	for (i = 1; i < REPLACE_NAMES; i++)
		replace_functions[i] = (struct replace_function){
			.real = object_find(libc, replace_names[i]),
			.own = object_find(next_self(), replace_names[i]),
		};
	replace_functions[0] = (struct replace_function){ (void *)dlsym, (void *)install_dlsym };
}

enum replace_check replace_check(const struct dl_phdr_info *info, const char **function)
{
	struct replace_object object;
	size_t i;

	if (!replace_open(&object, info))
		return REPLACE_NOTHING;
	if (replace_has_name(&object, "libc.so.")) {
		replace_look_up(&object.map);
		return REPLACE_LIBC;
	}
	for (i = 0; i < REPLACE_NAMES; i++) {
		*function = replace_names[i];
		if (object_find(&object.map, *function) && !replace_is_libc(&object))
			return REPLACE_OTHER;
	}
	return REPLACE_NOTHING;
}
