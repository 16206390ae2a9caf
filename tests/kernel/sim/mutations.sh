#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR MIT
#
# Check that the simulator detects defects. Each patch adds one defect to the kernel engine, and
# one of its seeds must fail. The same seeds must hold without the patch. A line `Mode: OPTION` in a
# patch is an option for its runs.
#
#	tests/kernel/sim/mutations.sh [PATCH...]	default: all of mutations/
#
#	SEEDS=A..B	seeds of the patches without a line `Seeds: A..B`; default 1..1560
set -eu

sim=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$sim/../../.." && pwd)
seeds=${SEEDS:-1..1560}
[ $# -gt 0 ] || set -- "$sim"/mutations/*.patch
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

# These are the flags and sources of meson.build.
flags="-std=gnu17 -O1 -w -D_GNU_SOURCE -DHM_BLOCK_ORDER=3 -DHM_NODE_ORDER=3 -DHM_PAGE_SHIFT=6 -DHM_EMPTY_MAX=4
	-Itests/kernel/sim -I$work/include -Ikernel -Iinclude"
sources() {
	echo kernel/cache/*.c tests/kernel/sim/*.c
	sed -n "/^foreach name/,/\]/p" tests/kernel/sim/meson.build |
		grep -o "'[a-z]*/[a-z_]*'" | tr -d "'" | sed 's,.*,kernel/&.c,'
}

# compile TREE OBJECTS: compile the sources without an object file
compile() {
	mkdir -p "$2"
	cd "$1"
	for source in $(sources); do
		object=$2/$(echo "$source" | tr / _).o
		# shellcheck disable=SC2086 # a list of words
		[ -f "$object" ] || echo $flags -c -o "$object" "$source"
	done | xargs -r -P 2 -L 1 "${CC:-cc}"
	cd "$root"
}

# seeds_of PATCH: print its seeds
seeds_of() {
	own=$(sed -n 's/^Seeds: *//p' "$1")
	echo "${own:-$seeds}"
}

# mode_of PATCH: print the option that its seeds need
mode_of() {
	sed -n 's/^Mode: *//p' "$1"
}

# holds OBJECTS SEEDS [MODE]: run the seeds with the output in $work/log
holds() {
	${CC:-cc} -o "$work/run" "$1"/*.o
	timeout 600 "$work/run" ${3:+"$3"} --seeds "$2" >"$work/log" 2>&1
}

verdict() {
	grep -m1 '^seed ' "$work/log" || echo 'hangs or crashes'
}

sh "$sim/headers.sh" "$root/kernel" "$work/include"
compile "$root" "$work/all"
for patch in "$@"; do
	echo "$(seeds_of "$patch") $(mode_of "$patch")"
done | sort -u | while read -r range mode; do
	holds "$work/all" "$range" "$mode" || {
		echo "without a patch: $(verdict)"
		exit 1
	}
done

escaped=0
count=0
for patch in "$@"; do
	name=$(basename "$patch" .patch)
	rm -rf "$work/tree" "$work/objects"
	mkdir -p "$work/tree/tests/kernel" "$work/objects"
	cp -r "$root/kernel" "$root/include" "$work/tree"
	cp -r "$sim" "$work/tree/tests/kernel/sim"
	patch -s -d "$work/tree" -p1 <"$patch" || {
		echo "$name: the patch does not apply; renew its context"
		exit 1
	}
	# Reuse the object files of sources that the patch does not change.
	if ! grep -q '^+++ .*\.h$' "$patch"; then
		cp "$work/all"/*.o "$work/objects"
		sed -n 's,^+++ b/,,p' "$patch" | tr / _ | while read -r changed; do
			rm -f "$work/objects/$changed.o"
		done
	fi
	compile "$work/tree" "$work/objects"
	count=$((count + 1))
	if holds "$work/objects" "$(seeds_of "$patch")" "$(mode_of "$patch")"; then
		echo "$name: NOT CAUGHT"
		escaped=$((escaped + 1))
	else
		echo "$name: $(verdict)"
	fi
done
echo "$count mutations, $escaped not caught"
[ "$escaped" -eq 0 ]
