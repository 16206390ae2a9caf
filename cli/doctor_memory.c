// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* hugemap doctor: the kernel, page faults and memory. */
#include "doctor.h"
#include "cli.h"
#include "cache.h"
#include "linux.h"
#include "uffd.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#define HUGE_TRIED 8u
#define MAX_GROUPS 256

/* Who owns the device where packages of HugeMap are installed. */
#define PACKAGED_GROUP "hugemap"
#define PACKAGED_RULE "udev/rules.d/60-hugemap.rules"

void check_kernel(const struct patient *patient, struct finding *finding)
{
	struct utsname name;

	uname(&name);
	found(finding, GOOD, "Linux %s on %s%s", name.release, name.machine,
	      patient->container ? ", in a container" : "");
	finding->details = json_pack("{s:s, s:s, s:b}", "release", name.release, "machine",
				     name.machine, "container", patient->container);
}

/* --- userfaultfd --- */

static int open_by_device(void)
{
	int dev = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
	int fd;

	if (dev < 0)
		return -1;
	fd = ioctl(dev, USERFAULTFD_IOC_NEW, O_CLOEXEC | O_NONBLOCK);
	close(dev);
	return fd;
}

static int open_faults(const char **way)
{
	int fd = open_by_device();

	*way = "device";
	if (fd >= 0)
		return fd;
	*way = "syscall";
	fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	if (fd >= 0)
		return fd;
	*way = "user-mode-only";
	fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
	if (fd < 0)
		*way = "none";
	return fd;
}

/**
 * struct device - /dev/userfaultfd
 * @exists: and the rest is known
 * @mode: as chmod has it
 * @group: its members may use the device; "" = root's alone, or everybody's
 * @member: the user is one of them
 * @admitted: this process is one of them already
 */
struct device {
	bool exists;
	unsigned int mode;
	char group[64];
	bool member, admitted;
};

static bool has_group(const gid_t *groups, int n, gid_t wanted)
{
	while (n > 0)
		if (groups[--n] == wanted)
			return true;
	return false;
}

static struct device look_at_device(const struct passwd *user)
{
	gid_t groups[MAX_GROUPS];
	struct device device = {};
	const struct group *group;
	int n = MAX_GROUPS;
	struct stat st;

	if (stat("/dev/userfaultfd", &st))
		return device;
	device.exists = true;
	device.mode = st.st_mode & 07777;
	group = st.st_gid && (st.st_mode & 0066) == 0060 ? getgrgid(st.st_gid) : NULL;
	if (!group)
		return device;
	snprintf(device.group, sizeof(device.group), "%s", group->gr_name);
	device.admitted = getegid() == st.st_gid ||
			  has_group(groups, getgroups(MAX_GROUPS, groups), st.st_gid);
	device.member = user && getgrouplist(user->pw_name, user->pw_gid, groups, &n) >= 0 &&
			has_group(groups, n, st.st_gid);
	return device;
}

static json_t *describe_device(const struct device *device)
{
	char mode[8];

	if (!device->exists)
		return json_null();
	snprintf(mode, sizeof(mode), "%04o", device->mode);
	return json_string(mode);
}

static bool is_packaged(void)
{
	return !access("/usr/lib/" PACKAGED_RULE, F_OK) || !access("/etc/" PACKAGED_RULE, F_OK);
}

/* A group may use the device, or will when udev has read its rule: how to get in? */
static bool join_group(const struct patient *patient, struct finding *finding,
		       const struct device *device, const char *user)
{
	if (device->member) {
		/* No root is needed for that. */
		snprintf(finding->command, sizeof(finding->command), "newgrp %s", device->group);
		snprintf(finding->benefit, sizeof(finding->benefit),
			 "gives a shell the group that you are in since you logged in");
		return true;
	}
	if (device->group[0])
		remedy(patient, finding,
		       "lets your programs make pools, when you have logged in again",
		       "adduser %s %s", user, device->group);
	else if (is_packaged() && !access("/run/udev", F_OK))
		remedy(patient, finding,
		       "lets your programs make pools, when you have logged in again",
		       "sh -c 'udevadm control --reload && udevadm trigger "
		       "--name-match=userfaultfd && adduser %s " PACKAGED_GROUP "'",
		       user);
	else
		return false;
	return true;
}

/* How the engine could be allowed to serve faults. */
static void allow_faults(const struct patient *patient, struct finding *finding,
			 const struct device *device, const char *user)
{
	static const char benefit[] = "lets programs make pools";
	bool closed = device->exists && !patient->root;

	if (patient->container)
		remedy(patient, finding, "lets programs make pools in the container",
		       "docker run --device /dev/userfaultfd IMAGE");
	else if (closed &&
		 (device->admitted || (user && join_group(patient, finding, device, user))))
		return; /* who is admitted already is refused for another reason */
	else if (closed && !access("/run/udev", F_OK))
		remedy(patient, finding, benefit,
		       "sh -c 'echo KERNEL==\\\"userfaultfd\\\", MODE=\\\"0666\\\" "
		       ">/etc/udev/rules.d/90-userfaultfd.rules && udevadm control --reload && "
		       "udevadm trigger --name-match=userfaultfd'");
	else if (closed)
		remedy(patient, finding, benefit, "chmod 0666 /dev/userfaultfd");
	else
		remedy(patient, finding, benefit, "sysctl vm.unprivileged_userfaultfd=1");
}

static void say_why_not(struct finding *finding, const struct uffd_caps *caps,
			const struct device *device)
{
	char group[128] = "";

	if (device->group[0] && !device->admitted)
		snprintf(group, sizeof(group), "; the group %s may use /dev/userfaultfd",
			 device->group);
	found(finding, BAD, "%s%s", caps->why, group);
}

void check_userfaultfd(const struct patient *patient, struct finding *finding)
{
	struct uffdio_api api = { .api = UFFD_API };
	const struct passwd *user = getpwuid(geteuid());
	struct device device = look_at_device(user);
	struct uffd_caps caps;
	const char *way;
	char sysctl[16];
	int probe = open_faults(&way), fd;

	if (probe >= 0) {
		if (ioctl(probe, UFFDIO_API, &api) < 0)
			api.features = 0;
		close(probe);
	}
	finding->details = json_pack(
		"{s:s, s:o, s:s?, s:s?, s:b, s:b, s:b, s:b}", "via", way, "device_mode",
		describe_device(&device), "device_group", device.group[0] ? device.group : NULL,
		"unprivileged_userfaultfd",
		read_line("/proc/sys/vm/unprivileged_userfaultfd", sysctl, sizeof(sysctl)) ?
			sysctl :
			NULL,
		"move", (api.features & UFFD_FEATURE_MOVE) != 0, "poison",
		(api.features & UFFD_FEATURE_POISON) != 0, "write_protect",
		(api.features & UFFD_FEATURE_PAGEFAULT_FLAG_WP) != 0, "thread_id",
		(api.features & UFFD_FEATURE_THREAD_ID) != 0);

	fd = uffd_open(&caps);
	if (fd >= 0) {
		close(fd);
		found(finding, GOOD, "works, by %s; MOVE, POISON and write-protect are there",
		      caps.from_device ? "/dev/userfaultfd" : "the system call");
		return;
	}
	say_why_not(finding, &caps, &device);
	if (probe >= 0 && !(api.features & UFFD_FEATURE_MOVE))
		remedy(patient, finding, "brings a kernel that can move huge pages (Linux 6.8)",
		       "apt-get install -t bookworm-backports linux-image-amd64");
	else if (caps.err != -ENOSYS || patient->container)
		allow_faults(patient, finding, &device, user ? user->pw_name : NULL);
}

/* --- huge pages --- */

/* Of HUGE_TRIED huge pages, how many does the kernel hand out? */
static unsigned int try_huge_pages(void)
{
	size_t bytes = (size_t)HUGE_TRIED * HM_BLOCK_SIZE, got, i;
	char *at = mmap(NULL, bytes + HM_BLOCK_SIZE, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *aligned;

	if (at == MAP_FAILED)
		return 0;
	aligned = (char *)(((uintptr_t)at + HM_BLOCK_SIZE - 1) & ~(uintptr_t)(HM_BLOCK_SIZE - 1));
	madvise(aligned, bytes, MADV_HUGEPAGE);
	for (i = 0; i < bytes; i += HM_PAGE_SIZE)
		*(volatile char *)(aligned + i) = 1;
	got = smaps_bytes(aligned, bytes, "AnonHugePages:") >> HM_BLOCK_SHIFT;
	munmap(at, bytes + HM_BLOCK_SIZE);
	return (unsigned int)got;
}

void check_huge_pages(const struct patient *patient, struct finding *finding)
{
	char enabled[32] = "", defrag[32] = "";
	bool there = read_choice("/sys/kernel/mm/transparent_hugepage/enabled", enabled,
				 sizeof(enabled));
	unsigned int got = try_huge_pages();

	read_choice("/sys/kernel/mm/transparent_hugepage/defrag", defrag, sizeof(defrag));
	finding->details = json_pack("{s:s?, s:s?, s:i, s:i}", "enabled", there ? enabled : NULL,
				     "defrag", there ? defrag : NULL, "tried", HUGE_TRIED, "got",
				     got);
	if (!there) {
		found(finding, WEAK, "this kernel is built without transparent huge pages");
		return;
	}
	found(finding, got == HUGE_TRIED ? GOOD : WEAK,
	      "%u of %u tried 2 MB pages were had (enabled: %s, defrag: %s)", got, HUGE_TRIED,
	      enabled, defrag);
	if (got == HUGE_TRIED)
		return;
	if (!strcmp(enabled, "never"))
		remedy(patient, finding, "lets programs ask for 2 MB pages",
		       "sh -c 'echo madvise >/sys/kernel/mm/transparent_hugepage/enabled'");
	else if (!strcmp(defrag, "never"))
		remedy(patient, finding, "lets the kernel make room for 2 MB pages",
		       "sh -c 'echo madvise >/sys/kernel/mm/transparent_hugepage/defrag'");
	else
		remedy(patient, finding, "makes room for 2 MB pages in fragmented memory",
		       "sh -c 'echo 1 >/proc/sys/vm/compact_memory'");
}

/* --- memory --- */

#define LITTLE_MEMORY (256ull << 20)

void check_memory(const struct patient *patient, struct finding *finding)
{
	unsigned long long total = 0, machine = 0;
	uint64_t room = sys_memory_available();
	char text[3][CLI_TEXT];
	bool limited;

	read_field("/proc/meminfo", "MemTotal:", &total);
	read_field("/proc/meminfo", "MemAvailable:", &machine);
	total <<= 10;
	machine <<= 10;
	limited = room < machine - machine / 8; /* it also grows by itself a little */
	found(finding, room < LITTLE_MEMORY ? WEAK : GOOD,
	      "%s of %s are available%s; a pool takes a quarter of it by default, at most 4 GB",
	      cli_bytes(text[0], (double)room), cli_bytes(text[1], (double)total),
	      limited ? " within this control group" : "");
	finding->details = json_pack("{s:I, s:I, s:b}", "total_bytes", (json_int_t)total,
				     "available_bytes", (json_int_t)room, "group_limited", limited);
}
