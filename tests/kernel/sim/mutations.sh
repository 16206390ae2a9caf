#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR MIT
#
# Does the simulator find the defects that it is there for? Each patch brings back a defect
# that the code had or could have; one of the fixed seeds must notice it.
#
#	tests/kernel/sim/mutations.sh [PATCH...]	default: all of mutations/
#
#	SEEDS=A..B	the fixed seeds; default 1..1560
#
# Without a patch all seeds must hold; otherwise this ends with an error.
set -eu

sim=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$sim/../../.." && pwd)
seeds=${SEEDS:-1..1560}
[ $# -gt 0 ] || set -- "$sim"/mutations/*.patch
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

# The same flags and sources as in meson.build.
flags="-std=gnu17 -O1 -w -D_GNU_SOURCE -DHM_BLOCK_ORDER=3 -DHM_NODE_ORDER=3 -DHM_PAGE_SHIFT=6
	-Itests/kernel/sim -I$work/include -Ikernel -Iinclude"
sources() {
	echo kernel/cache/*.c tests/kernel/sim/*.c
	sed -n "/^foreach name/,/\]/p" tests/kernel/sim/meson.build |
		grep -o "'[a-z]*/[a-z_]*'" | tr -d "'" | sed 's,.*,kernel/&.c,'
}

# compile TREE OBJECTS: compile the sources that have no object yet
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

# holds OBJECTS: run all seeds; the output is in $work/log
holds() {
	${CC:-cc} -o "$work/run" "$1"/*.o
	timeout 600 "$work/run" --seeds "$seeds" >"$work/log" 2>&1
}

verdict() {
	grep -m1 '^seed ' "$work/log" || echo 'hangs or crashes'
}

sh "$sim/headers.sh" "$root/kernel" "$work/include"
compile "$root" "$work/all"
holds "$work/all" || {
	echo "without any patch: $(verdict)"
	exit 1
}

escaped=0
count=0
for patch in "$@"; do
	name=$(basename "$patch" .patch)
	rm -rf "$work/tree" "$work/objects"
	mkdir -p "$work/tree/tests/kernel" "$work/objects"
	cp -r "$root/kernel" "$root/include" "$work/tree"
	cp -r "$sim" "$work/tree/tests/kernel/sim"
	patch -s -d "$work/tree" -p1 <"$patch" || {
		echo "$name: the patch does not apply: renew it"
		exit 1
	}
	# Files that the patch does not touch are compiled already.
	if ! grep -q '^+++ .*\.h$' "$patch"; then
		cp "$work/all"/*.o "$work/objects"
		sed -n 's,^+++ b/,,p' "$patch" | tr / _ | while read -r changed; do
			rm -f "$work/objects/$changed.o"
		done
	fi
	compile "$work/tree" "$work/objects"
	count=$((count + 1))
	if holds "$work/objects"; then
		echo "$name: NOT CAUGHT"
		escaped=$((escaped + 1))
	else
		echo "$name: $(verdict)"
	fi
done
echo "$count mutations, $escaped not caught"
[ "$escaped" -eq 0 ]
