#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR MIT
#
# The command `hugemap` with the module: mount, remount, umount, stat and top, their error
# messages, and the helper of mount(8).
#
# vm: lower=none programs=hugemap timeout=120
set -u

status=0
fail() {
	echo "FAILED: $*"
	[ -s "$output" ] && sed 's/^/  /' "$output"
	status=1
}

lower=$SCRATCH/lower
mnt=$SCRATCH/mnt
output=$SCRATCH/output
mkdir "$lower" "$mnt"
dd if=/dev/zero of="$lower/file" bs=1M count=8 2>/dev/null
is_mounted() {
	grep -q " $mnt hugemap " /proc/mounts
}

# STATUS TEXT COMMAND...: its exit status, and a pattern of its output; "": no output
check() {
	wanted=$1 text=$2
	shift 2
	"$@" >"$output" 2>&1
	result=$?
	[ $result = "$wanted" ] || fail "$*: exit status $result, expected $wanted"
	if [ -z "$text" ]; then
		[ -s "$output" ] && fail "$*: prints something"
	else
		grep -q -- "$text" "$output" || fail "$*: does not print '$text'"
	fi
}

# --- refused mounts: the user sees the kernel's message, and nothing is mounted ---
check 1 "pool=much is no size" hugemap mount -o pool=much "$lower" "$mnt"
check 1 "page=3M is not known" hugemap mount -o pool=16M,page=3M "$lower" "$mnt"
check 1 "Unknown parameter 'nonsense'" hugemap mount -o pool=16M,nonsense=1 "$lower" "$mnt"
check 1 "pool=1T is too much" hugemap mount -o pool=1T "$lower" "$mnt"
check 1 "no mount of HugeMap" hugemap umount "$mnt"
is_mounted && fail "a refused mount was made"

# --- mount ---
check 0 "could be mounted" hugemap mount -f -o pool=16M "$lower" "$mnt"
is_mounted && fail "--fake mounted"
check 0 "is mounted at" hugemap mount -o pool=16M,page=2M,nosuid,noatime "$lower" "$mnt"
is_mounted || fail "mount mounted nothing"
grep " $mnt hugemap rw,nosuid,noatime,.*pool=16M" /proc/mounts >/dev/null ||
	fail "/proc/mounts lacks options of mount"
check 1 "on a mount of HugeMap already" hugemap mount -o pool=16M "$mnt" "$MNT"
check 1 "is mounted already" hugemap mount -o pool=16M "$lower" "$MNT"

# --- numbers ---
dd if="$mnt/file" of=/dev/null bs=1M 2>/dev/null
check 0 "^$mnt ($lower)" hugemap stat "$mnt/file"
check 0 "huge  *8.0 MB of what is resident, 100 %" hugemap stat "$mnt"
check 0 '"huge_percent": 100' hugemap stat --json "$mnt"
check 0 "  file: 8.0 MB in 2 MB pages, 0 B in 4 KB, of 8.0 MB; 0 B not written" \
	hugemap top --count 1 --interval 0.1 "$mnt/file"
check 0 "^  \[####\]$" hugemap top --count 1 --interval 0.1 "$mnt/file"
check 1 "is no file of a mount of HugeMap" hugemap top --count 1 "$lower/file"
check 1 "No such file" hugemap top --count 1 "$mnt/nothing"
check 0 '"copied_out_bytes": 8388608' hugemap stat --json "$mnt"
check 0 "^$mnt .* 16 MB" hugemap stat
check 0 "/mnt .*16 MB" hugemap top --count 1 --interval 0.1
# The exit status of doctor concerns steering only.
hugemap doctor --dir "$SCRATCH" >"$output"
grep -q "serves $mnt" "$output" || fail "doctor does not list the mount"

# --- remount ---
check 0 "" hugemap mount -o remount,dirty_ratio=40,ro "$mnt"
grep " $mnt hugemap ro,.*dirty_ratio=40" /proc/mounts >/dev/null ||
	fail "/proc/mounts lacks options of remount"
check 1 "page size cannot change" hugemap mount -o remount,page=4K "$mnt"
check 1 "dirty_ratio=0 is out of range" hugemap mount -o remount,dirty_ratio=0 "$mnt"
check 0 "" hugemap mount -o remount,rw "$mnt"
grep " $mnt hugemap rw,.*dirty_ratio=40" /proc/mounts >/dev/null ||
	fail "remount,rw did not keep the options"

# --- restrictions of the lower mount hold here, too ---
strict=$SCRATCH/strict
over=$SCRATCH/over
mkdir "$strict" "$over"
mount -t tmpfs -o nosuid,nodev,noexec strict "$strict"
check 0 "is mounted at" hugemap mount -o pool=16M "$strict" "$over"
grep " $over hugemap rw,nosuid,nodev,noexec," /proc/mounts >/dev/null ||
	fail "a restriction of the lower mount is missing"
check 0 "" hugemap umount "$over"
check 0 "is mounted at" hugemap mount -o pool=16M,suid "$strict" "$over"
grep " $over hugemap rw,nodev,noexec," /proc/mounts >/dev/null ||
	fail "the option suid did not replace nosuid"
check 0 "" hugemap umount "$over"
umount "$strict"
rmdir "$strict" "$over"

# --- umount ---
check 1 "that is $mnt" hugemap umount "$mnt/."/../mnt/file
sleep 60 <"$mnt/file" &
holder=$!
(cd "$mnt" && exec sleep 60) &
worker=$!
sleep 1
check 1 "is in use" hugemap umount "$mnt"
grep -q "process $holder (sleep).*has open $mnt/file" "$output" || fail "the process with an open file is not named"
grep -q "process $worker (sleep).*works in a directory" "$output" || fail "the process with a working directory is not named"
is_mounted || fail "a refused unmount unmounted it"
kill $worker
wait $worker 2>/dev/null
echo stored >>"$mnt/file"
check 0 "" hugemap umount --lazy "$mnt"
is_mounted && fail "umount --lazy did not unmount it"
kill $holder
wait $holder 2>/dev/null
tail -n 1 "$lower/file" | grep -q stored || fail "a write before umount --lazy is lost"

# --- memory: a second pool of 60 % does not fit beside one of 40 % ---
check 0 "is mounted at" hugemap mount -o pool=40%,page=4K "$lower" "$mnt"
check 1 "does not fit" hugemap mount -o pool=60%,page=4K "$lower" "$MNT"
check 0 "" hugemap umount "$mnt"

# --- a device ---
dd if=/dev/zero of="$DEV" bs=1M count=1 2>/dev/null
check 0 "is mounted at" hugemap mount -o pool=16M,page=4K "$DEV" "$mnt"
check 1 "is in use" hugemap mount -o pool=16M "$DEV" "$MNT"
check 0 "" hugemap umount "$mnt"

# --- the helper, called as mount(8) does ---
ln -s "$(command -v hugemap)" "$SCRATCH/mount.hugemap"
check 0 "" "$SCRATCH/mount.hugemap" "$lower" "$mnt" -n -o rw,noauto,x-any=1,pool=16M
is_mounted || fail "the helper mounted nothing"
check 0 "" hugemap umount "$mnt"
check 32 "Unknown parameter" "$SCRATCH/mount.hugemap" "$lower" "$mnt" -o pool=16M,nonsense
check 0 "" "$SCRATCH/mount.hugemap" "$lower" "$mnt" -s -o pool=16M,nonsense
check 0 "" hugemap umount "$mnt"
check 32 "is no mount" "$SCRATCH/mount.hugemap" "$lower" "$mnt" -o remount,pool=16M
check 0 "quarter of this machine" "$SCRATCH/mount.hugemap" "$lower" "$mnt"
check 0 "" hugemap umount "$mnt"
rm -f "$SCRATCH/mount.hugemap" "$output" "$lower/file"
rmdir "$lower" "$mnt"
exit $status
