#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR MIT
#
# Does the simulator of the pool engine catch what it is there for? Each patch here brings
# back a defect that the engine had, or could have; the fixed seeds must find every one.
#
#	tests/user/mutations/run.sh [SOURCE_ROOT [PATCH...]]
set -eu

root=$(cd "${1:-$(dirname "$0")/../../..}" && pwd)
[ $# -eq 0 ] || shift
[ $# -gt 0 ] || set -- "$root"/tests/user/mutations/*.patch
seeds=1..120
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

small='-DHM_PAGE_SHIFT=6 -DHM_BLOCK_ORDER=3 -DHM_NODE_ORDER=3 -DHM_MAX_STORES=16u
	-DSIM_COROUTINES=64u'

# build DIR: the engine of a tree in the simulated world, into DIR/run
build() {
	(
		cd "$1"
		# shellcheck disable=SC2046,SC2086 # lists of words
		for file in $(ls core/*.c | grep -v advice) $(ls user/*.c |
			grep -v -e io_uring -e linux.c -e steered); do
			echo "-include alloc.h $file"
		done | xargs -n 3 -P 2 sh -c '
			${CC:-cc} -std=gnu17 -O1 -w -D_GNU_SOURCE '"$(echo $small)"' \
				-DHUGEMAP_VERSION_STRING=\"0\" -Itests/user/sim \
				-Icore -Iuser -Iinclude -c -o "$(echo "$2" | tr / _).o" "$0" "$1" "$2"'
		# shellcheck disable=SC2086 # a list of words
		${CC:-cc} -std=gnu17 -O1 -w -D_GNU_SOURCE $small -Itests/user/sim \
			-Icore -Iuser -Iinclude -o run tests/user/sim/*.c tests/core/sim/sched.c ./*.o
	)
}

escaped=0
count=0
for patch in "$@"; do
	name=$(basename "$patch" .patch)
	rm -rf "$work/tree"
	mkdir -p "$work/tree/tests/user" "$work/tree/tests/core"
	cp -r "$root/core" "$root/user" "$root/include" "$work/tree"
	cp -r "$root/tests/user/sim" "$work/tree/tests/user"
	cp -r "$root/tests/core/sim" "$work/tree/tests/core"
	patch -s -d "$work/tree" -p1 <"$patch" || {
		echo "$name: the patch does not apply: renew it"
		exit 1
	}
	build "$work/tree"
	count=$((count + 1))
	if timeout 60 "$work/tree/run" --seeds $seeds >"$work/log" 2>&1; then
		echo "$name: NOT CAUGHT"
		escaped=$((escaped + 1))
	else
		echo "$name: $(grep -m1 '^seed ' "$work/log" || echo 'hangs or crashes')"
	fi
done
echo "$count mutations, $escaped not caught"
[ "$escaped" -eq 0 ]
