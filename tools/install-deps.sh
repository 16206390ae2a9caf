#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR MIT
#
# Install what building and testing needs, from Debian's packages. As root it
# asks nothing; as another user it prints the one line that root has to type,
# and fails.
#
#	tools/install-deps.sh build	what `make build` and `make demo` need
#	tools/install-deps.sh test	that, and what `make test` needs
#	tools/install-deps.sh python	what `pip install ./python` needs, and its tests
#	tools/install-deps.sh programs	the programs that `make programs` runs
#	tools/install-deps.sh vm	what virtual machines need, with all kernels
set -eu

build="gcc meson ninja-build pkg-config liburing-dev libxxhash-dev libjansson-dev
	libncurses-dev python3-matplotlib"
python="python3-dev python3-pip python3-mesonpy python3-numpy python3-pytest"
tests="libcmocka-dev linux-headers-cloud-amd64 make patch mandoc e2fsprogs util-linux
	clang-format-14 sparse python3 dkms fio $python"

guest="gcc make kmod qemu-system-x86 busybox-static e2fsprogs xfsprogs dmsetup"

programs="fio sqlite3 rocksdb-tools stress-ng ripgrep grep default-jdk-headless
	python3-lmdb python3-numpy cargo"

case "${1:-build}" in
build) want=$build ;;
test) want="$build $tests $guest" ;;
python) want="gcc pkg-config liburing-dev libxxhash-dev $python" ;;
programs) want=$programs ;;
vm) want="$guest sparse mmdebstrap flex bison bc xz-utils libelf-dev" ;;
*)
	echo "usage: $0 build|test|python|programs|vm" >&2
	exit 2
	;;
esac

missing=
for package in $want; do
	state=$(dpkg-query -W -f='${db:Status-Abbrev}' "$package" 2>/dev/null || true)
	case "$state" in
	ii*) ;;
	*) missing="$missing $package" ;;
	esac
done
[ -z "$missing" ] && exit 0

if [ "$(id -u)" -ne 0 ]; then
	echo "Some packages are missing. As root, type:" >&2
	echo "    apt-get install$missing" >&2
	exit 1
fi

install() {
	# shellcheck disable=SC2086 # a list of words
	DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $missing
}

echo "Installing:$missing"
log=$(mktemp)
if ! install >"$log" 2>&1; then
	# An old package list, or a moment without the network: once more.
	sleep 2
	if ! { apt-get update -q && install; } >"$log" 2>&1; then
		cat "$log" >&2
		rm -f "$log"
		exit 1
	fi
fi
rm -f "$log"
