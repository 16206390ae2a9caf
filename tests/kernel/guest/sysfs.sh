#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR MIT
#
# /sys/fs/hugemap/<major>:<minor> has the settings below and the numbers of
# include/hugemap_counters.def, and no other files. Settings can be written, counters grow, and
# an unmount works while a process uses the files.
#
# vm: page=2M,4K,auto lower=ext4
# vm: page=2M lower=dev
set -u

fixed="node page pool_bytes"
writable="dirty_ratio evict_batch pool_min_bytes priority promote_batch promote_interval_ms
	readahead_kb vfs_read_optimization util_threshold vfs_write_optimization"
# KINDS: the names of the entries of these kinds; vm/run.py puts the list beside the test.
counters() {
	sed -nE "s/^HUGEMAP_($1)\\([A-Z_]+, ([a-z_]+),.*/\\2/p" /tests/hugemap_counters.def
}
numbers=$(counters 'GAUGE|CORE|MODULE')
latencies=$(counters LATENCY)

status=0
fail() {
	echo "FAILED: $*"
	status=1
}

id_of() {
	awk -v dir="$1" '$5 == dir { id = $3 } END { print id }' /proc/self/mountinfo
}

sorted() {
	for word in "$@"; do
		echo "$word"
	done | sort | tr '\n' ' '
}

dir=/sys/fs/hugemap/$(id_of "$MNT")
[ -d "$dir" ] || {
	echo "FAILED: there is no $dir"
	exit 1
}

# --- names and modes ---
# shellcheck disable=SC2046,SC2086 # lists of words
{
	found=$(sorted $(ls "$dir"))
	wanted=$(sorted $fixed $writable stats)
	[ "$found" = "$wanted" ] || fail "files: $found; expected: $wanted"
	found=$(sorted $(ls "$dir/stats"))
	wanted=$(sorted $numbers $latencies)
	[ "$found" = "$wanted" ] || fail "stats: $found; expected: $wanted"
}
for file in $fixed; do
	[ "$(stat -c %a "$dir/$file")" = 444 ] || fail "mode of $file: $(stat -c %a "$dir/$file")"
done
for file in $writable; do
	[ "$(stat -c %a "$dir/$file")" = 644 ] || fail "mode of $file: $(stat -c %a "$dir/$file")"
done
for file in $numbers; do
	grep -Eqx '[0-9]+' "$dir/stats/$file" || fail "$file: $(cat "$dir/stats/$file")"
done
for file in $latencies; do
	grep -Eqx '[0-9]+( [0-9]+){5}' "$dir/stats/$file" || fail "$file: $(cat "$dir/stats/$file")"
done

# --- settings ---
[ "$(cat "$dir/page")" = "$PAGE" ] || fail "page: $(cat "$dir/page")"
[ "$(cat "$dir/pool_bytes")" = $((${POOL%M} * 1048576)) ] ||
	fail "pool_bytes: $(cat "$dir/pool_bytes")"

# FILE VALUE EXPECTED: write VALUE, which may be refused, and compare the file with EXPECTED
check_write() {
	before=$(cat "$dir/$1")
	{ echo "$2" >"$dir/$1"; } 2>/dev/null
	after=$(cat "$dir/$1")
	[ "$after" = "$3" ] || fail "$1: $before, then $after after a write of $2, expected $3"
}

check_write dirty_ratio 50 50
grep " $MNT hugemap .*dirty_ratio=50" /proc/mounts >/dev/null || fail "/proc/mounts lacks dirty_ratio=50"
for value in 0 96 -1 much '' 99999999999999999999 '1 2' 5000000000000000000000000000000000000000; do
	check_write dirty_ratio "$value" 50
done
check_write evict_batch 8 8
check_write pool_min_bytes 50% $((${POOL%M} * 524288))
check_write pool_min_bytes 16M 16777216
check_write pool_min_bytes 101% 16777216
check_write pool_min_bytes 0% 16777216
check_write pool_min_bytes 1 8388608
check_write pool_min_bytes 1T $((${POOL%M} * 1048576))
check_write util_threshold 0 0
check_write util_threshold 101 0
check_write promote_interval_ms 10 10
check_write promote_interval_ms 3600000 3600000
check_write promote_interval_ms 9 3600000
check_write promote_interval_ms 3600001 3600000
check_write promote_interval_ms soon 3600000
grep " $MNT hugemap .*promote_interval=3600000" /proc/mounts >/dev/null ||
	fail "/proc/mounts lacks promote_interval=3600000"
check_write promote_batch 1 1
check_write promote_batch 65536 65536
check_write promote_batch 0 65536
check_write promote_batch 65537 65536
check_write evict_batch 65 8
check_write readahead_kb 0 0
check_write readahead_kb 4096 4096
check_write priority high high
check_write priority loud high
check_write priority low low
check_write vfs_read_optimization off off
check_write vfs_read_optimization maybe off
check_write vfs_read_optimization on on
check_write vfs_write_optimization off off
check_write pool_bytes 1073741824 $((${POOL%M} * 1048576))
check_write node 0 any
mount -o remount,dirty_ratio=60,vfs_write_optimization=on,promote_batch=7 "$MNT" ||
	fail "remount failed"
[ "$(cat "$dir/dirty_ratio") $(cat "$dir/vfs_write_optimization")" = "60 on" ] ||
	fail "the files do not show the options of a remount"
[ "$(cat "$dir/promote_batch") $(cat "$dir/promote_interval_ms")" = "7 3600000" ] ||
	fail "remount did not change promote_batch only"

# --- numbers ---
number() {
	cat "$dir/stats/$1"
}
grew() {
	[ "$(number "$1")" -ge $(($2 + $3)) ] ||
		fail "$1: $2, then $(number "$1"), expected at least $3 more"
}

# A mount of a device has one file, with the name of the device.
file=$MNT/${DEV##*/}
# A file that already has its length is written in whole blocks.
[ -e "$file" ] || {
	file=$MNT/file
	truncate -s 8M "$file"
}
bytes=$((8 * 1048576))
copied=$(number copied_in_bytes)
written=$(number written_bytes)
syncs=$(number syncs)
out=$(number copied_out_bytes)
dd if=/dev/zero of="$file" bs=1M count=8 conv=notrunc,fsync 2>/dev/null ||
	fail "dd for writing"
grew copied_in_bytes "$copied" $bytes
grew written_bytes "$written" $bytes
grew syncs "$syncs" 1
[ "$(number dirty_bytes)" = 0 ] || fail "dirty after a sync: $(number dirty_bytes)"
dd if="$file" of=/dev/null bs=1M count=8 2>/dev/null || fail "dd for reading"
grew copied_out_bytes "$out" $bytes
[ $(($(number free_bytes) + $(number resident_bytes))) = "$(number memory_bytes)" ] ||
	fail "free_bytes + resident_bytes is not memory_bytes"
[ "$(number resident_bytes)" -ge $bytes ] || fail "resident: $(number resident_bytes)"
case $PAGE in
2M) [ "$(number huge_bytes)" -ge $bytes ] || fail "huge: $(number huge_bytes)" ;;
4K) [ "$(number huge_bytes)" = 0 ] || fail "huge: $(number huge_bytes)" ;;
esac

# --- unmount while another process uses the files ---
lower=$SCRATCH/lower
mnt=$SCRATCH/mnt
mkdir "$lower" "$mnt"
n=0
while [ $n -lt 10 ]; do
	mount -t hugemap -o pool=16M "$lower" "$mnt" || {
		fail "mount $n"
		break
	}
	other=/sys/fs/hugemap/$(id_of "$mnt")
	[ -d "$other" ] || fail "no $other"
	(
		exec 3<"$other/stats/faults"
		: >"$SCRATCH/reading"
		while echo 70 && echo 71 && cat "$other/stats/fault_ns" >&2; do
			:
		done >"$other/dirty_ratio"
		# A read of the open file must fail: the mount has been freed.
		cat <&3 >/dev/null && exit 1
		exit 0
	) 2>/dev/null &
	reader=$!
	until [ -e "$SCRATCH/reading" ]; do
		sleep 1
	done
	rm "$SCRATCH/reading"
	umount "$mnt" || fail "umount $n"
	[ -e "$other" ] && fail "$other is still there"
	wait $reader || fail "a file of an unmounted mount could be read"
	n=$((n + 1))
done
rmdir "$lower" "$mnt"
exit $status
