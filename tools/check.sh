#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR MIT
#
# Format, lint and the fast tests, in under a minute (`make check`), of everything or of one area.
#
#	clang-format	every C file, by .clang-format
#	checkpatch	every C file; fetched once, see tools/fetch-checkpatch.sh
#	sparse		kernel/cache/
#	check-prose	idioms in comments, documents and messages; subjects of commits
#	python, sh	that they compile
#	circles		between files, tools/check_circles.py
#	module		the module for the running kernel, with W=1 (area kernel)
#	meson		the tests of the suite `fast`, or those of the area
#
#	check.sh [--lint] [DIR...]	without the tests; format and lint only in DIR
#	check.sh --area AREA		the directories and tests of areas() (`make check-AREA`)
set -u

cd "$(dirname "$0")/.." || exit 1
build=${HM_BUILD:-build}

# Lines of an area, its directories, and its tests: SUITE+fast are the fast ones of a suite.
areas() {
	cat <<-'EOF'
		cache: kernel/cache tests/kernel/cache: cache+fast policy-recorded
		kernel: kernel include tests/kernel/sim tests/kernel/guest vm: sim-short scale
		steer: steer tests/steer: steer+fast
		preload: preload tests/preload: preload-command preload-calls preload-processes preload-exercise-all
		lib: lib include tests/lib tests/exercise: lib exercise-one exercise-threads
		cli: cli completions tests/cli: cli+fast cli-stat
		python: python tests/python: python python-system
		bench: bench: cli-bench cli-bench-programs
		docs: docs man tools tests/tools: cli-docs cli-man tools+fast
	EOF
}

lint=
area=
case "${1:-}" in
--lint)
	lint=1
	shift
	;;
--area)
	area=$(areas | grep "^${2:-}:") || {
		echo "check: there is no area '${2:-}': $(areas | cut -d: -f1 | paste -sd ' ')" >&2
		exit 2
	}
	# shellcheck disable=SC2046 # a list of words
	set -- $(echo "$area" | cut -d: -f2)
	;;
esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
status=0

# Tracked and new files, without those that git ignores.
list() {
	git ls-files --cached --others --exclude-standard -- "$@" | while read -r file; do
		[ -f "$file" ] && echo "$file"
	done
}

failed() {
	echo "check: $1: FAILED"
	status=1
}

code=$(list "$@" | grep '\.[ch]$')

# The module is built beside the other checks.
module=
if [ "${area%%:*}" = kernel ]; then
	kdir=/lib/modules/$(uname -r)/build
	[ -d "$kdir" ] || kdir=$(ls -d /lib/modules/*/build 2>/dev/null | tail -n 1)
	if [ -n "$kdir" ]; then
		tools/build-module.sh "$kdir" "$build/module" >"$work/module" 2>&1 &
		module=$!
	else
		echo "check: the module: skipped: no kernel headers are installed"
	fi
fi

# shellcheck disable=SC2086 # lists of words, here and below
[ -z "$code" ] || clang-format-19 --dry-run -Werror $code 2>"$work/format" || {
	grep 'error:' "$work/format" | cut -d: -f1 | sort | uniq -c
	failed "clang-format (clang-format-19 -i FILE)"
}

# Checks of checkpatch that are off, and the reasons:
#   macros of the kernel (BIT(), ARRAY_SIZE(), __aligned(), u32 in a public header):
#	the cache, the library and the tests are C for user space too
#   new typedefs: the port defines one for its atomic and one for its lock
#   barriers without a comment: port.h documents each barrier
#   volatile: tests access mapped memory on purpose
#   ENOSYS: a kernel without a system call returns it
#   camel case: other libraries use it
#   split strings: long messages are wrapped like the code
#   arguments used twice, assignments in a row: reviewed by eye
#   lines that end with a parenthesis, the alignment, blank lines of macros,
#	spaces around "*": clang-format decides
#   blank lines after declarations: checkpatch lacks _Atomic and our macros
#   unsigned without int: checkpatch lacks unsigned __int128
#   names of functions in strings: "usage" is a word
#   static const for arrays of pointers: execve() takes char *const []
ignore=BIT_MACRO,ARRAY_SIZE,PREFER_DEFINED_ATTRIBUTE_MACRO,PREFER_KERNEL_TYPES
ignore=$ignore,NEW_TYPEDEFS,MEMORY_BARRIER,VOLATILE,ENOSYS,CAMELCASE,SPLIT_STRING
ignore=$ignore,LINE_SPACING,LEADING_SPACE,CODE_INDENT,UNSPECIFIED_INT,SPACING
ignore=$ignore,CONST_STRUCT,MINMAX,EMBEDDED_FUNCTION_NAME,OPEN_ENDED_LINE,PARENTHESIS_ALIGNMENT,MACRO_ARG_REUSE,MULTIPLE_ASSIGNMENTS
ignore=$ignore,STATIC_CONST_CHAR_ARRAY
if script=$(tools/fetch-checkpatch.sh 2>"$work/fetch"); then
	# Run it in $work, since it writes a cache into the current directory.
	top=$PWD
	paths=$(echo "$code" | sed "s|^|$top/|")
	[ -z "$code" ] || (cd "$work" && perl "$script" --no-tree --strict --max-line-length=100 --terse \
		--no-summary --show-types --ignore "$ignore" --file $paths) >"$work/patch" 2>&1 || {
		grep -E "^/.*:[0-9]+: " "$work/patch" | sed "s|^$top/||"
		failed checkpatch
	}
else
	echo "check: checkpatch: skipped: $(tail -n 1 "$work/fetch")"
fi

if command -v sparse >/dev/null; then
	for file in $(echo "$code" | grep '^kernel/cache/.*\.c$'); do
		sparse -std=gnu17 -Wno-decl -D_GNU_SOURCE -Ikernel/cache -Iinclude -Itests/kernel/cache "$file"
	done >"$work/sparse" 2>&1
	if [ -s "$work/sparse" ]; then
		cat "$work/sparse"
		failed sparse
	fi
fi

tools/check-prose >"$work/prose" || failed "check-prose (tools/check-prose PATH prints each idiom)"
grep ': FAILED' "$work/prose"
tools/check-prose --commits || failed "subjects of commits"

for file in $(list "$@" | grep '\.py$'); do
	PYTHONPYCACHEPREFIX=$work python3 -m py_compile "$file" || failed "$file"
done
for file in $(list "$@"); do
	case "$(head -c 9 "$file" | tr -d '\0')" in
	'#!/bin/sh'*) sh -n "$file" || failed "$file" ;;
	esac
done

PYTHONDONTWRITEBYTECODE=1 python3 tools/check_circles.py >"$work/circles" || {
	cat "$work/circles"
	failed "circles between files"
}

# tests_of_area: print the names of the tests in the third field of $area.
tests_of_area() {
	for word in $(echo "$area" | cut -d: -f3); do
		case "$word" in
		*+fast) sed -n "s,^hugemap:$word / ,,p" "$work/list" ;;
		*) echo "$word" ;;
		esac
	done | sort -u
}

if [ -z "$lint" ]; then
	if ! { [ -f "$build/build.ninja" ] || meson setup "$build"; } >"$work/build" 2>&1 ||
		! meson configure "$build" -Dtests=enabled >>"$work/build" 2>&1; then
		tail -n 40 "$work/build"
		failed build
	elif [ -n "$area" ]; then
		meson test -C "$build" --no-rebuild --list >"$work/list" 2>"$work/build"
		# meson builds only what these tests need.
		# shellcheck disable=SC2046
		meson test -C "$build" --quiet $(tests_of_area) >"$work/tests" 2>&1 || {
			tail -n 40 "$work/tests"
			failed "tests of the area"
		}
	elif ninja -C "$build" >>"$work/build" 2>&1; then
		meson test -C "$build" --no-rebuild --suite fast --quiet || failed "fast tests"
	else
		tail -n 40 "$work/build"
		failed build
	fi
fi

if [ -n "$module" ] && ! wait "$module"; then
	cat "$work/module"
	failed "the module for $kdir"
fi

[ $status -eq 0 ] && echo "check: all is well"
exit $status
