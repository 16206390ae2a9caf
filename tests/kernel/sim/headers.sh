#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR MIT
#
# Create each header of Linux that kernel/ includes. It includes only the model.
#
#	headers.sh KERNEL_DIR OUT_DIR [STAMP]
set -eu

from=$1 out=$2
rm -rf "$out"
sed -n 's/^#include <\(linux\/[^>]*\|trace\/[^>]*\)>.*/\1/p' $(find "$from" -name '*.[ch]') | sort -u |
	while read -r name; do
		mkdir -p "$out/$(dirname "$name")"
		echo '#include "linux.h"' >"$out/$name"
	done
if [ $# -gt 2 ]; then
	echo "/* The headers are in $out. */" >"$3"
fi
