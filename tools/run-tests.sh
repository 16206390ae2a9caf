#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR MIT
#
# Build and pass every test (`make test` calls it after tools/install-deps.sh):
#
#	build/		as installed		every test. Tests in virtual machines, of
#						the module, and in bare Debian systems
#						mostly wait, so they run in parallel with
#						all others
#	build-asan/	address, undefined	every test that works with a sanitizer
#	build-tsan/	thread			tests with several threads
#
# The last line is `N passed, N failed, N skipped`. Each test of a cmocka program counts;
# any other program counts as one test. Before it stand the reasons of skipped tests, and
# the failed tests with their logs. Exit status 1 if a test failed.
#
#	HM_TEST_DIR=DIR		directory for test files; default /var/tmp, or another
#				file system on a device if that is in memory
#	HM_BUILD=DIR		build directory (also DIR-asan, DIR-tsan); default build
#	HM_TREES="..."		trees to test, of: plain asan tsan; default all
set -eu

cd "$(dirname "$0")/.."
build=${HM_BUILD:-build}
trees=${HM_TREES:-plain asan tsan}

in_memory() {
	case "$(stat -f -c %T "$1" 2>/dev/null || echo none)" in
	tmpfs | ramfs | none) return 0 ;;
	esac
	return 1
}

# Tests need a file system with direct I/O.
files=
for dir in "${HM_TEST_DIR:-}" /var/tmp "$PWD/build-files"; do
	[ -n "$dir" ] || continue
	mkdir -p "$dir" 2>/dev/null || continue
	if [ -w "$dir" ] && ! in_memory "$dir"; then
		files=$dir
		break
	fi
done
[ -n "$files" ] || files=${HM_TEST_DIR:-/var/tmp}
scratch=$(mktemp -d "$files/hugemap-tests-XXXXXX")
results=$scratch/results
mkdir "$results" "$scratch/files" "$scratch/tmp"
# Some tests change their user to nobody.
chmod 755 "$scratch"
chmod 1777 "$scratch/files" "$scratch/tmp"
export HM_TEST_DIR="$scratch/files" TMPDIR="$scratch/tmp"

# Suites that run in parallel with the others, as lane:process.
lanes=
# Remove leftovers of failed tests: mounts, newest first, and loop devices of files of this
# run. No other mount or device is touched.
sweep() {
	for lane in $lanes; do
		kill "${lane#*:}" 2>/dev/null || true
		wait "${lane#*:}" 2>/dev/null || true
	done
	awk -v top="$scratch/" 'index($5, top) == 1 { print $5 }' /proc/self/mountinfo |
		sort -r | while read -r at; do
		umount -l "$at" 2>/dev/null || true
	done
	if command -v losetup >/dev/null; then
		losetup -n -l -O NAME,BACK-FILE 2>/dev/null | while read -r name back; do
			case "$back" in
			"$scratch"/*) losetup -d "$name" 2>/dev/null || true ;;
			esac
		done
	fi
	rm -rf --one-file-system "$scratch"
}
trap sweep EXIT
trap 'exit 1' HUP INT TERM

export ASAN_OPTIONS="${ASAN_OPTIONS:-halt_on_error=1:detect_leaks=1}"
export UBSAN_OPTIONS="${UBSAN_OPTIONS:-halt_on_error=1:print_stacktrace=1}"
export TSAN_OPTIONS="${TSAN_OPTIONS:-second_deadlock_stack=1}"

directory() {
	case "$1" in
	plain) echo "$build" ;;
	*) echo "$build-$1" ;;
	esac
}

sanitizers() {
	case "$1" in
	plain) echo none ;;
	asan) echo address,undefined ;;
	tsan) echo thread ;;
	esac
}

# Update an existing tree; if meson refuses it, make a new one.
configure() {
	options="-Dtests=enabled -Db_sanitize=$2 -Db_lundef=false"
	# At level 1, gcc needs two thirds of the time, and three quarters of that if the debug
	# information has only lines. `bench ycsb` is tested without a sanitizer.
	[ "$2" = none ] || options="$options -Doptimization=1 -Dc_args=-g1 -Dycsb=disabled -During=disabled"
	# shellcheck disable=SC2086 # a list of words
	if [ -f "$1/build.ninja" ] && meson configure "$1" $options; then
		return 0
	fi
	# shellcheck disable=SC2086
	meson setup --wipe "$1" $options || meson setup "$1" $options
}

# Names of the tests of a tree.
chosen() {
	list=$(meson test -C "$1" --no-rebuild --list 2>/dev/null |
		sed -n 's/^hugemap:\([^ ]*\) \/ /\1 /p')
	echo "$list" |
		while read -r suites name; do
			case "$2:$suites:$name" in
			plain:vm:* | plain:module:* | plain:roots*) ;;
			*) echo "$name" ;;
			esac
		done
}

status=0
for tree in $trees; do
	dir=$(directory "$tree")
	log=$results/$tree.log
	echo "building $dir ($(sanitizers "$tree"))"
	start=$(date +%s)
	if ! { configure "$dir" "$(sanitizers "$tree")" && ninja -C "$dir"; } >"$log" 2>&1; then
		grep -A20 -E 'FAILED|ERROR|error:' "$log" | head -n 60 || tail -n 40 "$log"
		echo "$dir does not build"
		: >"$results/$tree.broken"
		status=1
		continue
	fi
	built=$(date +%s)
	names=$(chosen "$dir" "$tree")
	if [ -z "$names" ]; then
		echo "$dir has no tests: run \`meson test -C $dir --list\` to see why"
		: >"$results/$tree.broken"
		status=1
		continue
	fi
	echo "testing $dir"
	slow=1
	[ "$tree" = plain ] || slow=4
	if [ "$tree" = plain ]; then
		for lane in vm module roots; do
			rm -f "$dir/meson-logs/$lane.json"
			meson test -C "$dir" --no-rebuild --quiet --suite $lane --logbase $lane \
				--num-processes 1 >"$results/$lane.log" 2>&1 &
			lanes="$lanes $lane:$!"
		done
	fi
	rm -f "$dir/meson-logs/testlog.json"
	# shellcheck disable=SC2086 # $names is a list of words
	meson test -C "$dir" --no-rebuild --timeout-multiplier $slow --quiet $names \
		>"$log" 2>&1 || status=1
	cp "$dir/meson-logs/testlog.json" "$results/$tree.json" 2>/dev/null || : >"$results/$tree.broken"
	echo "  built in $((built - start)) s, tested in $(($(date +%s) - built)) s"
done

for lane in $lanes; do
	name=${lane%:*}
	echo "testing $build ($name)"
	since=$(date +%s)
	wait "${lane#*:}" || status=1
	cp "$build/meson-logs/$name.json" "$results/$name.json" 2>/dev/null || : >"$results/$name.broken"
	echo "  waited for them for $(($(date +%s) - since)) s"
done
lanes=

python3 tools/tally-tests.py "$results" "$build" || status=1
exit $status
