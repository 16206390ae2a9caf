#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR MIT
#
# Install the Debian packages that building and testing need. As root it installs them
# without questions. As another user it prints the command for root, and fails.
#
#	tools/install-deps.sh build	for `make build`: the command and the library
#	tools/install-deps.sh unit	also for building the tests: `make sim`
#	tools/install-deps.sh test	for `make test`
#	tools/install-deps.sh python	for `pip install ./python`
#	tools/install-deps.sh programs	for `make programs`; packages of PyPI go into
#				~/.cache/hugemap/programs. If a program cannot be
#				installed, its rows are skipped
#	tools/install-deps.sh bench	for `hugemap bench ycsb` and `direct`
#	tools/install-deps.sh analytics	for bench/analytics.py; packages of PyPI as above
#	tools/install-deps.sh results	for `make results`: the two lists above
#	tools/install-deps.sh deb	for `make deb`, as root
#	tools/install-deps.sh vm	for virtual machines, with all kernels
#
#	HM_LOCK_WAIT=N	seconds to wait for another apt-get or dpkg; default 900
set -eu

build="gcc libc6-dev make meson ninja-build pkg-config libjansson-dev libncurses-dev"
unit="$build libcmocka-dev"
python="gcc libc6-dev pkg-config python3-dev python3-venv"
guest="gcc libc6-dev make kmod qemu-system-x86 busybox-static e2fsprogs xfsprogs dmsetup
	mmdebstrap"
tests="$unit $python $guest python3-pip python3-mesonpy python3-numpy python3-pytest python3-matplotlib
	python3-joblib linux-headers-cloud-$(dpkg --print-architecture) patch mandoc
	util-linux clang-format-19 sparse python3 dkms fio zsh fish libjemalloc-dev libmimalloc-dev mold
	musl-tools systemd rpm rpmlint makepkg fakeroot libarchive-tools shellcheck liblmdb-dev
	librocksdb-dev liburing-dev"
# For programs of 32 bits.
[ "$(dpkg --print-architecture)" != amd64 ] || tests="$tests gcc-multilib"
programs="gcc libc6-dev binutils fio sqlite3 rocksdb-tools stress-ng ripgrep grep git mold
	default-jdk-headless cargo redis-server postgresql openmpi-bin libopenmpi-dev
	python3-venv python3-dev python3-numpy python3-torch"
# Packages that Debian lacks: pip installs them into a directory of the user's cache.
all_packages="lmdb faiss-cpu duckdb polars pyarrow gguf usearch annoy safetensors mpi4py"
tables="duckdb polars pyarrow tpchgen-cli"
bench="$build liblmdb-dev librocksdb-dev liburing-dev python3-matplotlib"
analytics="python3-venv python3-numpy"
packages=

case "${1:-build}" in
build) want=$build ;;
unit) want=$unit ;;
test) want=$tests ;;
python) want=$python ;;
programs)
	want=$programs
	packages=$all_packages
	;;
bench) want=$bench ;;
analytics)
	want=$analytics
	packages=$tables
	;;
results)
	want="$bench $analytics"
	packages=$tables
	;;
deb) want="git mmdebstrap python3" ;;
vm) want="$guest sparse flex bison bc xz-utils libelf-dev" ;;
*)
	sed -n 's/^#\ttools/usage: tools/p' "$0" >&2
	exit 2
	;;
esac

# A package may be in several lists.
missing=
for package in $want; do
	case " $missing " in *" $package "*) continue ;; esac
	state=$(dpkg-query -W -f='${db:Status-Abbrev}' "$package" 2>/dev/null || true)
	case "$state" in
	ii*) ;;
	*) missing="$missing $package" ;;
	esac
done
missing=${missing# }

# The environment uses Debian's python3-numpy and python3-torch, since PyPI's torch brings
# large libraries for graphics processors. Debian 12's torch needs the NumPy of its build.
venv() {
	top=$HOME/.cache/hugemap/programs
	[ -x "$top/bin/python" ] || /usr/bin/python3 -m venv --system-site-packages "$top" || return 0
	words="import importlib.metadata as m, sys; [m.version(name) for name in sys.argv[1:]]"
	# shellcheck disable=SC2086 # a list of words
	"$top/bin/python" -c "$words" $packages 2>/dev/null && return 0
	case "$("$top/bin/python" -c 'import numpy; print(numpy.__version__)' 2>/dev/null)" in
	1.*) limits="numpy<2 pyarrow<22" ;;
	*) limits= ;;
	esac
	echo "Installing from PyPI into $top: $packages"
	# shellcheck disable=SC2086
	"$top/bin/pip" install -q $limits $packages && return 0
	for package in $packages; do
		# shellcheck disable=SC2086 # a list of words
		"$top/bin/pip" install -q $limits "$package" ||
			echo "PyPI's $package cannot be installed: its rows are skipped." >&2
	done
}

[ -n "$missing" ] || {
	[ -z "$packages" ] || venv
	exit 0
}

if [ "$(id -u)" -ne 0 ]; then
	echo "Some packages are missing. As root, type:" >&2
	echo "    apt-get install --no-install-recommends $missing" >&2
	exit 1
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
trap 'exit 1' HUP INT TERM

# A new machine may upgrade itself during the first command. apt-get waits for only one of its
# three locks, so call it again until all are free.
left=${HM_LOCK_WAIT:-900}
apt() {
	while :; do
		status=0
		LC_ALL=C DEBIAN_FRONTEND=noninteractive apt-get -y -q "$@" >"$log" 2>&1 || status=$?
		[ $status -ne 0 ] || return 0
		grep -qE '^E: Could not get lock|is another process using it' "$log" || return $status
		if [ "$left" -le 0 ]; then
			sed 's/^/    /' "$log" | tail -n 3 >&2
			echo "Another program still installs packages: try again when it is done." >&2
			exit 1
		fi
		holder=$(sed -n 's/.*held by process \([0-9]*\( ([^)]*)\)*\).*/ (process \1)/p' "$log" | head -n 1)
		if [ "${printed-none}" != "$holder" ]; then
			echo "Another program$holder installs packages: waiting for it, up to $left s."
			printed=$holder
		fi
		sleep 2
		left=$((left - 2))
	done
}

install() {
	# shellcheck disable=SC2086 # a list of words
	apt install --no-install-recommends $missing
}

# Print the packages that failed, and the remedy.
explain() {
	tail -n 15 "$log" | sed 's/^/    /' >&2
	for package in $missing; do
		if ! LC_ALL=C apt-get install -s -q --no-install-recommends "$package" >"$log" 2>&1; then
			why=$(sed -n 's/^E: //p' "$log" | head -n 1)
			echo "The package $package cannot be installed: ${why:-apt-get gives no reason}." >&2
			named=1
		fi
	done
	for package in $missing; do
		state=$(dpkg-query -W -f='${db:Status-Abbrev}' "$package" 2>/dev/null || true)
		case "$state" in
		ii*) ;;
		*) [ -n "${named:-}" ] || echo "The package $package is not installed." >&2 ;;
		esac
	done
	echo "Repair this (apt-get update; apt-get -f install), and repeat the command." >&2
}

echo "Installing: $missing"
# Try twice: the package list may be old, or the network may have failed for a moment.
install || { sleep 2 && apt update && install; } || {
	[ "${1:-build}" = programs ] || {
		explain
		exit 1
	}
	for package in $missing; do
		apt install --no-install-recommends "$package" ||
			echo "Debian's $package cannot be installed: its rows are skipped." >&2
	done
}
[ -z "$packages" ] || venv
