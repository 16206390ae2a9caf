// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* hugemap doctor: try the system calls that steering uses. */
#include "call.h"
#include "doctor_check.h"
#include "look.h"
#include "uapi.h"

#include <fcntl.h>
#include <stdint.h>
#include <sys/uio.h>
#include <unistd.h>

static bool doctor_try_scan(void)
{
	static uint64_t buffer[LOOK_BYTES / 8];
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	struct looker looker = {};

	if (fd < 0)
		return false;
	looker_open(&looker, fd, buffer);
	close(fd);
	return looker.scan;
}

static bool doctor_try_process_madvise(void)
{
	static char nothing;
	struct iovec vec = { .iov_base = &nothing };
	int fd = (int)call(SYS_pidfd_open, getpid(), 0, 0, 0, 0, 0);
	bool works = fd >= 0 &&
		     call(SYS_process_madvise, fd, (long)&vec, 1, MADV_WILLNEED, 0, 0) >= 0;

	if (fd >= 0)
		close(fd);
	return works;
}

static bool doctor_try_populate(void)
{
	void *page = mmap(NULL, PAGE_BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	bool works = page != MAP_FAILED && madvise(page, PAGE_BYTES, MADV_POPULATE_READ) == 0;

	if (page != MAP_FAILED)
		munmap(page, PAGE_BYTES);
	return works;
}

void check_steering(const struct machine *machine, struct finding *finding)
{
	bool scan = doctor_try_scan(), madvise_other = doctor_try_process_madvise();
	bool populate = doctor_try_populate(), pagemap = !access("/proc/self/pagemap", R_OK);
	char missing[128] = "";

	finding->details = json_pack("{s:b, s:b, s:b, s:b}", "pagemap", pagemap, "pagemap_scan",
				     scan, "process_madvise", madvise_other, "populate_read",
				     populate);
	if (!pagemap) {
		doctor_result(
			finding, BAD,
			"/proc/self/pagemap cannot be read, so HugeMap cannot see which pages a "
			"program touches");
		return;
	}
	snprintf(missing, sizeof(missing), "%s%s%s", scan ? "" : ", PAGEMAP_SCAN (Linux 6.7)",
		 madvise_other ? "" : ", process_madvise (Linux 5.15 and CAP_SYS_NICE)",
		 populate ? "" : ", MADV_POPULATE_READ (Linux 5.14)");
	if (missing[0])
		doctor_result(finding, WEAK, "the page cache can be steered, but without %s",
			      missing + 2);
	else
		doctor_result(finding, GOOD,
			      "all calls that steer the page cache work: PAGEMAP_SCAN, "
			      "process_madvise, MADV_POPULATE_READ");
}
