#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR MIT
#
# One object of the library and of liburing, for the library that `hugemap run`
# loads. That one takes the place of functions like mmap(), so what the engine
# itself calls gets other names; and a program's own liburing stays its own.
#
#	engine-object.sh OUTPUT LIBHUGEMAP.A NAMES
set -eu

uring=$(gcc -print-file-name=liburing.a)
if [ "$uring" = liburing.a ]; then
	echo "liburing.a is missing: it comes with liburing-dev" >&2
	exit 1
fi
ld -r -o "$1.tmp" --whole-archive "$2" --no-whole-archive "$uring"
objcopy --redefine-syms="$3" "$1.tmp"
objcopy --wildcard --keep-global-symbol='hugemap_*' "$1.tmp" "$1"
rm -f "$1.tmp"
