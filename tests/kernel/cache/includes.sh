#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR MIT
#
# Check that the files of kernel/cache/ include only each other and the list of counters, and
# that only port.h includes hm_port_impl.h, which each platform provides.
set -eu

root=${1:-$(cd "$(dirname "$0")/../../.." && pwd)}
cd "$root/kernel/cache"

status=0
for file in *.c *.h; do
	for name in $(sed -n 's/^[[:space:]]*#[[:space:]]*include[[:space:]]*//p' "$file"); do
		case "$name" in
		'"hm_port_impl.h"') [ "$file" = port.h ] && continue ;;
		'"hugemap_counters.def"') [ "$file" = counters.h ] && continue ;;
		'"'*'"')
			plain=${name#\"}
			[ -f "${plain%\"}" ] && continue
			;;
		esac
		echo "kernel/cache/$file includes $name"
		status=1
	done
done
exit $status
