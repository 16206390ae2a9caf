#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR MIT
#
# `hugemap bench graph` on the mount: a breadth-first search and PageRank on a graph that is larger
# than the pool find what they find in memory, where the graph is the one that was stored.
#
# vm: page=auto pool=8M programs=hugemap,hugemap-graph timeout=240
# vm: page=2M,4K pool=8M programs=hugemap,hugemap-graph timeout=240 set=long
set -u

hugemap bench graph --dir "$MNT" --scale 16 --runs 1 --seconds 1000 >"$SCRATCH/output" 2>&1
status=$?
cat "$SCRATCH/output"
[ "$(grep -c '^  plain  *[0-9]' "$SCRATCH/output")" = 2 ] || {
	echo "FAILED: not both algorithms have a row"
	status=1
}
exit $status
