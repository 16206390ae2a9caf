#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR MIT
#
# Does the simulator find what two readings found? Each patch here puts an old defect of
# kernel/ back; the fixed seeds must find every one.
#
#	tests/kernel/sim/mutations/run.sh [SOURCE_ROOT [NAME...]]
set -eu

root=$(cd "${1:-$(dirname "$0")/../../../..}" && pwd)
[ $# -gt 0 ] && shift
seeds=1..400
work=$(mktemp -d)
trap "rm -rf $work" EXIT

flags="-std=gnu17 -O1 -w -D_GNU_SOURCE -DHM_BLOCK_ORDER=3 -DHM_NODE_ORDER=3 -DHM_PAGE_SHIFT=6
	-I$root/tests/kernel/sim -I$root/tests/core/sim -I$work/include -I$root/core -Ikernel"
sh "$root/tests/kernel/sim/headers.sh" "$root/kernel" "$work/include"
mkdir "$work/kernel" "$work/same"
# What no patch touches is compiled once.
for file in "$root"/core/*.c "$root"/tests/kernel/sim/*.c "$root"/tests/core/sim/sched.c; do
	case $file in */advice.c) continue ;; esac
	(cd "$root" && ${CC:-cc} $flags -c "$file" -o "$work/same/$(basename "$file" .c).o")
done

parts="change data direct evict fault fill folio held io pool rw shrink slot store writeback"
build() {
	for part in $parts; do
		if ! cmp -s "$root/kernel/$part.c" "$work/tree/kernel/$part.c"; then
			(cd "$work/tree" && ${CC:-cc} $flags -c "kernel/$part.c" -o "$part.o")
			continue
		fi
		if [ ! -f "$work/kernel/$part.o" ]; then
			(cd "$root" && ${CC:-cc} $flags -c "kernel/$part.c" -o "$work/kernel/$part.o")
		fi
		cp "$work/kernel/$part.o" "$work/tree/$part.o"
	done
	${CC:-cc} "$work"/tree/*.o "$work"/same/*.o -o "$work/tree/run"
}

escaped=0
count=0
for patch in "$root"/tests/kernel/sim/mutations/*.patch; do
	name=$(basename "$patch" .patch)
	case " ${*:-$name} " in *" $name "*) ;; *) continue ;; esac
	rm -rf "$work/tree"
	mkdir "$work/tree"
	cp -r "$root/kernel" "$work/tree/kernel"
	patch -s -d "$work/tree" -p1 <"$patch" || {
		echo "$name: the patch does not apply: renew it"
		exit 1
	}
	build
	count=$((count + 1))
	timeout 100 "$work/tree/run" --seeds $seeds >"$work/log" 2>&1 || true
	if ! grep -m1 '^seed ' "$work/log" | sed "s/^/$name: /" | grep .; then
		echo "$name: NOT CAUGHT"
		escaped=$((escaped + 1))
	fi
done
echo "$count mutations, $escaped not caught"
[ "$escaped" -eq 0 ]
