#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR MIT
#
# Build kernel/cache/*.c with kernel/compat/hm_port_impl.h against all installed kernel
# headers, in a copy outside of the tree, with W=1 and with sparse if it is installed. It
# fails on a warning, a float, a missing prototype, a stack frame of more than 1 KB or an
# unknown symbol.
#
#	build.sh [SOURCE_ROOT]
#
# It exits with 77 (skipped) if no kernel headers are installed.
set -eu

root=${1:-$(cd "$(dirname "$0")/../../.." && pwd)}
work=$(mktemp -d "${TMPDIR:-/tmp}/hugemap-kbuild-XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

# The same directory may be in /lib/modules and in /usr/src.
headers=$(
	for dir in /lib/modules/*/build /usr/src/linux-headers-*; do
		[ -f "$dir/Makefile" ] && [ -f "$dir/Module.symvers" ] && readlink -f "$dir"
	done | sort -u
)
if [ -z "$headers" ]; then
	echo "skipped: no kernel headers are installed (package linux-headers-cloud-amd64)"
	exit 77
fi

check=
if command -v sparse >/dev/null; then
	check="C=2 CHECK=sparse"
fi

status=0
for dir in $headers; do
	name=$(basename "$dir")
	copy=$work/$name
	mkdir -p "$copy/cache"
	cp "$root"/kernel/cache/*.[ch] "$root"/kernel/compat/hm_port_impl.h \
		"$root"/include/hugemap_counters.def "$copy/cache/"
	cp "$root"/tests/kernel/cache/Kbuild "$copy/Kbuild"
	cp "$root"/tests/kernel/cache/module.c "$copy/"
	log=$copy/log

	# shellcheck disable=SC2086 # $check is a list of words
	if ! make -C "$dir" M="$copy" W=1 $check modules >"$log" 2>&1; then
		echo "FAILED: $name"
		cat "$log"
		status=1
		continue
	fi
	# BTF needs vmlinux, which the header packages do not have.
	if grep -v 'Skipping BTF generation' "$log" | grep -iE 'warning|error'; then
		echo "FAILED: $name: see the warnings above"
		status=1
		continue
	fi
	[ -f "$copy/hugemap-cache-check.ko" ] || {
		echo "FAILED: $name: the build created no module"
		cat "$log"
		status=1
		continue
	}
	echo "ok: $name${check:+, with sparse}"
done
exit $status
