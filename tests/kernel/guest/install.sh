#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR MIT
#
# After `make module-install`, modprobe finds a module that was built for the kernel. The
# test runs in a mount name space with /usr/src, /lib/modules and /var/lib/dkms in memory,
# so it never changes the machine. The module has one source file there, with the module's own
# MODULE_*() lines. packages-trixie builds the whole module by dkms.
#
#	install.sh dkms		with dkms, whose status must list the module
#	install.sh plain	without dkms
#
# Exits with 77 (skipped) if something that it needs is missing.
set -eu

top=$(cd "$(dirname "$0")/../../.." && pwd)
way=$1

skip() {
	echo "skipped: $1"
	exit 77
}

failed() {
	echo "FAILED: $1"
	exit 1
}

if [ $# -eq 1 ]; then
	[ "$(id -u)" -eq 0 ] || skip "only root may mount and install modules"
	[ "$way" = plain ] || command -v dkms >/dev/null || skip "there is no dkms (package dkms)"
	for release in /lib/modules/*; do
		[ -f "$release/build/Makefile" ] && [ -f "$release/build/Module.symvers" ] && break
	done
	[ -f "$release/build/Makefile" ] ||
		skip "no kernel headers are installed (package linux-headers-cloud-amd64)"
	release=$(basename "$release")
	unshare --mount --propagation private true 2>/dev/null ||
		skip "this machine allows no mount name space"
	work=$(mktemp -d)
	trap 'rmdir "$work"' EXIT
	trap 'exit 1' HUP INT TERM
	unshare --mount --propagation private "$0" "$way" "$work" "$release"
	exit
fi

work=$2
release=$3
mount -t tmpfs scratch "$work"
mkdir "$work/src" "$work/modules" "$work/modules/$release" "$work/dkms"
for dir in /usr/src/*; do
	[ -d "$dir" ] || continue
	mkdir "$work/src/$(basename "$dir")"
	mount --bind "$dir" "$work/src/$(basename "$dir")"
done
# Leave out modules of an earlier install.
ln -s "$(readlink -f "/lib/modules/$release/build")" "$work/modules/$release/build"
for file in modules.order modules.builtin modules.builtin.modinfo; do
	[ ! -f "/lib/modules/$release/$file" ] ||
		cp "/lib/modules/$release/$file" "$work/modules/$release/"
done
mount --rbind "$work/src" /usr/src
mount --bind "$work/modules" /lib/modules
[ ! -d /var/lib/dkms ] || mount --bind "$work/dkms" /var/lib/dkms
if [ "$way" = plain ] && dkms=$(command -v dkms); then
	mount --bind /dev/null "$dkms"
fi

# A kernel/ with one probe and one file, for both ways of building.
mkdir -p "$work/kernel/cache" "$work/kernel/compat/probes"
cp "$top/kernel/Kbuild" "$top/kernel/dkms.conf" "$work/kernel/"
cp "$top/kernel/cache/meson.build" "$work/kernel/cache/"
cp "$top/kernel/compat/probe.sh" "$work/kernel/compat/"
cp "$top/kernel/compat/probes/vm_flags_set.c" "$work/kernel/compat/probes/"
{
	echo '#include <linux/fs.h>'
	echo '#include <linux/module.h>'
	echo '#include <hugemap_ioctl.h>'
	echo '#include "probed.h"'
	grep '^MODULE_' "$top/kernel/main.c"
} >"$work/kernel/main.c"
mount --bind "$work/kernel" "$top/kernel"

install_module() {
	make -C "$top" --no-print-directory module-install "RELEASE=$1"
}

# An install that fails must leave nothing behind.
! install_module 1.2.3-none || failed "module-install reports success for a kernel without headers"
! ls -d /usr/src/hugemap-* 2>/dev/null || failed "a failed module-install left the source in /usr/src"

install_module "$release"

found=$(modprobe -S "$release" --show-depends fs-hugemap) || failed "modprobe finds no module"
echo "$found"
case "$way:$found" in
dkms:*"/lib/modules/$release/updates/dkms/hugemap.ko"*) ;;
plain:*"/lib/modules/$release/updates/hugemap.ko"*) ;;
*) failed "modprobe finds another module" ;;
esac
magic=$(modinfo -k "$release" -F vermagic hugemap)
[ "${magic%% *}" = "$release" ] || failed "the module is for kernel '$magic', expected $release"
version=$(modinfo -k "$release" -F version hugemap)
grep -Fq "version: '$version'," "$top/meson.build" || failed "the version of the module is '$version', not that of meson.build"
if [ "$way" = dkms ]; then
	dkms status hugemap | grep "^hugemap/[0-9.]*, $release, .*: installed" ||
		failed "dkms status does not list the module: $(dkms status)"
fi
