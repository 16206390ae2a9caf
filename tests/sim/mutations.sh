#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR MIT
#
# Do the simulators catch what they are there for? Each patch brings back a defect that
# the code had, or could have; the fixed seeds of an engine's simulator must find it.
#
#	tests/sim/mutations.sh user|kernel|any [PATCH...]
#
# Without patches, those of that engine; with `any` those of the core, each of which one
# of the two must find. What the code as it is does not hold proves nothing: then this ends.
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
engines=${1:?user, kernel or any}
shift
seeds=1..1560
case $engines in
user)
	own=$root/tests/user/mutations
	seeds=1..120
	;;
kernel) own=$root/tests/kernel/sim/mutations ;;
any)
	own=$root/tests/core/mutations
	engines='user kernel'
	seeds=1..260
	;;
*)
	echo "$0: user, kernel or any, not '$engines'" >&2
	exit 2
	;;
esac
[ $# -gt 0 ] || set -- "$own"/*.patch
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

# As tests/user/sim/meson.build and tests/kernel/sim/meson.build have it.
common='-std=gnu17 -O1 -w -D_GNU_SOURCE -DHM_BLOCK_ORDER=3 -DHM_NODE_ORDER=3 -DHM_PAGE_SHIFT=6'
sources() {
	echo tests/sim/*.c
	echo kernel/cache/*.c
	echo "tests/$1/sim"/*.c
	if [ "$1" = user ]; then
		echo user/*.c | sed -E 's,user/(io_uring|linux|steered).c,,g'
	else
		sed -n "/^foreach name/,/\]/p" tests/kernel/sim/meson.build |
			grep -o "'[a-z]*/[a-z]*'" | tr -d "'" | sed 's,.*,kernel/&.c,'
	fi
}

# flags ENGINE SOURCE
flags() {
	case $1:$2 in
	user:kernel/cache/* | user:user/*) echo '-include alloc.h' ;;
	esac
	case $1 in
	user) echo "$common -DHM_MAX_STORES=16u -DBLOCK_LOCKS=8u -DSIM_COROUTINES=64u -DHUGEMAP_VERSION_STRING=NULL
		-Itests/user/sim -Ikernel/cache -Iuser -Iinclude" ;;
	kernel) echo "$common -Itests/kernel/sim -Itests/sim -I$work/include -Ikernel/cache -Ikernel -Iinclude" ;;
	esac
}

# compile ENGINE TREE OBJECTS: those that are not there yet
compile() {
	mkdir -p "$3"
	cd "$2"
	for source in $(sources "$1"); do
		object=$3/$(echo "$source" | tr / _).o
		# shellcheck disable=SC2046 # a list of words
		[ -f "$object" ] || echo $(flags "$1" "$source") -c -o "$object" "$source"
	done | xargs -r -P 2 -L 1 "${CC:-cc}"
	cd "$root"
}

# holds OBJECTS: or says which seed does not, in $work/log
holds() {
	${CC:-cc} -o "$work/run" "$1"/*.o
	timeout 200 "$work/run" --seeds "$seeds" >"$work/log" 2>&1
}

verdict() {
	grep -m1 '^seed ' "$work/log" || echo 'hangs or crashes'
}

# What no patch touches is compiled once.
for engine in $engines; do
	[ "$engine" = user ] ||
		sh "$root/tests/kernel/sim/headers.sh" "$root/kernel" "$work/include"
	compile "$engine" "$root" "$work/$engine"
	holds "$work/$engine" || {
		echo "without any patch: $(verdict)"
		exit 1
	}
done

# caught ENGINE PATCH
caught() {
	rm -rf "$work/objects"
	mkdir "$work/objects"
	cp "$work/$1"/*.o "$work/objects"
	if grep -q '^+++ .*\.h$' "$2"; then
		rm "$work/objects"/*.o
	fi
	sed -n 's,^+++ b/,,p' "$2" | tr / _ | while read -r name; do
		rm -f "$work/objects/$name.o"
	done
	compile "$1" "$work/tree" "$work/objects"
	! holds "$work/objects"
}

escaped=0
count=0
for patch in "$@"; do
	name=$(basename "$patch" .patch)
	rm -rf "$work/tree"
	mkdir -p "$work/tree/tests"
	cp -r "$root/user" "$root/kernel" "$root/include" "$work/tree"
	cp -r "$root/tests/sim" "$root/tests/user" "$root/tests/kernel" "$work/tree/tests"
	patch -s -d "$work/tree" -p1 <"$patch" || {
		echo "$name: the patch does not apply: renew it"
		exit 1
	}
	count=$((count + 1))
	by='NOT CAUGHT'
	for engine in $engines; do
		if caught "$engine" "$patch"; then
			by="$(verdict) ($engine)"
			break
		fi
	done
	echo "$name: $by"
	[ "$by" != 'NOT CAUGHT' ] || escaped=$((escaped + 1))
done
echo "$count mutations, $escaped not caught"
[ "$escaped" -eq 0 ]
