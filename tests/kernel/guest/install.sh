#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR MIT
#
# After `make module-install`, does modprobe find a module that is for the kernel? In
# a mount name space of its own, where /usr/src, /lib/modules and /var/lib/dkms are in
# memory: the machine stays as it is, however this ends.
#
#	install.sh dkms		by dkms, and what dkms itself says of it
#	install.sh plain	as where there is no dkms
#
# Exits with 77 (skipped) where that cannot be had.
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
		skip "no mount name space can be had here"
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
# Of an earlier install there is nothing.
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

install_module() {
	make -C "$top" --no-print-directory module-install "RELEASE=$1"
}

# Nothing is done by halves.
! install_module 1.2.3-none || failed "it says that it has installed for a kernel without headers"
! ls -d /usr/src/hugemap-* 2>/dev/null || failed "the source is there, but no module"

install_module "$release"

said=$(modprobe -S "$release" --show-depends fs-hugemap) || failed "modprobe finds no module"
echo "$said"
case "$way:$said" in
dkms:*"/lib/modules/$release/updates/dkms/hugemap.ko"*) ;;
plain:*"/lib/modules/$release/updates/hugemap.ko"*) ;;
*) failed "modprobe finds another one" ;;
esac
magic=$(modinfo -k "$release" -F vermagic hugemap)
[ "${magic%% *}" = "$release" ] || failed "the module is for kernel '$magic', expected $release"
version=$(modinfo -k "$release" -F version hugemap)
grep -Fq "version: '$version'," "$top/meson.build" || failed "it says that its version is '$version'"
if [ "$way" = dkms ]; then
	dkms status hugemap | grep "^hugemap/[0-9.]*, $release, .*: installed" ||
		failed "dkms has not installed it: $(dkms status)"
fi
