// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "target.h"

#include <elf.h>
#include <stddef.h>
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
#define NOTES_MAX 16u
#define SYMBOLS_MAX 1024u
#define TARGET_CHECKED 64u
#define NAME 15 /* so many bytes of a name are compared */

/* In each list an empty text follows the last one. */

/* Their libraries, or those of their interceptors, must come before all others. */
static const char target_sanitizers[][NAME] = {
	"libasan.so", "libhwasan.so", "libtsan.so", "liblsan.so", "libclang_rt.", "",
};

/* These libraries start no program, and do not map files for a program. */
static const char target_plain_libraries[][NAME] = {
	"libc.so.6",	"libm.so.6",	"ld-linux-",	 "libacl.so.1",
	"libattr.so.1", "libgmp.so.10", "libselinux.so", "",
};

/*
 * The beginnings of the functions that map a file or start a program, and of those that give a
 * program the address of a function or make any system call.
 */
static const char target_functions[][NAME] = {
	"mmap",	  "mremap", "__mmap",  "exec", "fexec",	    "posix_spawn", "pidfd_spawn",
	"system", "popen",  "wordexp", "dl",   "__libc_dl", "syscall",	   "",
};

#define WINDOW 1024u
#define WINDOWS 4u

/* A part of a file, from a multiple of its size on. */
struct target_window {
	uint64_t at;
	size_t count;
	char bytes[WINDOW];
};

/*
 * A program: its header, its dynamic section, and the windows that were read last. Callers may
 * have small stacks. @strings and @symbols are places in the file.
 */
struct target_program {
	long fd;
	struct target_window window[WINDOWS];
	unsigned int filled; /* number of windows that were filled; each replaces the oldest */
	bool failed; /* a read has failed */
	Elf64_Ehdr header;
	uint64_t strings;
	uint64_t symbols;
	uint64_t needed[NEEDED_MAX];
	unsigned int needed_count;
};

static bool target_has(const struct target_window *window, uint64_t offset, size_t size)
{
	return offset >= window->at && offset - window->at <= window->count &&
	       window->count - (offset - window->at) >= size;
}

static struct target_window *target_fill(struct target_program *program, uint64_t at)
{
	struct target_window *window = &program->window[program->filled++ % WINDOWS];
	long count = call(SYS_pread64, program->fd, (long)window->bytes, WINDOW, (long)at, 0, 0);

	window->at = at;
	window->count = count < 0 ? 0 : (size_t)count;
	program->failed |= count < 0;
	return window;
}

/* The part may begin in one window and end in the next one. */
static bool target_get(struct target_program *program, uint64_t offset, void *to, size_t size)
{
	struct target_window *window = NULL;
	size_t head = WINDOW - offset % WINDOW;
	unsigned int i;

	if (size > head)
		return target_get(program, offset, to, head) &&
		       target_get(program, offset + head, (char *)to + head, size - head);
	for (i = 0; i < WINDOWS && i < program->filled && !window; i++)
		if (target_has(&program->window[i], offset, size))
			window = &program->window[i];
	if (!window)
		window = target_fill(program, offset - offset % WINDOW);
	if (!target_has(window, offset, size))
		return false;
	memcpy(to, window->bytes + (offset - window->at), size);
	return true;
}

static bool target_segment(struct target_program *program, unsigned int i, Elf64_Phdr *segment)
{
	return i < program->header.e_phnum && i < SEGMENTS_MAX &&
	       target_get(program, program->header.e_phoff + i * sizeof(*segment), segment,
			  sizeof(*segment));
}

static bool target_find_segment(struct target_program *program, uint32_t type, Elf64_Phdr *segment)
{
	unsigned int i;

	for (i = 0; target_segment(program, i, segment); i++)
		if (segment->p_type == type)
			return true;
	return false;
}

/* Converts an address of the program to an offset in its file. */
static uint64_t target_offset(struct target_program *program, uint64_t address)
{
	Elf64_Phdr segment;
	unsigned int i;

	for (i = 0; target_segment(program, i, &segment); i++)
		if (segment.p_type == PT_LOAD && address >= segment.p_vaddr &&
		    address - segment.p_vaddr < segment.p_filesz)
			return address - segment.p_vaddr + segment.p_offset;
	return UINT64_MAX;
}

/* Returns whether a text of the list is the beginning of @text. */
static bool target_begins(const char *text, const char (*list)[NAME])
{
	const char *at;

	for (; **list; list++) {
		for (at = *list; *at && *at == text[at - *list]; at++)
			;
		if (!*at)
			return true;
	}
	return false;
}

static void target_read_dynamic(struct target_program *program)
{
	uint64_t strings = UINT64_MAX, symbols = UINT64_MAX;
	Elf64_Phdr dynamic;
	unsigned int i;
	Elf64_Dyn entry;

	program->needed_count = 0;
	program->strings = UINT64_MAX;
	if (!target_find_segment(program, PT_DYNAMIC, &dynamic))
		return;
	for (i = 0; i < ENTRIES_MAX; i++) {
		if (!target_get(program, dynamic.p_offset + i * sizeof(entry), &entry,
				sizeof(entry)) ||
		    entry.d_tag == DT_NULL)
			break;
		if (entry.d_tag == DT_NEEDED && program->needed_count < NEEDED_MAX)
			program->needed[program->needed_count++] = entry.d_un.d_val;
		if (entry.d_tag == DT_STRTAB)
			strings = entry.d_un.d_ptr;
		if (entry.d_tag == DT_SYMTAB)
			symbols = entry.d_un.d_ptr;
	}
	program->strings = target_offset(program, strings);
	program->symbols = target_offset(program, symbols);
}

/* The number of needed libraries that are in a list. */
static unsigned int target_count_needed(struct target_program *program, const char (*list)[NAME])
{
	unsigned int i, count = 0;
	char name[NAME];

	for (i = 0; i < program->needed_count; i++)
		count += target_get(program, program->strings + program->needed[i], name,
				    sizeof(name)) &&
			 target_begins(name, list);
	return count;
}

/*
 * Returns true if the program and its libraries can neither map a file nor start a program by a
 * function that this library replaces. The strings follow the symbols in the file. Other sections
 * may lie between them: their bytes are taken for symbols, which can only make the result false.
 */
static bool target_is_unaffected(struct target_program *program)
{
	uint64_t at = program->symbols;
	char name[NAME];
	Elf64_Sym symbol;

	if (at >= program->strings || program->strings == UINT64_MAX ||
	    program->strings - at > SYMBOLS_MAX * sizeof(symbol) ||
	    program->needed_count == NEEDED_MAX ||
	    target_count_needed(program, target_plain_libraries) != program->needed_count)
		return false;
	for (; program->strings - at >= sizeof(symbol); at += sizeof(symbol)) {
		if (!target_get(program, at, &symbol, offsetof(Elf64_Sym, st_value)))
			return false;
		if (symbol.st_shndx == SHN_UNDEF && symbol.st_name &&
		    (!target_get(program, program->strings + symbol.st_name, name, sizeof(name)) ||
		     target_begins(name, target_functions)))
			return false;
	}
	return true;
}

/* The linker of Go adds a note whose owner has this name. Notes have multiples of 4 bytes. */
static bool target_has_go_note(struct target_program *program, const Elf64_Phdr *segment)
{
	static const char owner[4] = "Go";
	struct {
		Elf64_Nhdr header;
		char owner[4];
	} note;
	uint64_t at = 0;
	unsigned int i;

	for (i = 0; i < NOTES_MAX && at + sizeof(note) <= segment->p_filesz; i++) {
		if (!target_get(program, segment->p_offset + at, &note, sizeof(note)))
			return false;
		if (note.header.n_namesz == sizeof(owner) &&
		    !memcmp(note.owner, owner, sizeof(owner)))
			return true;
		at += sizeof(note.header) + ((uint64_t)note.header.n_namesz + 3) / 4 * 4 +
		      ((uint64_t)note.header.n_descsz + 3) / 4 * 4;
	}
	return false;
}

static bool target_is_go(struct target_program *program)
{
	Elf64_Phdr segment;
	unsigned int i;

	for (i = 0; target_segment(program, i, &segment); i++)
		if (segment.p_type == PT_NOTE && target_has_go_note(program, &segment))
			return true;
	return false;
}

static enum target target_check_elf(struct target_program *program)
{
	const Elf64_Ehdr *header = &program->header;
	char linker[sizeof(LINKER)];
	Elf64_Phdr interpreter;

	if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_machine != MACHINE)
		return TARGET_MACHINE;
	if (header->e_phentsize != sizeof(interpreter) ||
	    !target_find_segment(program, PT_INTERP, &interpreter))
		return TARGET_STATIC;
	if (interpreter.p_filesz < sizeof(linker) ||
	    !target_get(program, interpreter.p_offset + interpreter.p_filesz - sizeof(linker),
			linker, sizeof(linker)) ||
	    memcmp(linker, LINKER, sizeof(linker)))
		return TARGET_LIBC;
	target_read_dynamic(program);
	if (target_count_needed(program, target_sanitizers))
		return TARGET_SANITIZER;
	if (target_is_go(program))
		return TARGET_GO;
	return target_is_unaffected(program) ? TARGET_UNAFFECTED : TARGET_LOADS;
}

/* Copies the path of a script's interpreter. Returns false if the file is no script. */
static bool target_interpreter(const struct target_window *first, char path[SCRIPT_BYTES])
{
	char line[SCRIPT_BYTES] = "", *at = line + 2;
	size_t n = first->count < sizeof(line) ? first->count : sizeof(line) - 1;

	memcpy(line, first->bytes, n);
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

/*
 * Programs that were checked lately: a key with a target in its low byte. A program that starts
 * others, such as make, starts few different ones. The time of change is a part of the key.
 */
static uint64_t target_checked[TARGET_CHECKED];

static uint64_t target_key(const struct stat *st)
{
	const uint64_t parts[] = { st->st_dev, st->st_ino, (uint64_t)st->st_size,
				   (uint64_t)st->st_ctim.tv_sec, (uint64_t)st->st_ctim.tv_nsec };
	uint64_t key = 0;
	unsigned int i;

	for (i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		key = (key ^ parts[i]) * 0x9e3779b97f4a7c15;
		key ^= key >> 32;
	}
	return key << 8;
}

/* Returns the place of a key in target_checked[]. */
static uint64_t *target_place(uint64_t key)
{
	return &target_checked[key / 256 % TARGET_CHECKED];
}

/*
 * A file may change without another key, if its file system has coarse or old times of change. So
 * keep only results of programs that do not load the library: at worst, a program is not steered.
 * The result for a program with a set-id bit depends on the user.
 */
static void target_keep(const struct target_program *program, const struct stat *st,
			enum target target)
{
	uint64_t key = target_key(st);

	if (!program->failed && !target_loads(target) && !(st->st_mode & (S_ISUID | S_ISGID)))
		__atomic_store_n(target_place(key), key | target, __ATOMIC_RELAXED);
}

/* Returns true for a script: @path is its interpreter then. */
static bool target_look(int dir, char path[SCRIPT_BYTES], const char *name, enum target *target)
{
	struct target_program program;
	struct stat st;
	uint64_t key, known;
	bool script = false;

	*target = TARGET_LOADS;
	/* Opening anything else than a regular file may have effects. */
	if (call(SYS_newfstatat, dir, (long)name, (long)&st, 0, 0, 0) || !S_ISREG(st.st_mode))
		return false;
	key = target_key(&st);
	known = __atomic_load_n(target_place(key), __ATOMIC_RELAXED);
	if (known && (known ^ key) < 256) {
		*target = (enum target)(known & 255);
		return false;
	}
	program.fd = call(SYS_openat, dir, (long)name, O_RDONLY | O_CLOEXEC, 0, 0, 0);
	if (program.fd < 0) {
		*target = TARGET_UNREADABLE;
		return false;
	}
	program.filled = 0;
	program.failed = false;
	/* The path may name another file now, so the properties come from the file that is read. */
	if (call(SYS_newfstatat, program.fd, (long)"", (long)&st, AT_EMPTY_PATH, 0, 0)) {
		*target = TARGET_UNREADABLE;
	} else if (target_get(&program, 0, &program.header, sizeof(program.header)) &&
		   !memcmp(program.header.e_ident, ELFMAG, SELFMAG)) {
		*target = target_is_secure(&st) ? TARGET_SECURE : target_check_elf(&program);
		target_keep(&program, &st, *target);
	} else {
		script = target_interpreter(&program.window[0], path);
	}
	call(SYS_close, program.fd, 0, 0, 0, 0, 0);
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
		[TARGET_GO] = "is written in Go: only mappings of its C code are steered",
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
