#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR MIT
#
# Print the path of the kernel's checkpatch.pl, and fetch it if it is missing.
#
# Debian has it only in the linux-source package (139 MB, a few seconds), so the script
# extracts it once and keeps it in ~/.cache/hugemap. If CHECKPATCH is set, it is used
# instead. The script prints a reason if it fails.
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
# The last tar exits after the last file, and the tar before it reports a broken pipe.
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
