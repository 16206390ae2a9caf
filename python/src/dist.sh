#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR MIT
#
# For `meson dist`: the links to the library's directories become copies.
set -eu

for dir in core steer user include; do
	rm -rf "${MESON_DIST_ROOT:?}/$dir"
	cp -rL "${MESON_SOURCE_ROOT:?}/$dir" "$MESON_DIST_ROOT/$dir"
done
