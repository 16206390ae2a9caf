#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR MIT
#
# Which of the probes does this kernel's compiler accept? Kbuild calls it.
#
#	probe.sh HEADER "PROBE.c ..." COMPILER FLAGS...
#
# Writes "#define HUGEMAP_HAVE_<NAME> 1" for each that compiles without a
# warning, and the compiler's words for each that does not to HEADER.log.
set -eu

header=$1
probes=$2
shift 2

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

running=0
for probe in $probes; do
	name=$(basename "$probe" .c)
	(
		# An unused function or variable is no wrong guess.
		if "$@" -Werror -Wno-unused -Wno-missing-prototypes -Wno-missing-declarations \
			-DKBUILD_MODNAME='"probe"' -DKBUILD_BASENAME='"probe"' \
			-c -o "$work/$name.o" "$probe" >"$work/$name.log" 2>&1; then
			: >"$work/$name.yes"
		fi
	) &
	running=$((running + 1))
	[ $((running % 4)) -ne 0 ] || wait
done
wait

{
	echo "/* Made by probe.sh: what this kernel has. */"
	for probe in $probes; do
		name=$(basename "$probe" .c)
		macro=HUGEMAP_HAVE_$(echo "$name" | tr 'a-z-' 'A-Z_')
		if [ -f "$work/$name.yes" ]; then
			echo "#define $macro 1"
		else
			echo "/* no $macro */"
		fi
	done
} >"$work/header"
for probe in $probes; do
	name=$(basename "$probe" .c)
	[ -f "$work/$name.yes" ] || cat "$work/$name.log"
done >"$header.log"
mv "$work/header" "$header"
