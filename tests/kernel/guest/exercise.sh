#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR MIT
#
# The exerciser (tests/exercise) does random operations on the mount. It compares every byte
# that they return, and the lower file after each sync. The modes:
#	one		one process
#	many		several processes, whose files together exceed the pool
#	threads		threads on neighbouring pages of one file
#	remount, drop	unmounts and mounts again, or drops caches, from time to time
#	hunt*		a million operations and more
#
# vm: name=one args=one page=2M,4K,auto lower=ext4,xfs timeout=300
# vm: name=many args=many page=2M pool=24M timeout=300
# vm: name=many_4K args=many page=4K pool=24M timeout=300 set=long
# vm: name=threads args=threads page=2M,4K,auto pool=24M timeout=300
# vm: name=remount args=remount page=2M timeout=300
# vm: name=remount_4K args=remount page=4K timeout=300 set=long
# vm: name=drop args=drop page=2M timeout=300
# vm: name=drop_4K args=drop page=4K timeout=300 set=long
# vm: name=noahead args=one page=2M pool=16M opts=readahead=0,evict_batch=1,dirty_ratio=10 timeout=300
# vm: name=noahead_4K args=one page=4K pool=16M opts=readahead=0,evict_batch=1,dirty_ratio=10 timeout=300 set=long
# vm: name=tmpfs args=one lower=tmpfs timeout=300 set=long
# vm: name=hunt args=hunt page=2M,4K,auto lower=ext4,xfs pool=48M set=long timeout=7200
# vm: name=hunt_threads args=hunt_threads pool=48M set=long timeout=7200
#
# SEED=n and OPS=n in the environment repeat a failure. `make test` sets QUICK=1.
set -eu

mode=${1:-one}
seed=${SEED:-1}
file=$MNT/exercise
mnt=$MNT
pool=${POOL:-64M}
page=${PAGE:-auto}
divisor=1
[ "${QUICK:-0}" = 0 ] || divisor=5
[ "${SLOW:-0}" = 0 ] || divisor=4

exercise() {
	hugemap-exercise --seed "$seed" --verify-lower "$LOWER" "$@" "$file"
}

case "$mode" in
one) exercise --ops "${OPS:-$((6000 / divisor))}" --pollute ;;
many) exercise --ops "${OPS:-$((2500 / divisor))}" --processes 3 --size 16M ;;
threads) exercise --ops "${OPS:-$((2000 / divisor))}" --processes 2 --threads 3 --size 16773217 ;;
remount)
	[ "$MNT" != "$LOWER" ] || {
		echo "MNT is not a mount"
		exit 77
	}
	cd /
	exercise --ops "${OPS:-$((4000 / divisor))}" --processes 2 --hook-every 500 \
		--hook "umount $mnt && mount -t hugemap -o pool=$pool,page=$page $LOWER $mnt"
	;;
drop)
	exercise --ops "${OPS:-$((4000 / divisor))}" --processes 2 --hook-every 250 --hook-open \
		--hook "echo 3 >/proc/sys/vm/drop_caches; echo 1 >/proc/sys/vm/compact_memory || true"
	;;
hunt)
	exercise --ops "${OPS:-$((250000 / divisor))}" --processes 4 --size 24M --pollute
	;;
hunt_threads)
	exercise --ops "${OPS:-$((100000 / divisor))}" --processes 2 --threads 5 --size 33554499
	;;
*)
	echo "no such mode: $mode"
	exit 2
	;;
esac
