#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR MIT
#
# Build hugemap.ko for one kernel, in a copy outside the tree, with W=1, and with sparse if it
# is installed. A warning fails the build.
#
#	build-module.sh [--root ROOT] [--source DIR] [--race] KDIR OUTDIR
#
# KDIR is the kernel's build directory (/lib/modules/RELEASE/build). With --root it is a path
# inside the root directory ROOT, whose compiler builds the module; no mount survives the
# script. The script updates OUTDIR and compiles only changed files. The module is
# OUTDIR/hugemap.ko. With --race it can delay tasks at race points: kernel/race.h.
set -eu

usage() {
	echo "usage: $0 [--root ROOT] [--source DIR] [--race] KDIR OUTDIR" >&2
	exit 2
}

root=
race=
source=$(cd "$(dirname "$0")/.." && pwd)
while [ $# -gt 2 ]; do
	case "$1" in
	--root) root=$2 && shift ;;
	--source) source=$2 && shift ;;
	--race) race=1 ;;
	*) usage ;;
	esac
	shift
done
[ $# -eq 2 ] || usage
kdir=$1
mkdir -p "$2"
out=$(cd "$2" && pwd)

[ -f "$root$kdir/Makefile" ] || {
	echo "$0: no kernel build directory at $root$kdir" >&2
	exit 1
}

# An unchanged copy keeps its time, so that make compiles only changed files. Copies of deleted
# files are deleted too. Objects and generated files stay.
for dir in kernel include; do
	mkdir -p "$out/$dir"
	(cd "$source/$dir" && find . -name '*.[ch]' -o -name '*.def' -o -name '*.sh') | while read -r file; do
		mkdir -p "$out/$dir/$(dirname "$file")"
		cmp -s "$source/$dir/$file" "$out/$dir/$file" ||
			cp "$source/$dir/$file" "$out/$dir/$file"
	done
	(cd "$out/$dir" && find . -name '*.[ch]') | while read -r file; do
		case "$file" in
		./compat/probed.h | *.mod.c) continue ;;
		esac
		[ -f "$source/$dir/$file" ] || rm -f "$out/$dir/$file" "$out/$dir/${file%.c}.o"
	done
done
cmp -s "$source/kernel/Kbuild" "$out/Kbuild" || cp "$source/kernel/Kbuild" "$out/Kbuild"

log=$out/build.log
jobs=$(nproc)
build() {
	if [ -z "$root" ]; then
		check=
		if command -v sparse >/dev/null; then
			check="C=1 CHECK=sparse CF=-Wsparse-error"
		fi
		# shellcheck disable=SC2086 # $check is a list of words
		make -C "$kdir" M="$out" W=1 KCFLAGS=-Werror HUGEMAP_RACE_POINTS="$race" $check \
			-j"$jobs" modules
		return
	fi
	# No sparse: trixie's version lacks __typeof_unqual__, which the headers of 7.x use.
	# The mounts end with the mount name space, when its last process ends.
	# shellcheck disable=SC2016 # for the shell inside
	unshare --mount --propagation private sh -c '
		mount -t proc proc "$1/proc" && mount --bind "$2" "$1/work" &&
		exec chroot "$1" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin \
			make -C "$3" M=/work W=1 KCFLAGS=-Werror HUGEMAP_RACE_POINTS="$5" -j"$4" modules
	' sh "$root" "$out" "$kdir" "$jobs" "$race"
}

if ! build >"$log" 2>&1; then
	grep -vE '^  (CC|CHECK|PROBE|LD|MODPOST|BTF) |^make' "$log" >&2
	echo "$0: the module does not build for $kdir" >&2
	exit 1
fi
# BTF needs vmlinux, which some header packages lack.
if grep -v 'Skipping BTF generation' "$log" | grep -iE 'warning|error' | grep -v '^ *\(CC\|CHECK\|LD\)' >&2; then
	echo "$0: see the warnings above ($log)" >&2
	# Run modpost again the next time, so that it repeats its warnings.
	rm -f "$out/hugemap.ko" "$out/Module.symvers" "$out/hugemap.mod"
	exit 1
fi
[ -f "$out/hugemap.ko" ] || {
	cat "$log" >&2
	echo "$0: the build made no module" >&2
	exit 1
}
