#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR MIT
#
# `hugemap bench direct` on the mount: asynchronous direct reads of a file into a mapping of another
# file bring the right data, while the pool evicts.
#
# vm: page=auto programs=hugemap,hugemap-direct timeout=240
# vm: page=2M,4K programs=hugemap,hugemap-direct timeout=240 set=long
set -u

hugemap bench direct --dir "$MNT" --size 64M --runs 1 --seconds 0.2 --target mapping \
	>"$SCRATCH/output" 2>&1
status=$?
cat "$SCRATCH/output"
[ "$(grep -c '^  mapping  *plain  *[1-9]' "$SCRATCH/output")" = 2 ] || {
	echo "FAILED: not both sizes of a read have a row"
	status=1
}
exit $status
