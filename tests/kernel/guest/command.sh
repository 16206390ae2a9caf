#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR MIT
#
# The command on the real thing: mount, its refusals in the kernel's words, remount,
# stat, top, who is in the way of an unmount, unmount; and mount(8) with the helper.
#
# vm: lower=none programs=hugemap timeout=120
set -u

status=0
fail() {
	echo "FAILED: $*"
	[ -s "$said" ] && sed 's/^/  /' "$said"
	status=1
}

below=$SCRATCH/below
at=$SCRATCH/at
said=$SCRATCH/said
mkdir "$below" "$at"
dd if=/dev/zero of="$below/file" bs=1M count=8 2>/dev/null
is_mounted() {
	grep -q " $at hugemap " /proc/mounts
}

# STATUS WORDS COMMAND...: what it answers, and that it says so; "": nothing at all
check() {
	wanted=$1 words=$2
	shift 2
	"$@" >"$said" 2>&1
	is=$?
	[ $is = "$wanted" ] || fail "$*: $is, not $wanted"
	if [ -z "$words" ]; then
		[ -s "$said" ] && fail "$*: says something"
	else
		grep -q -- "$words" "$said" || fail "$*: does not say '$words'"
	fi
}

# --- refusals: what the kernel says reaches the user, and nothing is mounted ---
check 1 "pool=much is no size" hugemap mount -o pool=much "$below" "$at"
check 1 "page=3M is not known" hugemap mount -o pool=16M,page=3M "$below" "$at"
check 1 "Unknown parameter 'nonsense'" hugemap mount -o pool=16M,nonsense=1 "$below" "$at"
check 1 "pool=1T is too much" hugemap mount -o pool=1T "$below" "$at"
check 1 "no mount of HugeMap" hugemap umount "$at"
is_mounted && fail "a refused mount is there"

# --- mount ---
check 0 "could be mounted" hugemap mount -f -o pool=16M "$below" "$at"
is_mounted && fail "--fake mounted"
check 0 "is mounted at" hugemap mount -o pool=16M,page=2M,nosuid,noatime "$below" "$at"
is_mounted || fail "it is not mounted"
grep " $at hugemap rw,nosuid,noatime,.*pool=16M" /proc/mounts >/dev/null || fail "options"
check 1 "on a mount of HugeMap already" hugemap mount -o pool=16M "$at" "$MNT"
check 1 "is mounted already" hugemap mount -o pool=16M "$below" "$MNT"

# --- numbers ---
dd if="$at/file" of=/dev/null bs=1M 2>/dev/null
check 0 "^$at ($below)" hugemap stat "$at/file"
check 0 "huge  *8.0 MB of what is resident, 100 %" hugemap stat "$at"
check 0 '"huge_percent": 100' hugemap stat --json "$at"
check 0 "  file: 8.0 MB in 2 MB pages, 0 B in 4 KB, of 8.0 MB; 0 B not written" \
	hugemap top --count 1 --interval 0.1 "$at/file"
check 0 "^  \[####\]$" hugemap top --count 1 --interval 0.1 "$at/file"
check 1 "is no file of a mount of HugeMap" hugemap top --count 1 "$below/file"
check 1 "No such file" hugemap top --count 1 "$at/nothing"
check 0 '"copied_out": 8388608' hugemap stat --json "$at"
check 0 "^$at .* 16 MB" hugemap stat
check 0 "/at .*16 MB" hugemap top --count 1 --interval 0.1
# The exit status of doctor is about steering.
hugemap doctor --dir "$SCRATCH" >"$said"
grep -q "serves $at" "$said" || fail "doctor does not know it"

# --- remount ---
check 0 "" hugemap mount -o remount,dirty_ratio=40,ro "$at"
grep " $at hugemap ro,.*dirty_ratio=40" /proc/mounts >/dev/null || fail "remount"
check 1 "page size cannot change" hugemap mount -o remount,page=4K "$at"
check 1 "dirty_ratio=0 is out of range" hugemap mount -o remount,dirty_ratio=0 "$at"
check 0 "" hugemap mount -o remount,rw "$at"
grep " $at hugemap rw,.*dirty_ratio=40" /proc/mounts >/dev/null || fail "remount,rw"

# --- what is not allowed below ---
strict=$SCRATCH/strict
over=$SCRATCH/over
mkdir "$strict" "$over"
mount -t tmpfs -o nosuid,nodev,noexec strict "$strict"
check 0 "is mounted at" hugemap mount -o pool=16M "$strict" "$over"
grep " $over hugemap rw,nosuid,nodev,noexec," /proc/mounts >/dev/null || fail "more is allowed"
check 0 "" hugemap umount "$over"
check 0 "is mounted at" hugemap mount -o pool=16M,suid "$strict" "$over"
grep " $over hugemap rw,nodev,noexec," /proc/mounts >/dev/null || fail "suid was asked for"
check 0 "" hugemap umount "$over"
umount "$strict"
rmdir "$strict" "$over"

# --- umount ---
check 1 "that is $at" hugemap umount "$at/."/../at/file
sleep 60 <"$at/file" &
holder=$!
(cd "$at" && exec sleep 60) &
worker=$!
sleep 1
check 1 "is in use" hugemap umount "$at"
grep -q "process $holder (sleep).*has open $at/file" "$said" || fail "who has it open"
grep -q "process $worker (sleep).*works in a directory" "$said" || fail "who works there"
is_mounted || fail "a refused unmount took it away"
kill $worker
wait $worker 2>/dev/null
echo stored >>"$at/file"
check 0 "" hugemap umount --lazy "$at"
is_mounted && fail "--lazy left it"
kill $holder
wait $holder 2>/dev/null
tail -n 1 "$below/file" | grep -q stored || fail "what was stored is lost"

# --- memory: the second pool does not fit beside the first ---
check 0 "is mounted at" hugemap mount -o pool=40%,page=4K "$below" "$at"
check 1 "does not fit" hugemap mount -o pool=60%,page=4K "$below" "$MNT"
check 0 "" hugemap umount "$at"

# --- a device ---
dd if=/dev/zero of="$DEV" bs=1M count=1 2>/dev/null
check 0 "is mounted at" hugemap mount -o pool=16M,page=4K "$DEV" "$at"
check 1 "is in use" hugemap mount -o pool=16M "$DEV" "$MNT"
check 0 "" hugemap umount "$at"

# --- the helper, as mount(8) calls it ---
ln -s "$(command -v hugemap)" "$SCRATCH/mount.hugemap"
check 0 "" "$SCRATCH/mount.hugemap" "$below" "$at" -n -o rw,noauto,x-any=1,pool=16M
is_mounted || fail "the helper mounted nothing"
check 0 "" hugemap umount "$at"
check 32 "Unknown parameter" "$SCRATCH/mount.hugemap" "$below" "$at" -o pool=16M,nonsense
check 0 "" "$SCRATCH/mount.hugemap" "$below" "$at" -s -o pool=16M,nonsense
check 0 "" hugemap umount "$at"
check 32 "is no mount" "$SCRATCH/mount.hugemap" "$below" "$at" -o remount,pool=16M
check 0 "quarter of this machine" "$SCRATCH/mount.hugemap" "$below" "$at"
check 0 "" hugemap umount "$at"
rm -f "$SCRATCH/mount.hugemap" "$said" "$below/file"
rmdir "$below" "$at"
exit $status
