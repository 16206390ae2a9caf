#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR MIT
#
# Has the pool engine another way out than user/linux.h? What the objects that the
# simulator links ask for is what the simulator has, or plain work on memory and text.
#
#	seam.sh LIBRARY
set -eu

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

nm "$1" 2>/dev/null | awk '$1 == "U" { print $2 }' | sort -u >"$work/wanted"
nm "$1" 2>/dev/null | awk 'NF == 3 && $2 ~ /[A-Z]/ { print $3 }' | sort -u >"$work/own"
comm -23 "$work/wanted" "$work/own" |
	grep -v -x -E 'sys_[a-z_]+|sim_[a-z]+|thread_[a-z_]+|process_[a-z_]+|memory_engine_[a-z]+' |
	grep -v -x -E 'steered_[a-z]+|io_uring_backend|io_threads_backend' |
	grep -v -x -E 'mem(cpy|set|move|cmp)|str(cpy|cmp|ncmp|len|error|chr)|v?snprintf' |
	grep -v -x -E '_GLOBAL_OFFSET_TABLE_|__tls_get_addr|__errno_location|__stack_chk_fail|sigfillset|sigdelset|abort' |
	grep -v -E '^(__asan_|__ubsan_|__tsan_|__sanitizer_|AnnotateIgnore|__(mem|str|v?snprintf)[a-z]*_chk$)' \
		>"$work/out" || exit 0
echo "the pool engine has other ways out than user/linux.h:"
cat "$work/out"
exit 1
