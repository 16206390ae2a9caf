// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "fast.h"
#include "guard.h"
#include "module.h"
#include "system.h"
#include "undo.h"

#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

static void fast_error(char *why, size_t size, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(why, size, format, args);
	va_end(args);
}

bool fast_apart(char *why, size_t size)
{
	if (geteuid()) {
		fast_error(why, size, "only root can make a zram device");
		return false;
	}
	if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
		fast_error(why, size, "no mounts of its own: %s", strerror(errno));
		return false;
	}
	return true;
}

static int fast_make_file_system(char *device, char *error, size_t size)
{
	/* The two "lazy" settings finish the file system now, before the clock runs. */
	char *const argv[] = {
		"mkfs.ext4", "-q",	  "-F",
		"-T",	     "largefile", "-m",
		"0",	     "-E",	  "nodiscard,lazy_itable_init=0,lazy_journal_init=0",
		device,	     NULL,
	};

	return spawn_wait(argv, error, size);
}

/* Add a zram device. Returns its number; or -1, with the reason in @why. */
static int fast_add_zram(char *why, size_t size)
{
	char line[16];

	if (access(ZRAM_CONTROL "hot_add", F_OK) &&
	    !module_load("zram", "num_devices=0", why, size))
		guard_module("zram");
	if (!read_line(ZRAM_CONTROL "hot_add", line, sizeof(line))) {
		fast_error(why, size,
			   "this kernel has no zram (CONFIG_ZRAM), or does not let us have it: "
			   "%s",
			   strerror(errno));
		return -1;
	}
	return atoi(line);
}

const char *fast_create(uint64_t bytes, char *why, size_t size)
{
	static char dir[32];
	char text[32], device[32], error[128];
	int zram, status;

	zram = fast_add_zram(why, size);
	if (zram < 0)
		return NULL;
	guard_fast(zram, "");
	/* The data is random, so it cannot be compressed. lz4 detects that fastest. */
	zram_write(zram, "comp_algorithm", "lz4");
	snprintf(text, sizeof(text), "%llu", (unsigned long long)bytes);
	snprintf(device, sizeof(device), "/dev/zram%d", zram);
	if (!zram_write(zram, "disksize", text)) {
		fast_error(why, size, "%s could not have %s bytes: %s", device, text,
			   strerror(errno));
		return NULL;
	}
	status = fast_make_file_system(device, error, sizeof(error));
	if (status) {
		fast_error(why, size, "mkfs.ext4 %s: %s", device,
			   status == 127 ? "it is not installed: type `apt-get install e2fsprogs`" :
					   error);
		return NULL;
	}
	snprintf(dir, sizeof(dir), "/tmp/hugemap-bench-XXXXXX");
	if (!mkdtemp(dir)) {
		fast_error(why, size, "no directory in /tmp: %s", strerror(errno));
		return NULL;
	}
	guard_fast(zram, dir);
	if (mount(device, dir, "ext4", 0, NULL) < 0) {
		fast_error(why, size, "%s could not be mounted: %s", device, strerror(errno));
		return NULL;
	}
	return dir;
}
