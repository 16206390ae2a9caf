#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR MIT
#
# Print the path of the kernel's checkpatch.pl, fetching it if need be.
#
# Debian has it in the linux-source package only (139 MB, a few seconds), so it
# is taken out of that once and kept in ~/.cache/hugemap. $CHECKPATCH, if set, is
# used as it is. Fails, with a reason, where it cannot be had.
set -eu

if [ -n "${CHECKPATCH:-}" ]; then
	echo "$CHECKPATCH"
	exit 0
fi
cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/hugemap
if [ -s "$cache/checkpatch.pl" ]; then
	echo "$cache/checkpatch.pl"
	exit 0
fi

package=$(apt-cache depends linux-source 2>/dev/null | sed -n 's/.*Depends: \(linux-source-[0-9.]*\)$/\1/p' | head -n 1)
if [ -z "$package" ]; then
	echo "no linux-source package is known to apt" >&2
	exit 1
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
chmod 755 "$work" # apt downloads as another user
cd "$work"
if ! apt-get download -q "$package" >log 2>&1; then
	cat log >&2
	exit 1
fi
# The pipe ends early, as soon as the last file is there: tar says so.
dpkg-deb --fsys-tarfile "$package"_*.deb 2>/dev/null | tar xO "./usr/src/$package.tar.xz" | xz -dc |
	tar x --occurrence=1 "$package/scripts/checkpatch.pl" "$package/scripts/spelling.txt" \
		"$package/scripts/const_structs.checkpatch" >log 2>&1 || true
if [ ! -s "$package/scripts/checkpatch.pl" ]; then
	cat log >&2
	exit 1
fi
mkdir -p "$cache"
for name in spelling.txt const_structs.checkpatch checkpatch.pl; do
	if [ -s "$package/scripts/$name" ]; then
		cp "$package/scripts/$name" "$cache/$name.new"
		mv "$cache/$name.new" "$cache/$name"
	fi
done
echo "$cache/checkpatch.pl"
