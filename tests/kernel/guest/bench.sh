#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR MIT
#
# `hugemap bench` measures the kernel engine in each page mode. It checks every value that it reads.
#
# vm: lower=none programs=hugemap timeout=180
set -u

status=0
output=$SCRATCH/output
hugemap bench --dir "$SCRATCH" --size 64M --pool 16M --runs 1 --threads 1 --scenario rand-4k \
	--engine hugemap-kernel >"$output" 2>&1 || {
	echo "FAILED: hugemap bench: exit status $?"
	status=1
}
for page in auto 2M 4K; do
	grep -q "^  HugeMap kernel, page=$page  *[1-9]" "$output" || {
		echo "FAILED: there is no row of page=$page"
		status=1
	}
done
[ $status = 0 ] || cat "$output"
exit $status
