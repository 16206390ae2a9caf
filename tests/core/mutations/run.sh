#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR MIT
#
# Does the simulator catch what it is there for? Each patch here breaks one
# transition of the core on purpose; the fixed seeds must find every one.
#
#	tests/core/mutations/run.sh [SOURCE_ROOT]
set -eu

root=$(cd "${1:-$(dirname "$0")/../../..}" && pwd)
seeds=1..400
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# build DIR: the core and the simulator in a directory, into DIR/sim
build() {
	(cd "$1" && ${CC:-cc} -std=gnu17 -O1 -w -D_GNU_SOURCE -DHM_BLOCK_ORDER=3 \
		-DHM_NODE_ORDER=3 -Isim -Icore -o run core/cache.c core/dirty.c core/evict.c \
		core/fault.c core/hist.c core/index.c core/pool.c core/queue.c \
		core/readahead.c core/writeback.c sim/*.c)
}

escaped=0
count=0
for patch in "$root"/tests/core/mutations/*.patch; do
	name=$(basename "$patch" .patch)
	rm -rf "$work/tree"
	mkdir "$work/tree"
	cp -r "$root/core" "$work/tree/core"
	cp -r "$root/tests/core/sim" "$work/tree/sim"
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
