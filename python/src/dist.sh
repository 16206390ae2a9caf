#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR MIT
#
# `meson dist` runs this: it replaces the links to the library's directories by copies.
set -eu

for dir in steer lib preload include; do
	rm -rf "${MESON_DIST_ROOT:?}/$dir"
	cp -rL "${MESON_SOURCE_ROOT:?}/$dir" "$MESON_DIST_ROOT/$dir"
done
