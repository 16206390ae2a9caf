#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR MIT
#
# Install the source of the kernel module, and the module. With dkms the module is built again
# for each new kernel; without dkms it is built and installed for one kernel.
#
#	install-module.sh [RELEASE]	default: the running kernel
#
#	DESTDIR=DIR	only install the source, into DIR, for packages
set -eu

cd "$(dirname "$0")/.."
release=${1:-$(uname -r)}
version=$(sed -n "s/^ *version: '\(.*\)',$/\1/p" meson.build | head -n 1)
source=${DESTDIR:-}/usr/src/hugemap-$version

if [ -z "${DESTDIR:-}" ] && [ "$(id -u)" -ne 0 ]; then
	echo "Modules are installed by root: sudo make module-install" >&2
	exit 1
fi

kdir=/lib/modules/$release/build
if [ -z "${DESTDIR:-}" ] && [ ! -f "$kdir/Makefile" ]; then
	echo "There are no headers of kernel $release: install linux-headers-$release" >&2
	exit 1
fi

if [ -z "${DESTDIR:-}" ] && command -v dpkg-query >/dev/null && dpkg-query -S "$source" >/dev/null 2>&1; then
	echo "The package hugemap-dkms owns $source: apt-get remove hugemap-dkms first" >&2
	exit 1
fi

rm -rf "$source"
mkdir -p "$source"
cp -r kernel include "$source/"
mv "$source/kernel/Kbuild" "$source/"
rm "$source/kernel/dkms.conf" "$source/kernel/cache/meson.build"
cp -r LICENSES "$source/"
sed "s/#MODULE_VERSION#/$version/" kernel/dkms.conf >"$source/dkms.conf"
echo "source:  $source"
[ -z "${DESTDIR:-}" ] || exit 0

# "hugemap/1.2.3, 6.1.0-1-amd64, x86_64: installed", or "hugemap/1.2.3: added"
known() {
	dkms status hugemap 2>/dev/null | sed -n "s|^hugemap/$1\$|\\1|p" | sort -u
}

if command -v dkms >/dev/null; then
	# An installed version may have other sources, and a kernel can load only one version.
	# So remove it from every kernel, and install the new one for the same kernels.
	kernels=$(known '[^,]*, \([^,]*\),.*: installed.*')
	for old in $(known '\([^,:]*\)[,:].*'); do
		dkms remove "hugemap/$old" --all >/dev/null ||
			echo "dkms keeps hugemap $old: see above" >&2
	done
	# dkms does not list a version whose source is gone.
	dkms remove "hugemap/$version" --all >/dev/null 2>&1 || true
	dkms add "hugemap/$version" >/dev/null
	dkms install "hugemap/$version" -k "$release" --force
	for kernel in $kernels; do
		[ "$kernel" = "$release" ] || dkms install "hugemap/$version" -k "$kernel" --force ||
			echo "Kernel $kernel has no module now: see above" >&2
	done
	echo "module:  by dkms, for $release and every kernel that is installed later"
	exit 0
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
tools/build-module.sh "$kdir" "$work/module"
install -D -m 644 "$work/module/hugemap.ko" "/lib/modules/$release/updates/hugemap.ko"
depmod "$release"
echo "module:  /lib/modules/$release/updates/hugemap.ko"
echo "Repeat this for other kernels, or install dkms first."
