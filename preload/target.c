// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "target.h"

#include <elf.h>
#include <string.h>
#include <sys/stat.h>

#include "call.h"

#if defined(__x86_64__)
#define MACHINE EM_X86_64
#define LINKER "/ld-linux-x86-64.so.2"
#elif defined(__aarch64__)
#define MACHINE EM_AARCH64
#define LINKER "/ld-linux-aarch64.so.1"
#endif

#define SCRIPT_BYTES 256 /* the kernel reads no more of the line */
#define SCRIPT_DEPTH 5 /* the kernel follows as many scripts */
#define SEGMENTS_MAX 128u
#define ENTRIES_MAX 1024u /* of the dynamic section */
#define NEEDED_MAX 64u

/* Their libraries, or those of their interceptors, must come before all others. */
static const char *const target_sanitizers[] = {
	"libasan.so", "libhwasan.so", "libtsan.so", "liblsan.so", "libclang_rt.",
};

/* A file, and the bytes that were read last. Callers may have small stacks. */
struct target_file {
	long fd;
	uint64_t at;
	size_t count;
	char bytes[1024];
	Elf64_Ehdr header;
};

static bool target_get(struct target_file *file, uint64_t offset, void *to, size_t size)
{
	long count;

	if (offset < file->at || offset - file->at > file->count ||
	    file->count - (offset - file->at) < size) {
		count = call(SYS_pread64, file->fd, (long)file->bytes, sizeof(file->bytes),
			     (long)offset, 0, 0);
		file->at = offset;
		file->count = count < 0 ? 0 : (size_t)count;
		if (file->count < size)
			return false;
	}
	memcpy(to, file->bytes + (offset - file->at), size);
	return true;
}

static bool target_segment(struct target_file *file, unsigned int i, Elf64_Phdr *segment)
{
	return i < file->header.e_phnum && i < SEGMENTS_MAX &&
	       target_get(file, file->header.e_phoff + i * sizeof(*segment), segment,
			  sizeof(*segment));
}

static bool target_find_segment(struct target_file *file, uint32_t type, Elf64_Phdr *segment)
{
	unsigned int i;

	for (i = 0; target_segment(file, i, segment); i++)
		if (segment->p_type == type)
			return true;
	return false;
}

/* Converts an address of the program to an offset in its file. */
static uint64_t target_offset(struct target_file *file, uint64_t address)
{
	Elf64_Phdr segment;
	unsigned int i;

	for (i = 0; target_segment(file, i, &segment); i++)
		if (segment.p_type == PT_LOAD && address >= segment.p_vaddr &&
		    address - segment.p_vaddr < segment.p_filesz)
			return address - segment.p_vaddr + segment.p_offset;
	return UINT64_MAX;
}

static bool target_is_sanitizer(struct target_file *file, uint64_t name)
{
	char text[13];
	size_t i;

	if (!target_get(file, name, text, sizeof(text)))
		return false;
	for (i = 0; i < sizeof(target_sanitizers) / sizeof(target_sanitizers[0]); i++)
		if (!strncmp(text, target_sanitizers[i], strlen(target_sanitizers[i])))
			return true;
	return false;
}

static bool target_has_sanitizer(struct target_file *file)
{
	uint64_t needed[NEEDED_MAX], strings = UINT64_MAX;
	unsigned int i, count = 0;
	Elf64_Phdr dynamic;
	Elf64_Dyn entry;

	if (!target_find_segment(file, PT_DYNAMIC, &dynamic))
		return false;
	for (i = 0; i < ENTRIES_MAX; i++) {
		if (!target_get(file, dynamic.p_offset + i * sizeof(entry), &entry,
				sizeof(entry)) ||
		    entry.d_tag == DT_NULL)
			break;
		if (entry.d_tag == DT_NEEDED && count < NEEDED_MAX)
			needed[count++] = entry.d_un.d_val;
		if (entry.d_tag == DT_STRTAB)
			strings = entry.d_un.d_ptr;
	}
	strings = target_offset(file, strings);
	while (count-- > 0)
		if (target_is_sanitizer(file, strings + needed[count]))
			return true;
	return false;
}

static enum target target_check_elf(struct target_file *file)
{
	const Elf64_Ehdr *header = &file->header;
	char linker[sizeof(LINKER)];
	Elf64_Phdr interpreter;

	if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_machine != MACHINE)
		return TARGET_MACHINE;
	if (header->e_phentsize != sizeof(interpreter) ||
	    !target_find_segment(file, PT_INTERP, &interpreter))
		return TARGET_STATIC;
	if (interpreter.p_filesz < sizeof(linker) ||
	    !target_get(file, interpreter.p_offset + interpreter.p_filesz - sizeof(linker), linker,
			sizeof(linker)) ||
	    memcmp(linker, LINKER, sizeof(linker)))
		return TARGET_LIBC;
	return target_has_sanitizer(file) ? TARGET_SANITIZER : TARGET_LOADS;
}

/* Copies the path of a script's interpreter. Returns false if the file is no script. */
static bool target_interpreter(struct target_file *file, char path[SCRIPT_BYTES])
{
	char line[SCRIPT_BYTES] = "", *at = line + 2;
	size_t n = file->count < sizeof(line) ? file->count : sizeof(line) - 1;

	memcpy(line, file->bytes, n);
	if (line[0] != '#' || line[1] != '!')
		return false;
	while (*at == ' ' || *at == '\t')
		at++;
	for (n = 0; at[n] && !strchr(" \t\n", at[n]); n++)
		path[n] = at[n];
	path[n] = '\0';
	return true;
}

static bool target_is_secure(const struct stat *st)
{
	return (st->st_mode & S_ISUID && st->st_uid != call(SYS_getuid, 0, 0, 0, 0, 0, 0)) ||
	       (st->st_mode & S_ISGID && st->st_gid != call(SYS_getgid, 0, 0, 0, 0, 0, 0));
}

/* Returns true for a script: @path is its interpreter then. */
static bool target_look(int dir, char path[SCRIPT_BYTES], const char *name, enum target *target)
{
	struct target_file file = {};
	struct stat st;
	bool script;

	*target = TARGET_LOADS;
	/* Opening anything else than a regular file may have effects. */
	if (call(SYS_newfstatat, dir, (long)name, (long)&st, 0, 0, 0) || !S_ISREG(st.st_mode))
		return false;
	file.fd = call(SYS_openat, dir, (long)name, O_RDONLY | O_CLOEXEC, 0, 0, 0);
	if (file.fd < 0) {
		*target = TARGET_UNREADABLE;
		return false;
	}
	if (target_get(&file, 0, &file.header, sizeof(file.header)) &&
	    !memcmp(file.header.e_ident, ELFMAG, SELFMAG)) {
		*target = target_is_secure(&st) ? TARGET_SECURE : target_check_elf(&file);
		script = false;
	} else {
		script = target_interpreter(&file, path);
	}
	call(SYS_close, file.fd, 0, 0, 0, 0, 0);
	return script;
}

enum target target_check(int dir, const char *path)
{
	char interpreter[SCRIPT_BYTES];
	enum target target;
	int depth;

	for (depth = 0; depth < SCRIPT_DEPTH; depth++) {
		if (!target_look(dir, interpreter, path, &target))
			return target;
		path = interpreter;
		dir = AT_FDCWD;
	}
	return TARGET_LOADS;
}

static bool target_can_be_started(const char *path)
{
	struct stat st;

	return !call(SYS_newfstatat, AT_FDCWD, (long)path, (long)&st, 0, 0, 0) &&
	       S_ISREG(st.st_mode) && !call(SYS_faccessat, AT_FDCWD, (long)path, 1, 0, 0, 0);
}

const char *target_find(const char *name, const char *search, char path[PATH_MAX])
{
	size_t length = strlen(name), n;
	const char *end;

	if (!length)
		return NULL;
	if (strchr(name, '/'))
		return name;
	if (!search)
		search = "/bin:/usr/bin";
	for (;; search = end + 1) {
		end = strchr(search, ':');
		n = end ? (size_t)(end - search) : strlen(search);
		if (n + 1 + length < PATH_MAX) {
			memcpy(path, search, n);
			path[n] = '/';
			memcpy(path + n + !!n, name, length + 1);
			if (target_can_be_started(path))
				return path;
		}
		if (!end)
			return NULL;
	}
}

const char *target_reason(enum target target)
{
	static const char reasons[][64] = {
		[TARGET_STATIC] = "is linked statically: it is not steered",
		[TARGET_MACHINE] = "is for another machine, or for 32 bits: it is not steered",
		[TARGET_LIBC] = "uses another C library than glibc: it is not steered",
		[TARGET_SANITIZER] = "has a sanitizer's library first: it is not steered",
		[TARGET_SECURE] = "runs with another user's rights: it is not steered",
		[TARGET_UNREADABLE] = "cannot be read: it is not steered",
	};

	if ((size_t)target >= sizeof(reasons) / sizeof(reasons[0]) || !reasons[target][0])
		return NULL;
	return reasons[target];
}
