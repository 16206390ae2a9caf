#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR MIT
#
# Run a command silently. If it fails, print the last lines of its output, and the remedy.
#
#	quietly.sh REMEDY COMMAND...
set -u

advice=$1
shift
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
trap 'exit 1' HUP INT TERM

"$@" >"$log" 2>&1
status=$?
if [ $status -ne 0 ]; then
	tail -n 30 "$log" | sed 's/^/    /' >&2
	echo "\`$*\` failed (exit status $status). $advice" >&2
fi
exit $status
