#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR MIT
#
# Build a kernel with KASAN, lockdep and the checks of mm from Debian's kernel source and
# vm/debug.config, and print its build directory. The first call compiles the kernel: ten
# minutes on two idle cores. Later calls compile only for another configuration, or for a
# newer source with --renew.
#
#	debug-kernel.sh [--renew]
#
# Exits with 77 and a reason if the kernel cannot be built.
set -eu

series=6.12
here=$(cd "$(dirname "$0")" && pwd)
cache=${HM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/hugemap}

skip() {
	echo "skipped: $1" >&2
	exit 77
}

for program in gcc make flex bison bc xz; do
	command -v $program >/dev/null || skip "no $program (package $program)"
done
[ -f /usr/include/libelf.h ] || [ -f /usr/include/gelf.h ] ||
	skip "no header libelf.h (package libelf-dev)"

mkdir -p "$cache"
exec 9>"$cache/debug.lock"
flock 9

# Without --renew, use an existing build of this configuration.
hash=$(sha256sum <"$here/debug.config" | cut -c 1-8)
if [ "${1:-}" != --renew ]; then
	for build in "$cache/debug-$series"*-"$hash/build"; do
		if [ -f "$build/done" ]; then
			echo "$build"
			exit 0
		fi
	done
fi

version=$(apt-cache show "linux-source-$series" 2>/dev/null | sed -n 's/^Version: //p' | head -n 1)
[ -n "$version" ] || skip "apt knows no linux-source-$series"
top=$cache/debug-$version-$hash
rm -rf "$top"
mkdir -p "$top/source" "$top/build"
log=$top/log
fail() {
	cp "$log" "$cache/debug.log"
	rm -rf "$top"
	skip "$1: see $cache/debug.log"
}

(cd "$top" && apt-get download -q "linux-source-$series=$version" && dpkg-deb -x linux-source*.deb .) \
	>"$log" 2>&1 || fail "linux-source-$series cannot be downloaded"
tar -xf "$top"/usr/src/linux-source-*.tar.xz -C "$top/source" --strip-components=1
rm -rf "$top"/linux-source*.deb "$top/usr"

make_kernel() {
	make -C "$top/source" O="$top/build" "$@" >>"$log" 2>&1
}
make_kernel KCONFIG_ALLCONFIG="$here/debug.config" allnoconfig || fail "no configuration"
# Log options that are not set; most of them do not exist in this version.
grep '=y$' "$here/debug.config" | while read -r option; do
	grep -qx "$option" "$top/build/.config" || echo "not set: $option" >>"$log"
done
make_kernel -j"$(nproc)" bzImage modules || fail "the debug kernel does not compile"

# Keep only the files that modules need to build; the others take 2 GB.
release=$(cat "$top/build/include/config/kernel.release")
mkdir -p "$top/build/lib/modules/$release"
cp "$top/build/modules.builtin" "$top/build/lib/modules/$release/"
: >"$top/build/lib/modules/$release/modules.dep"
for dir in source build; do
	find "$top/$dir" \( -name '*.[oa]' -o -name '*.c' -o -name '*.cmd' -o -name 'vmlinux*' \) \
		! -path '*/scripts/*' ! -path '*/tools/*' -type f -delete
done
rm -rf "$top/source/Documentation" "$top/source/drivers/gpu" "$top/source/sound"
cp "$log" "$cache/debug.log"
: >"$top/build/done"
echo "$top/build"
