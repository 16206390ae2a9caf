#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR MIT
#
# Print a root directory of Debian 13 (trixie) with its compiler and the newest kernels of
# trixie-backports: headers for building modules, and images for guests. The build tools of
# these kernels need a newer C library than that of Debian 12. The first call makes the
# directory (600 MB, a minute or two) from the Debian mirror of this machine's apt.
#
#	trixie-root.sh [--renew]
#
# Exits with 77 and a reason if the directory cannot be made.
set -eu

cache=${HM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/hugemap}
root=$cache/trixie

skip() {
	echo "skipped: $1" >&2
	exit 77
}

mkdir -p "$cache"
# One process makes the directory; others wait and use it.
exec 9>"$cache/trixie.lock"
flock 9

[ "${1:-}" != --renew ] || rm -rf --one-file-system "$root"
if [ -f "$root/kernel/releases" ]; then
	echo "$root"
	exit 0
fi

[ "$(id -u)" -eq 0 ] || skip "only root can make a trixie root"
command -v mmdebstrap >/dev/null || skip "no mmdebstrap (package mmdebstrap)"
mirror=$(apt-get indextargets --format '$(LABEL) $(REPO_URI)' 'Created-By: Packages' |
	sed -n 's/^Debian //p' | head -n 1)
[ -n "$mirror" ] || skip "apt knows no Debian mirror"

rm -rf --one-file-system "$root" "$root.new"
log=$cache/trixie.log
# Get the newest release of every series. Unpack images instead of installing them: their
# scripts would make initrds, which guests do not need.
cat >"$root.inside" <<'END'
set -e
mkdir -p /kernel /work
cd /kernel
releases=$(apt-cache pkgnames linux-headers-7 | sed -n 's/^linux-headers-\(.*-cloud-amd64\)$/\1/p' |
	sort -V | awk -F. '{ newest[$1 "." $2] = $0 } END { for (s in newest) print newest[s] }')
for release in $releases; do
	apt-get install -y -q --no-install-recommends "linux-headers-$release"
	apt-get download -q "linux-binary-unsigned-$release" "linux-modules-$release" \
		"linux-base-$release"
	for deb in linux-*.deb; do
		dpkg-deb -x "$deb" /kernel
	done
	rm -f linux-*.deb
done
mv usr/lib lib
rm -rf usr
mkdir boot
for release in $releases; do
	mv "lib/modules/$release/vmlinuz.unsigned" "boot/vmlinuz-$release"
	depmod -b /kernel "$release"
done
apt-get clean
echo "$releases" >releases
END
# A private mount name space hides the mounts of mmdebstrap from the machine.
if ! unshare --mount --propagation private mmdebstrap --quiet --variant=apt --include=gcc-14,make,libelf1t64,kmod \
	--customize-hook="copy-in $root.inside /tmp" \
	--customize-hook='chroot "$1" sh "/tmp/trixie.inside"' \
	--customize-hook='rm "$1/tmp/trixie.inside"' \
	trixie "$root.new" \
	"deb $mirror trixie main" "deb $mirror trixie-backports main" >"$log" 2>&1; then
	rm -rf --one-file-system "$root.new" "$root.inside"
	tail -n 5 "$log" >&2
	skip "the trixie root could not be made: see $log"
fi
rm -f "$root.inside"
rm -rf "$root.new/var/lib/apt/lists"
mv "$root.new" "$root"
echo "$root"
