#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR MIT
#
# kernel/cache/ sees nothing of any platform: its files include only each other, and
# port.h alone includes the one file that the engine brings.
set -eu

root=${1:-$(cd "$(dirname "$0")/../.." && pwd)}
cd "$root/kernel/cache"

status=0
for file in *.c *.h; do
	for name in $(sed -n 's/^[[:space:]]*#[[:space:]]*include[[:space:]]*//p' "$file"); do
		case "$name" in
		'"hm_port_impl.h"') [ "$file" = port.h ] && continue ;;
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
